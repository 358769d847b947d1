r"""The paper's figure of batch sizes (Fig. 9): the bias learned from a few of the unlabeled rows.

python -m experiments.score --config=configs/probe_size.py \
    --config.model=DIR --config.data=DATA --workdir=W
python -m experiments.calibrate --config=configs/probe_size.py --workdir=W

These are contexts of configs/main_table.py; how many rows BC and PC see is chosen afterward. The
paper's BC is within noise of its best from about 10 rows on.

`--config=configs/probe_size.py:mini` are contexts of configs/mini.py; the axis ends at their 500
test rows. In both, bc_running also sees the rows in 100 random orders.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep
MINI = base.MINI | {
    "tasks": ("sst2", "mnli", "rte"),
    "over_long": "error",
    "probe_sizes": (2, 5, 10, 20, 50, 100, 200),
}
SMALL = {"limit": 40, "seeds": 1, "labeled_per_class": 16}


def get_config(preset: str = "") -> ConfigDict:
    """On real rows, with `:mini` on the embedded suite; `:smoke`, `:mini_smoke`: small runs."""
    return base.config(
        preset,
        {"smoke": base.FEW_ROWS, "mini": MINI, "mini_smoke": SMALL},
        tasks=("rte",),
        seeds=5,
        over_long="drop_shots",
        probe_sizes=(2, 5, 10, 20, 50, 100, 200, 500),
        stream_orders=100,
    )

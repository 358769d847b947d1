r"""The paper's figure of batch sizes (Fig. 9): the bias learned from a few of the unlabeled rows.

python -m experiments.score --config=configs/probe_size.py \
    --config.model=DIR --config.data=DATA --workdir=W
python -m experiments.calibrate --config=configs/probe_size.py --workdir=W

The contexts belong to configs/main_table.py; calibration sets the numbers of rows that BC and PC
see. The paper's BC is within noise of its best accuracy from about 10 rows on.

`--config=configs/probe_size.py:mini` takes contexts of configs/mini.py; the axis ends at their 500
test rows. In both studies, bc_running also sees the rows in 100 random orders.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep
MINI = base.MINI | {
    "tasks": ("sst2", "mnli", "rte"),
    "over_long": "error",
    "probe_sizes": (2, 5, 10, 20, 50, 100, 200),
}
SMALL = {"limit": 40, "seeds": 1}


def get_config(preset: str = "") -> ConfigDict:
    """Configures the study on real rows, or with `:mini` on the embedded suite.

    `:smoke` and `:mini_smoke` are small runs.
    """
    return base.config(
        preset,
        {"smoke": base.FEW_ROWS, "mini": MINI, "mini_smoke": SMALL},
        tasks=("rte",),
        seeds=5,
        over_long="drop_shots",
        probe_sizes=(2, 5, 10, 20, 50, 100, 200, 500),
        stream_orders=100,
    )

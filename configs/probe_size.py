r"""The paper's figure of batch sizes (Fig. 9): the bias learned from a few of the unlabeled rows.

python -m experiments.score --config=configs/probe_size.py \
    --config.model=DIR --config.data=DATA --workdir=W
python -m experiments.calibrate --config=configs/probe_size.py --workdir=W

These are contexts of configs/main_table.py; how many rows BC and PC see is chosen afterward. The
paper's BC is within noise of its best from about 10 rows on.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset, base.FEW_ROWS, tasks=("rte",), seeds=5, over_long="drop_shots",
        probe_sizes=(2, 5, 10, 20, 50, 100, 200, 500), stream_orders=100,
    )  # fmt: skip

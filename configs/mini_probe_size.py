"""The paper's Fig. 9 (batch sizes) on the embedded suite: the bias learned from a few rows.

python -m experiments.score --config=configs/mini_probe_size.py --workdir=W
python -m experiments.calibrate --config=configs/mini_probe_size.py --workdir=W

These are contexts of configs/mini.py; how many rows BC and PC see is chosen afterward, as is in how
many random orders the rows come to bc_running. The axis ends at the 500 test rows. In the paper BC
is within noise of its best from about 10 rows on.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"limit": 40, "seeds": 1, "labeled_per_class": 16},
        tasks=("sst2", "mnli", "rte"),
        probe_sizes=(2, 5, 10, 20, 50, 100, 200),
        stream_orders=100,
        **base.MINI,
    )

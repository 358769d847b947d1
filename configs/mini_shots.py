"""The paper's Fig. 6 (shots) on the embedded suite: three tasks, 0 to 4 per class, 5 seeds.

python -m experiments.score --config=configs/mini_shots.py --workdir=W

`config.shots` is the most shots per class; contexts of one shot are shared with configs/mini.py.
Expect BC ahead of ICL or level with it (SST-2 at three shots is 0.9 points behind), and MNLI to
rise up to two shots and to fall beyond; docs/mini.md has the table.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep_shots


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"limit": 40, "shots": 2, "seeds": 2},
        tasks=("sst2", "mnli", "qnli"),
        shots=4,
        labeled_per_class=0,
        **base.MINI,
    )

"""The paper's zero-shot table (Table 5) on the embedded suite: 13 tasks, no demonstrations.

python -m experiments.score --config=configs/mini_zero_shot.py --workdir=W
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"tasks": ("sst2", "mnli"), "limit": 40},
        tasks=base.LANGUAGE,
        shots=0,
        labeled_per_class=0,
        **base.MINI,
    )

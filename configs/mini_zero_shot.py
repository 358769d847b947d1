"""The paper's zero-shot table (Table 5) on the embedded suite: 13 tasks, no demonstrations.

python -m experiments.score --config=configs/mini_zero_shot.py --workdir=W

No seeds, for nothing is drawn: 13 contexts. Expect less than at 1 shot, such as SST-2 ICL 76.4 and
BC 78.4, MNLI 68.6 and 78.8 % (docs/mini.md).
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

"""The paper's Table 2 on the embedded suite: 13 tasks, 1 shot per class, 5 seeds.

python -m experiments.score --config=configs/mini.py --workdir=W

Expect on average ICL 77.1, CC 65.2, DC 77.5, PC 78.9, BC 79.4 %. The 65 contexts with 55,800
prompts take 114 s of processor time.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep
SMOKE = {"tasks": ("sst2", "mnli"), "limit": 40, "seeds": 1, "labeled_per_class": 16}


def get_config(preset: str = "") -> ConfigDict:
    """Configures the whole study, or with `:smoke` a small run."""
    return base.config(
        preset, {"smoke": SMOKE}, tasks=base.LANGUAGE, labeled_per_class=128, **base.MINI
    )

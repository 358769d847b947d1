r"""The paper's table of BCL (Table 3): 13 tasks, 1 shot per class, one context, a labeled set.

python -m experiments.score --config=configs/bcl.py \
    --config.model=DIR --config.data=DATA --workdir=W

The labeled set is min(k * 128, available) random training rows without the demonstrations, as in
the paper. These are the first seed's contexts of configs/main_table.py: in one workdir they are
scored once. Expect 1 point over BC on average, as the paper has it.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(preset, base.SMOKE, tasks=base.LANGUAGE, over_long="drop_shots")

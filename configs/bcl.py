r"""The paper's table of BCL (Table 3): 13 tasks, 1 shot per class, one context, a labeled set.

python -m experiments.score --config=configs/bcl.py \
    --config.model=DIR --config.data=DATA --workdir=W

The labeled set has min(k * 128, available) random training rows without the demonstrations, as in
the paper. The contexts equal the first seed's contexts of configs/main_table.py, so one workdir
scores them only once. Expect BCL to exceed BC by 1 point on average, as in the paper.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep


def get_config(preset: str = "") -> ConfigDict:
    """Configures the whole study, or with `:smoke` a small run."""
    return base.config(
        preset, base.SMOKE, tasks=base.LANGUAGE, labeled_per_class=128, over_long="drop_shots"
    )

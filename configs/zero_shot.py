r"""The paper's zero-shot table (Table 5): 13 tasks, zero-shot templates, one context each.

python -m experiments.score --config=configs/zero_shot.py \
    --config.model=DIR --config.data=DATA --workdir=W

Of the paper's two models only PaLM 2-S is asked without demonstrations: ICL 63.03, BC 64.09 on
average. Its other half, 67.62 and 72.52, is PaLM 2-M with one shot: `--config.shots=1`.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(preset, base.FEW_ROWS, tasks=base.LANGUAGE, shots=0, over_long="drop_shots")

r"""The paper's main table (Table 2): 13 tasks, 1 shot per class, 5 seeds, every method.

python -m experiments.score --config=configs/main_table.py \
    --config.model=DIR --config.data=DATA --workdir=W

The paper's averages with PaLM 2-S, 1 shot: ICL 66.20, CC 62.39, DC 64.98, PC 67.65, BC 74.41. Four
shots exceed GPT-2's 1,024 positions on some tasks, so long prompts lose demonstrations; tables mark
and count these prompts.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep


def get_config(preset: str = "") -> ConfigDict:
    """Configures the whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        base.SMOKE,
        tasks=base.LANGUAGE,
        seeds=5,
        labeled_per_class=128,
        over_long="drop_shots",
    )

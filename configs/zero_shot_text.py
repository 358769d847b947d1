r"""Zero-shot text classification with a sentence encoder: cosine of text and label statement.

python -m experiments.score --config=configs/zero_shot_text.py \
    --config.model=DIR --config.data=DATA --workdir=W

With all-MiniLM-L6-v2, ICL / BC: SST-2 69.0 / 71.0, MR 61.9 / 66.6, AG News 64.7 / 65.9, TREC 54.2 /
52.2 (docs/results.md). The scale 20 is 1 / 0.05, usual for sentence encoders.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"smoke": {"limit": 200}},
        scorer="dual_encoder",
        tasks=("sst2", "mr", "agnews", "trec"),
        shots=0,
        scale=20.0,
    )

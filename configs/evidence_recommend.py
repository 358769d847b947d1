"""Gains of `recommend`, with labels and without, on sources that chose none of its constants.

python -m experiments.score --config=configs/mini.py --workdir=W/mini
python -m experiments.score --config=configs/mini.py --config.model=mini_small --workdir=W/small
python -m experiments.evidence --config=configs/evidence_recommend.py \
    --config.embedded=W/mini,W/small --scores=../shared/scores --workdir=W/evidence \
    --page=docs/evidence-recommend.md

Sources: seven base models on MMLU, by subject and whole, also with A or B never right; 26
vision-language models on MMBench and OOD-CV with four and six letters; draws of these with uneven
shares; GPT-2 on BEAR; LLaMA-13B with ten demonstrations; both models of the embedded suite.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """All sources; `:smoke` is two."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({
        "study": "recommend",
        "embedded": (),
        "sources": (),
        "seed": 0,
        "draws": 10_000,
    })  # fmt: skip
    if smoke:
        config.update({
            "sources": ("mmlu_batch_uneven", "demonstrations"), "draws": 200,
        })  # fmt: skip
    return config.lock()

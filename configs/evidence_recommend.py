"""Gains of the advice, with and without labels, on sources not used to set its constants.

python -m experiments.score --config=configs/mini.py --workdir=W/mini
python -m experiments.score --config=configs/mini.py --config.model=mini_small --workdir=W/small
python -m experiments.score --config=configs/vision.py:mini --workdir=W/images
python -m experiments.evidence --config=configs/evidence_recommend.py \
    --config.embedded=W/mini,W/small,W/images --scores=../shared/scores --workdir=W/evidence \
    --page=docs/evidence.md

The sources are seven base models on MMLU, by subject and as a whole, also with A or B never right;
26 vision-language models on MMBench and OOD-CV with four and six letters; draws from these sources
with unequal label shares; GPT-2 on BEAR; LLaMA-13B with ten demonstrations; SmolLM2 and Gemma 3;
both models of the embedded suite; its images; and simulated raters who give grades. A folder of
`embedded` may hold the scores of several models, such as the folder of `make run`.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """Configures all sources, or with `:smoke` two of them."""
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

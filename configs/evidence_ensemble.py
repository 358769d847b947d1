"""Gain of averaging the answers of several corrected prompts, by the number of prompts.

python -m experiments.evidence --config=configs/evidence_ensemble.py --scores=../shared/scores \
    --workdir=W --page=docs/evidence.md

The contexts of a source have the same rows. The sources are seven base models on 56 MMLU subjects,
26 vision-language models on MMBench and OOD-CV, LLaMA-13B with ten demonstrations, and with
`embedded` the five draws of demonstrations of the embedded suite.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """Configures all sources, or with `:smoke` one set and two sizes."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({
        "study": "ensemble",
        "sets": ("mmlu", "mmbench", "oodcv", "demonstrations"),
        "embedded": (),
        # Size 1 is the correction without averaging. MMLU has 7 contexts, demonstrations has 10.
        "sizes": (1, 2, 3, 5, 10),
        "draws": 2,
        "most_rows": 400,
        "seed": 0,
    })  # fmt: skip
    if smoke:
        config.update({"sets": ("oodcv",), "sizes": (1, 3), "draws": 1, "most_rows": 100})
    return config.lock()

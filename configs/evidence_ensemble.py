"""Gain of averaging the answers of several corrected prompts, by how many there are.

python -m experiments.evidence --config=configs/evidence_ensemble.py --scores=../shared/scores \
    --workdir=W --page=docs/pooled-shares.md

Sources whose contexts have the same rows: seven base models on 56 MMLU subjects, 26 vision-language
models on MMBench and OOD-CV, LLaMA-13B with ten demonstrations, and with `embedded` the five draws
of demonstrations of the embedded suite.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """All sources; `:smoke` is one set and two sizes."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({
        "study": "ensemble",
        "sets": ("mmlu", "mmbench", "oodcv", "demonstrations"),
        "embedded": (),
        # One is the correction alone; MMLU has seven models, demonstrations ten.
        "sizes": (1, 2, 3, 5, 10),
        "draws": 2,
        "most_rows": 400,
        "seed": 0,
    })  # fmt: skip
    if smoke:
        config.update({"sets": ("oodcv",), "sizes": (1, 3), "draws": 1, "most_rows": 100})
    return config.lock()

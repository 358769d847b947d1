"""Every method on every context of real models, with gold labels: which method helps where.

python -m experiments.evidence --config=configs/evidence_real.py --scores=../shared/scores \
    --workdir=W --page=docs/evidence.md

`--config.sets=mmlu` takes only the first set, 7 models x 56 subjects. The 32 labeled rows per
context are few enough to label by hand. Expect BC to gain on MMLU and on OOD-CV's four options, and
to lose on sets with an option that is never right.
"""

from ml_collections import ConfigDict

from configs import base

MMLU = ("mmlu", "mmlu_neverA", "mmlu_neverB")
OTHERS = ("bear", "mmbench", "mmbench_AF", "oodcv", "oodcv_AF")
BATCHES = ("mmlu_batch", "mmlu_neverA_batch", "mmlu_neverB_batch")


def get_config(preset: str = "") -> ConfigDict:
    """Configures all sets, or with `:smoke` one set and three methods."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({
        "study": "real",
        "sets": (*MMLU, *OTHERS, *BATCHES),
        "drawn": (*MMLU, *OTHERS),
        "methods": (),
        "knowing": ("bc", "prior_matching"),
        "labeled": 32,
        "seed": 0,
        "draws": 10_000,
    })  # fmt: skip
    if smoke:
        config.update({"sets": ("oodcv",), "methods": ("icl", "bc", "bcl"), "draws": 200})
    return config.lock()

"""Unequal labels: a bias learned on one sample and applied to another with other label shares.

python -m experiments.evidence --config=configs/evidence_shares.py --scores=../shared/scores \
    --workdir=W --page=docs/evidence.md

With 1,000 rows per sample, the noise of the bias is small compared with the effect of the shares.
Expect a bias learned at equal shares to gain about 2 points on MMLU at all shares, and a bias
learned and applied at a share of 0.9 to lose 15.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """Configures all pairs of shares, or with `:smoke` the pairs of three shares."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({
        "study": "shares",
        "sets": (("mmlu_batch",), ("mmbench", "oodcv")),
        "shares": (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
        "size": 1000,
        "draws": 2,
        "methods": (),
        "seed": 0,
    })  # fmt: skip
    if smoke:
        config.update({
            "sets": (("oodcv",),), "shares": (0.1, 0.5, 0.9), "size": 100, "draws": 1,
            "methods": ("icl", "bc"),
        })  # fmt: skip
    return config.lock()

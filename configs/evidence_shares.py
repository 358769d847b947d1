"""Labels are not equal: a bias learned on one sample and applied to another with other shares.

python -m experiments.evidence --config=configs/evidence_shares.py --scores=../shared/scores \
    --workdir=W --page=docs/evidence.md

1,000 rows a sample: the noise of the bias itself is small beside what the shares do to it.
"""

from ml_collections import ConfigDict


def get_config(preset: str = "") -> ConfigDict:
    """All pairs of shares; `:smoke` is three of them."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/evidence_shares.py has no preset {preset!r}; there is: smoke")
    config = ConfigDict({
        "study": "shares",
        "sets": (("mmlu_batch",), ("mmbench", "oodcv")),
        "shares": (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
        "size": 1000,
        "draws": 2,
        "methods": (),
        "seed": 0,
    })  # fmt: skip
    if preset:
        config.update({
            "sets": (("oodcv",),), "shares": (0.1, 0.5, 0.9), "size": 100, "draws": 1,
            "methods": ("icl", "bc"),
        })  # fmt: skip
    return config.lock()

"""Gain predicted from three numbers of the scores, against the gain measured on other rows.

python -m experiments.score --config=configs/mini.py --workdir=W/mini
python -m experiments.score --config=configs/mini.py --config.model=mini_small --workdir=W/small
python -m experiments.evidence --config=configs/evidence_law.py --config.embedded=W/mini,W/small \
    --scores=../shared/scores --workdir=W/evidence --page=docs/when-it-helps.md

Each pair of labels of each pool, with eleven shares and five sizes, gives 19,470 cells of 33
models. Further cells are from single tasks and other models. Expect R² above 0.9 and the right sign
in 99 % of the cells with a gain or loss beyond a point.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """Configures all pools, or with `:smoke` a few cells of one set."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({
        "study": "law",
        "sets": ("mmlu_batch", "mmbench", "oodcv"),
        "never_right": ("mmlu_neverA_batch", "mmlu_neverB_batch"),
        "contexts": ("mmlu", "demonstrations"),
        "embedded": (),
        "shares": (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
        "sizes": (10, 30, 100, 300, 1000),
        "draws": 200,
        "labeled": 32,
        "repeats": 10,
        "seed": 0,
    })  # fmt: skip
    if smoke:
        config.update({
            "sets": ("mmlu_batch",), "never_right": (), "contexts": ("demonstrations",),
            "shares": (0.3, 0.5, 0.9), "sizes": (30, 100), "draws": 10, "repeats": 2,
        })  # fmt: skip
    return config.lock()

"""A judge's preference for a place, before and after a bias learned from one order.

python -m experiments.evidence --config=configs/evidence_judge.py --scores=../shared/scores \
    --workdir=W --page=docs/evidence-recommend.md

60 candidates, 805 instructions, one order each, no right labels. Expect wins of 8.3 % where the
candidate is shown first and 16.8 % where second, after BC 11 and 13 %.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """Everything; `:smoke` draws fewer bootstraps."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({"study": "judge", "seed": 0, "draws": 10_000})
    if smoke:
        config.update({"draws": 200})
    return config.lock()

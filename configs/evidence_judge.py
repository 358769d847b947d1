"""A judge's position bias, before and after a correction learned from one order.

python -m experiments.evidence --config=configs/evidence_judge.py --scores=../shared/scores \
    --workdir=W --page=docs/evidence.md

The judgments are of 60 candidates on 805 instructions, each in one order, without gold labels.
Expect the candidate to win 8.3 % of the pairs if it is shown first and 16.8 % if it is shown
second; after BC, 11 and 13 %.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """Configures the whole study, or with `:smoke` fewer bootstrap draws."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({"study": "judge", "seed": 0, "draws": 10_000})
    if smoke:
        config.update({"draws": 200})
    return config.lock()

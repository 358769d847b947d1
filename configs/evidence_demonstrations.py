"""Effect of corrections on accuracy and on its dependence on the demonstration in the prompt.

python -m experiments.evidence --config=configs/evidence_demonstrations.py \
    --scores=../shared/scores --workdir=W --page=docs/evidence.md

The scores are from LLaMA-13B on 16 MMLU subjects with ten one-shot prompts each. Empty `methods`
select all methods that learn from unlabeled rows without a loop. Expect BC to raise accuracy from
40.1 to 41.1 and to lower its standard deviation over prompts from 2.22 to 1.71 points.
"""

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """Configures all methods without labels, or with `:smoke` only BC."""
    smoke = base.is_smoke(preset)
    config = ConfigDict({
        "study": "demonstrations",
        "methods": (),
        "seed": 0,
        "draws": 10_000,
    })  # fmt: skip
    if smoke:
        config.update({"methods": ("bc",), "draws": 200})
    return config.lock()

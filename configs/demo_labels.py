"""Reading of demonstrations by a model: other labels on them, other words for labels.

python -m experiments.score --config=configs/demo_labels.py --workdir=W

Any model, by `--config.model=` and `--config.data=`; after calibrating,
`python -m experiments.demonstration_labels --workdir=W` makes the tables, which docs/results.md
explains. Of the three tasks one judges a text, two compare two texts; `config.shots` is the most
shots per class. No labeled set: BCL has no part in the question. Expect flipped labels to cost BC
20 to 65 points at 1 shot (docs/mini.md); 273 contexts, 232 s of processor time.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep_demonstration_labels


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"smoke": {"limit": 40, "shots": 1, "seeds": 2}},
        tasks=("sst2", "rte", "mrpc"),
        shots=4,
        labeled_per_class=0,
        **base.MINI,
    )

"""The effect of demonstrations with other labels, and with other words for the labels.

python -m experiments.score --config=configs/demo_labels.py --workdir=W

`--config.model=` and `--config.data=` select another model and its data. After calibration,
`python -m experiments.demonstration_labels --workdir=W` makes the tables; docs/results.md explains
them. One of the three tasks judges a text, and two compare two texts; `config.shots` is the maximum
number of shots per class. Expect flipped labels to cost BC 20 to 65 points at 1 shot
(docs/mini.md). The 273 contexts take 232 s of processor time.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep_demonstration_labels


def get_config(preset: str = "") -> ConfigDict:
    """Configures the whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"smoke": {"limit": 40, "shots": 1, "seeds": 2}},
        tasks=("sst2", "rte", "mrpc"),
        shots=4,
        **base.MINI,
    )

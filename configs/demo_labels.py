"""How much a model learns from its demonstrations: other labels on them, other words for labels.

python -m experiments.score --config=configs/demo_labels.py --workdir=W
python -m experiments.score --config=configs/demo_labels.py --config.model=DIR --config.data=DIR ...

Gold, random and flipped labels; words that name no label, drawn from two lists, those held out from
the embedded model's training also with flipped labels; 1, 2 and 4 shots per class (`config.shots`
is the most), 5 seeds; and no demonstrations. Of the three tasks one judges a text, two compare two
texts. docs/demonstration-labels.md says how to read the table.
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

from configs import base

SHOTS = (1, 2, 4)
CONDITIONS: tuple[dict[str, str], ...] = (
    {},
    {"demonstration_labels": "random"},
    {"demonstration_labels": "flipped"},
    {"label_words": "training"},
    {"label_words": "held_out"},
    {"label_words": "held_out", "demonstration_labels": "flipped"},
)


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"limit": 40, "shots": 1, "seeds": 2},
        tasks=("sst2", "rte", "mrpc"),
        shots=4,
        labeled_per_class=0,
        **base.MINI,
    )


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """No demonstrations; then each condition with each number of shots and seed."""
    for task in config.tasks:
        yield {"task": task, "seed": 0, "shots": 0}
        for shots in (n for n in SHOTS if n <= config.shots):
            for seed in range(config.seeds):
                for condition in CONDITIONS:
                    yield {"task": task, "seed": seed, "shots": shots, **condition}

"""The paper's ten verbalizers of RTE, emoji included, on the embedded suite.

python -m experiments.score --config=configs/mini_verbalizers.py --workdir=W

One seed: what varies is the verbalizer alone. Expect what docs/mini.md shows; 10 contexts, seconds.
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset, {"limit": 40}, tasks=("rte",), labeled_per_class=0, **base.MINI | {"seeds": 1}
    )


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """One context for each of RTE's ten verbalizers."""
    return base.sweep_named(config, "verbalizer")

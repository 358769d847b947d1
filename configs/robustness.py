r"""The paper's robustness study: one choice of the prompt at a time, the rest at its default.

python -m experiments.score --config=configs/robustness.py \
    --config.model=DIR --config.data=DATA --workdir=W

On RTE: ten draws of one training row in all as the context, the 24 orders of one draw of four rows
in all, the ten templates, and the ten verbalizers. `config.seeds` is the number of draws. Expect BC
to vary less than ICL on every axis (the paper's Fig. 8).
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

from configs import base


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"limit": 16, "dc_texts": 4},
        tasks=("rte",),
        seeds=10,
        labeled_per_class=0,
        over_long="drop_shots",
    )


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """Axis by axis; the seed varies on the axis of choices alone."""
    yield from base.sweep_orders(config)
    yield from base.sweep_named(config, "template")
    yield from base.sweep_named(config, "verbalizer")

r"""The paper's robustness study: one choice of the prompt at a time, the rest at its default.

python -m experiments.score --config=configs/robustness.py \
    --config.model=DIR --config.data=DATA --workdir=W

RTE has four axes: ten draws of one training row in total as the context, the 24 orders of one draw
of four rows in total, the ten templates, and the ten verbalizers. `config.seeds` is the number of
draws. Expect BC to vary less than ICL on every axis (the paper's Fig. 8).

`--config=configs/robustness.py:mini` scores 54 contexts with the embedded model.
`--config.tasks=sst2,mnli,rte` adds the choices and orders of two more tasks (docs/mini.md).
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

from configs import base

MINI = base.MINI | {"seeds": 10, "over_long": "error"}


def get_config(preset: str = "") -> ConfigDict:
    """Configures the study on real rows, or with `:mini` on the embedded suite.

    `:smoke` and `:mini_smoke` are small runs.
    """
    return base.config(
        preset,
        {"smoke": {"limit": 16, "dc_texts": 4}, "mini": MINI, "mini_smoke": {"limit": 40}},
        tasks=("rte",),
        seeds=10,
        over_long="drop_shots",
    )


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """Yields one axis after another; the seed varies only on the axis of choices."""
    yield from base.sweep_orders(config)
    yield from base.sweep_named(config, "template")
    yield from base.sweep_named(config, "verbalizer")

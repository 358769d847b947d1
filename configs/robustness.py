"""The paper's robustness study: one choice of the prompt at a time, the rest at its default.

On RTE: ten draws of one training row in all as the context, the 24 orders of one draw of four rows
in all, the ten templates, and the ten verbalizers. `config.seeds` is the number of draws.

python -m experiments.score --config=configs/robustness.py \
    --config.model=DIR --config.data=DATA --workdir=W
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

ORDERS = 24
TABLED = tuple(str(number) for number in range(1, 11))


def get_config(preset: str = "") -> ConfigDict:
    """Every row, or with `:smoke` a few rows of each task."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/robustness.py has no preset {preset!r}; there is: smoke")
    smoke = preset == "smoke"
    config = ConfigDict()
    config.scorer = "causal_lm"
    config.model = ""
    config.data = ""
    config.tasks = ("rte",)
    config.split = "validation"
    config.train_split = "train"
    config.limit = 16 if smoke else 0
    config.shots = 1
    config.seeds = 10
    config.selection = "per_class"
    config.demonstrations = ()
    config.order = -1
    config.template = ""
    config.verbalizer = ""
    config.over_long = "drop_shots"
    config.labeled_per_class = 0
    config.cc_fill = "per_field"
    config.dc_texts = 4 if smoke else 20
    config.dc_preset = "paper"
    config.batch_size = 256
    config.dtype = "auto"
    config.mesh = ""
    config.logits_only = False
    config.lock()
    return config


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """One flat dict per context, axis by axis; the seed varies on the axis of choices alone."""
    for task in config.tasks:
        for seed in range(config.seeds):
            yield {"task": task, "seed": seed, "selection": "total"}
        for order in range(ORDERS):
            yield {"task": task, "seed": 0, "selection": "total", "shots": 4, "order": order}
        for name in TABLED:
            yield {"task": task, "seed": 0, "template": name}
        for name in TABLED:
            yield {"task": task, "seed": 0, "verbalizer": name}

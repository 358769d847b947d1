"""The paper's choices and orders of demonstrations, on three tasks of the embedded suite.

Ten draws of one training row in all as the context, and the 24 orders of one draw of four rows in
all. `config.seeds` is the number of draws.

python -m experiments.score --config=configs/mini_orders.py --workdir=W
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

ORDERS = 24


def get_config(preset: str = "") -> ConfigDict:
    """Every row, or with `:smoke` a few rows of each task."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/mini_orders.py has no preset {preset!r}; there is: smoke")
    smoke = preset == "smoke"
    config = ConfigDict()
    config.scorer = "causal_lm"
    config.model = "mini"
    config.data = "mini"
    config.tasks = ("sst2", "mnli", "rte")
    config.split = "validation"
    config.train_split = "train"
    config.limit = 40 if smoke else 0
    config.shots = 1
    config.seeds = 10
    config.selection = "per_class"
    config.demonstrations = ()
    config.order = -1
    config.template = ""
    config.verbalizer = ""
    config.over_long = "error"
    config.labeled_per_class = 0
    config.cc_fill = "per_field"
    config.dc_texts = 20
    config.dc_preset = "paper"
    config.batch_size = 256
    config.dtype = "auto"
    config.mesh = ""
    config.logits_only = False
    config.lock()
    return config


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """One flat dict per context; the seed varies where the choice does, and nowhere else."""
    for task in config.tasks:
        for seed in range(config.seeds):
            yield {"task": task, "seed": seed, "selection": "total"}
        for order in range(ORDERS):
            yield {"task": task, "seed": 0, "selection": "total", "shots": 4, "order": order}

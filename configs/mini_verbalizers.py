"""The paper's ten verbalizers of RTE, emoji included, on the embedded suite.

python -m experiments.score --config=configs/mini_verbalizers.py --workdir=W
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

TABLED = tuple(str(number) for number in range(1, 11))


def get_config(preset: str = "") -> ConfigDict:
    """Every row, or with `:smoke` a few rows of each task."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/mini_verbalizers.py has no preset {preset!r}; there is: smoke")
    smoke = preset == "smoke"
    config = ConfigDict()
    config.scorer = "causal_lm"
    config.model = "mini"
    config.data = "mini"
    config.tasks = ("rte",)
    config.split = "validation"
    config.train_split = "train"
    config.limit = 40 if smoke else 0
    config.shots = 1
    config.seeds = 1
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
    """One flat dict per context: the task, the seed, and the number of the verbalizer."""
    for task in config.tasks:
        for seed in range(config.seeds):
            for name in TABLED:
                yield {"task": task, "seed": seed, "verbalizer": name}

"""The paper's figure of shots on the embedded suite: three tasks, 0 to 4 per class, 5 seeds.

`config.shots` is the most shots per class; those of one shot are contexts of configs/mini.py.

python -m experiments.score --config=configs/mini_shots.py --workdir=W
"""

from collections.abc import Iterator

from ml_collections import ConfigDict


def get_config(preset: str = "") -> ConfigDict:
    """Every row, or with `:smoke` a few rows of each task."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/mini_shots.py has no preset {preset!r}; there is: smoke")
    smoke = preset == "smoke"
    config = ConfigDict()
    config.scorer = "causal_lm"
    config.model = "mini"
    config.data = "mini"
    config.tasks = ("sst2", "mnli", "qnli")
    config.split = "validation"
    config.train_split = "train"
    config.limit = 40 if smoke else 0
    config.shots = 2 if smoke else 4
    config.seeds = 2 if smoke else 5
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
    """One flat dict per context: the task, the shots, and the seed of the demonstrations."""
    for task in config.tasks:
        for shots in range(config.shots + 1):
            for seed in range(config.seeds if shots else 1):
                yield {"task": task, "shots": shots, "seed": seed}

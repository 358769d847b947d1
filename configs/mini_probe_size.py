"""The paper's figure of batch sizes on the embedded suite: the bias learned from a few rows.

These are contexts of configs/mini.py; how many rows BC and PC see is chosen afterward:

python -m experiments.score --config=configs/mini_probe_size.py --workdir=W
python -m experiments.calibrate --workdir=W --probe_sizes=2,5,10,20,50,100,200
"""

from collections.abc import Iterator

from ml_collections import ConfigDict


def get_config(preset: str = "") -> ConfigDict:
    """Every row, or with `:smoke` a few rows of each task."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/mini_probe_size.py has no preset {preset!r}; there is: smoke")
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
    config.seeds = 1 if smoke else 5
    config.selection = "per_class"
    config.demonstrations = ()
    config.order = -1
    config.template = ""
    config.verbalizer = ""
    config.over_long = "error"
    config.labeled_per_class = 16 if smoke else 128
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
    """One flat dict per context: the task and the seed of its demonstrations."""
    for task in config.tasks:
        for seed in range(config.seeds if config.shots else 1):
            yield {"task": task, "seed": seed}

"""The paper's main table on the embedded suite: 13 tasks, 1 shot per class, 5 seeds, every method.

python -m experiments.score --config=configs/mini.py --workdir=W
"""

from collections.abc import Iterator

from ml_collections import ConfigDict

TASKS = (
    "sst2", "mnli", "qnli", "mrpc", "qqp", "boolq", "cb", "copa", "rte", "wic", "anli_r1",
    "anli_r2", "anli_r3",
)  # fmt: skip


def get_config(preset: str = "") -> ConfigDict:
    """The full run, or with `:smoke` one seed of a few rows of two tasks."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/mini.py has no preset {preset!r}; there is: smoke")
    smoke = preset == "smoke"
    config = ConfigDict()
    config.scorer = "causal_lm"
    config.model = "mini"
    config.data = "mini"
    config.tasks = ("sst2", "mnli") if smoke else TASKS
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

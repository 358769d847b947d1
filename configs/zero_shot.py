"""The paper's zero-shot table: 13 tasks, zero-shot templates, one context each.

python -m experiments.score --config=configs/zero_shot.py \
    --config.model=DIR --config.data=DATA --workdir=W
"""

from collections.abc import Iterator

from ml_collections import ConfigDict


def get_config(preset: str = "") -> ConfigDict:
    """Every row, or with `:smoke` a few rows of each task."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/zero_shot.py has no preset {preset!r}; there is: smoke")
    smoke = preset == "smoke"
    config = ConfigDict()
    config.scorer = "causal_lm"
    config.model = ""
    config.data = ""
    config.tasks = (
        "sst2", "mnli", "qnli", "mrpc", "qqp", "boolq", "cb", "copa", "rte", "wic", "anli_r1",
        "anli_r2", "anli_r3",
    )  # fmt: skip
    config.split = "validation"
    config.train_split = "train"
    config.limit = 16 if smoke else 0
    config.shots = 0
    config.seeds = 1
    config.selection = "per_class"
    config.demonstrations = ()
    config.order = -1
    config.template = ""
    config.verbalizer = ""
    config.over_long = "drop_shots"
    config.labeled_per_class = 4 if smoke else 128
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
    """One flat dict per context: one seed a task."""
    for task in config.tasks:
        for seed in range(config.seeds):
            yield {"task": task, "seed": seed}

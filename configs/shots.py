"""The paper's figure of shots: 0 to 4 per class, 5 seeds (one where there is no shot).

`config.shots` is the most shots per class.

python -m experiments.score --config=configs/shots.py \
    --config.model=DIR --config.data=DATA --workdir=W
"""

from collections.abc import Iterator

from ml_collections import ConfigDict


def get_config(preset: str = "") -> ConfigDict:
    """Every row, or with `:smoke` a few rows of each task."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/shots.py has no preset {preset!r}; there is: smoke")
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
    config.shots = 2 if smoke else 4
    config.seeds = 2 if smoke else 5
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
    """One flat dict per context: the task, the shots, and the seed of the demonstrations."""
    for task in config.tasks:
        for shots in range(config.shots + 1):
            for seed in range(config.seeds if shots else 1):
                yield {"task": task, "shots": shots, "seed": seed}

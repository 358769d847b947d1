"""Zero-shot text classification with a sentence encoder: cosine of text and label statement.

python -m experiments.score --config=configs/zero_shot_text.py --config.model=DIR \
    --config.data=DATA --workdir=W
"""

from collections.abc import Iterator

from ml_collections import ConfigDict


def get_config(preset: str = "") -> ConfigDict:
    """Every row of the validation splits, or with `:smoke` the first 200."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/zero_shot_text.py has no preset {preset!r}; there is: smoke")
    config = ConfigDict()
    config.scorer = "dual_encoder"
    config.model = ""
    config.data = ""
    config.tasks = ("sst2", "mr", "agnews", "trec")
    config.split = "validation"
    config.train_split = "train"
    config.limit = 200 if preset == "smoke" else 0
    config.shots = 0
    config.seeds = 1
    config.selection = "per_class"
    config.demonstrations = ()
    config.order = -1
    config.template = ""
    config.verbalizer = ""
    config.over_long = "error"
    config.labeled_per_class = 128
    config.cc_fill = "per_field"
    config.dc_texts = 20
    config.dc_preset = "paper"
    config.batch_size = 256
    config.dtype = "auto"
    config.mesh = ""
    config.logits_only = False
    config.scale = 20.0
    config.max_tokens = 128
    config.lock()
    return config


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """One flat dict per context; a dual encoder has no demonstrations, so one seed a task."""
    for task in config.tasks:
        yield {"task": task, "seed": 0}

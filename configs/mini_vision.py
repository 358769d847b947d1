"""The paper's image table in small: four tasks of drawn pictures, the embedded tiny CLIP.

python -m experiments.score --config=configs/mini_vision.py --workdir=W
"""

from collections.abc import Iterator

from ml_collections import ConfigDict


def get_config(preset: str = "") -> ConfigDict:
    """Every picture of the test splits, or with `:smoke` the first 64."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/mini_vision.py has no preset {preset!r}; there is: smoke")
    smoke = preset == "smoke"
    config = ConfigDict()
    config.scorer = "dual_encoder"
    config.model = "mini_clip"
    config.data = "mini"
    config.tasks = ("svhn", "eurosat", "clevr", "dtd")
    config.split = "test"
    config.train_split = "train"
    config.limit = 64 if smoke else 0
    config.shots = 0
    config.seeds = 1
    config.selection = "per_class"
    config.demonstrations = ()
    config.order = -1
    config.template = ""
    config.verbalizer = ""
    config.over_long = "error"
    config.labeled_per_class = 2 if smoke else 128
    config.cc_fill = "per_field"
    config.dc_texts = 20
    config.dc_preset = "paper"
    config.batch_size = 64
    config.dtype = "auto"
    config.mesh = ""
    config.logits_only = False
    # The checkpoint's own learned scale, and its own 77 positions.
    config.scale = 0.0
    config.max_tokens = 77
    # Of DTD's 47 textures twelve are drawn.
    config.classes = "present"
    config.lock()
    return config


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """One flat dict per context: one seed a task."""
    for task in config.tasks:
        yield {"task": task, "seed": 0}

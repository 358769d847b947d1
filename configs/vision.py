"""The paper's image table: six tasks, zero-shot with CLIP, BC and BCL beside it.

python -m experiments.score --config=configs/vision.py --config.model=DIR \
    --config.data=DATA --workdir=W

Zhou et al. 2024 with CLIP ViT-B/16, ZS / ZS+BC: SVHN 18.0 / 35.0, EuroSAT 47.8 / 54.7, UCF101
66.7 / 66.0, CLEVR 14.7 / 29.2, Aircraft 24.8 / 22.3, DTD 44.4 / 41.7. `--config.template=2` takes
another statement, `=ensemble` all of them; docs/vision.md says where DATA's pictures are looked
for.
"""

from collections.abc import Iterator

from ml_collections import ConfigDict


def get_config(preset: str = "") -> ConfigDict:
    """Every picture of the test splits, or with `:smoke` the first 64."""
    if preset not in ("", "smoke"):
        raise ValueError(f"configs/vision.py has no preset {preset!r}; there is: smoke")
    smoke = preset == "smoke"
    config = ConfigDict()
    config.scorer = "dual_encoder"
    config.model = ""
    config.data = ""
    config.tasks = ("svhn", "eurosat", "ucf101", "clevr", "aircraft", "dtd")
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
    # "present" scores only the classes that DATA has pictures of.
    config.classes = "task"
    config.lock()
    return config


def sweep(config: ConfigDict) -> Iterator[dict[str, object]]:
    """One flat dict per context: one seed a task."""
    for task in config.tasks:
        yield {"task": task, "seed": 0}

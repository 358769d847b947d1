r"""The paper's image table (Table 6): six tasks, zero-shot with CLIP, BC and BCL.

python -m experiments.score --config=configs/vision.py \
    --config.model=DIR --config.data=DATA --workdir=W

Zhou et al. 2024 with CLIP ViT-B/16, ZS / ZS+BC: SVHN 18.0 / 35.0, EuroSAT 47.8 / 54.7, UCF101
66.7 / 66.0, CLEVR 14.7 / 29.2, Aircraft 24.8 / 22.3, DTD 44.4 / 41.7. `--config.template=2` takes
another statement, `=ensemble` all of them, `--config.classes=present` only the classes that DATA
has images of; docs/your-checkpoint.md says where images are looked for.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"limit": 64, "labeled_per_class": 2},
        tasks=("svhn", "eurosat", "ucf101", "clevr", "aircraft", "dtd"),
        **base.IMAGES,
    )

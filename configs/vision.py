r"""The paper's image table (Table 6): six tasks, zero-shot with CLIP, BC and BCL.

python -m experiments.score --config=configs/vision.py \
    --config.model=DIR --config.data=DATA --workdir=W

Zhou et al. 2024 with CLIP ViT-B/16, ZS / ZS+BC: SVHN 18.0 / 35.0, EuroSAT 47.8 / 54.7, UCF101
66.7 / 66.0, CLEVR 14.7 / 29.2, Aircraft 24.8 / 22.3, DTD 44.4 / 41.7. `--config.template=2` takes
another statement, `=ensemble` all of them, `--config.classes=present` only the classes that DATA
has images of; docs/your-checkpoint.md says where images are looked for.

`--config=configs/vision.py:mini` scores four tasks of drawn images with the embedded tiny CLIP. Of
DTD's 47 textures twelve are drawn, so only those present are scored. Expect on average ICL 45.9 and
BC 52.3 %, with CLEVR losing 6.8 points; 14 s on two cores.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep
SMALL = {"limit": 64, "labeled_per_class": 2}
DRAWN = {
    "model": "mini_clip",
    "data": "mini",
    "tasks": ("svhn", "eurosat", "clevr", "dtd"),
    "classes": "present",
}


def get_config(preset: str = "") -> ConfigDict:
    """On real rows, with `:mini` on the embedded suite; `:smoke`, `:mini_smoke`: small runs."""
    return base.config(
        preset,
        {"smoke": SMALL, "mini": DRAWN, "mini_smoke": SMALL},
        tasks=("svhn", "eurosat", "ucf101", "clevr", "aircraft", "dtd"),
        **base.IMAGES,
    )

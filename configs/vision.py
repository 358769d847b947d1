r"""The paper's image table (Table 6): six tasks, zero-shot with CLIP.

python -m experiments.score --config=configs/vision.py \
    --config.model=DIR --config.data=DATA --workdir=W

Zhou et al. 2024 with CLIP ViT-B/16, ZS / ZS+BC: SVHN 18.0 / 35.0, EuroSAT 47.8 / 54.7, UCF101
66.7 / 66.0, CLEVR 14.7 / 29.2, Aircraft 24.8 / 22.3, DTD 44.4 / 41.7. `--config.template=2` uses
another statement, `=ensemble` all statements, and `--config.classes=present` only the classes with
images in DATA; docs/your-checkpoint.md describes the folders of images.

`--config=configs/vision.py:mini` scores four tasks of drawn images with the embedded tiny CLIP. The
images show only twelve of DTD's 47 textures, and only these classes are scored. Expect on average
ICL 45.9 and BC 52.3 %, with a loss of 6.8 points on CLEVR. The 4,000 images take 18 s of processor
time.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep
SMALL = {"limit": 64}
DRAWN = {
    "model": "mini_clip",
    "data": "mini",
    "tasks": ("svhn", "eurosat", "clevr", "dtd"),
    "classes": "present",
}


def get_config(preset: str = "") -> ConfigDict:
    """Configures the study on real rows, or with `:mini` on the embedded suite.

    `:smoke` and `:mini_smoke` are small runs.
    """
    return base.config(
        preset,
        {"smoke": SMALL, "mini": DRAWN, "mini_smoke": SMALL},
        tasks=("svhn", "eurosat", "ucf101", "clevr", "aircraft", "dtd"),
        **base.IMAGES,
    )

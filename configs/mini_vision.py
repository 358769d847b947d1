"""The paper's image table (Table 6) in small: four tasks of drawn images, the embedded tiny CLIP.

python -m experiments.score --config=configs/mini_vision.py --workdir=W

Of DTD's 47 textures twelve are drawn, so only those present are scored. Expect on average
ICL 45.9 and BC 52.3 %, with CLEVR losing 6.8 points; 14 s on two cores.
"""

from ml_collections import ConfigDict

from configs import base

sweep = base.sweep


def get_config(preset: str = "") -> ConfigDict:
    """The whole study, or with `:smoke` a small run."""
    return base.config(
        preset,
        {"limit": 64, "labeled_per_class": 2},
        model="mini_clip",
        data="mini",
        tasks=("svhn", "eurosat", "clevr", "dtd"),
        classes="present",
        **base.IMAGES,
    )

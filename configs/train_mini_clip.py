"""Trains the tiny CLIP.

python -m experiments.train_mini_clip --config=configs/train_mini_clip.py --out=DIR --workdir=W

The shipped checkpoint took these 5,000 steps of 128 pairs, 27 minutes on two cores. Expect ICL 46.0
and BC 52.3 % on the drawn images of configs/vision.py:mini. docs/mini.md has the results.
"""

from ml_collections import ConfigDict

from configs import base

# Digits and textures get larger shares because they are learned last; land is learned at once.
MIX = (*("svhn",) * 4, *("dtd",) * 3, "clevr", "eurosat")
# Number of steps, pairs per step, and image tasks of each stage.
STAGES = ((5000, 128, MIX),)
SMOKE = ((40, 32, MIX),)


def get_config(preset: str = "") -> ConfigDict:
    """Configures the full run, or with `:smoke` a few seconds of it."""
    smoke = base.is_smoke(preset)
    config = ConfigDict()
    config.seed = 0
    config.vocabulary = 1024
    config.vocabulary_texts = 20_000
    config.positions = 32
    config.embedding = 96
    config.text_width = 96
    config.text_layers = 2
    config.text_heads = 4
    config.width = 128
    config.layers = 4
    config.heads = 4
    config.patch = 12
    config.stages = SMOKE if smoke else STAGES
    config.peak = 1e-3
    config.final = 5e-5
    config.warmup = 150
    config.weight_decay = 0.01
    config.b2 = 0.98
    config.clip = 1.0
    config.log_every = 20
    config.save_every = 200
    config.lock()
    return config

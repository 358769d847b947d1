"""Trains the small mini language model: half the parameters, on less of the same text.

python -m experiments.train_mini --config=configs/train_mini_small.py --out=DIR --workdir=W

The shipped checkpoint took 4,199 steps, 81 minutes on two busy cores. Expect ICL 64.3 and BC 68.0 %
at 1 shot (docs/mini.md), and chance accuracy on COPA and WiC.
"""

from ml_collections import ConfigDict

from configs import train_mini
from configs.train_mini import ALL, FIRST, PLAIN, stage

# The first stages of configs/train_mini.py. A gate may end a stage early; the others are shorter.
STAGES = (
    stage(
        3000, 24, 128, {"thesaurus": 1.0, "prose": 1.0}, 1, 1, (2e-3, 2e-3), (("thesaurus",), 0.3)
    ),
    stage(3500, 24, 128, FIRST, 1, 1, (2e-3, 1e-3), (("mnli", "boolq"), 0.5), **PLAIN),
    stage(700, 24, 128, ALL, 1, 3, (1e-3, 1e-3), reach=576),
    stage(450, 12, 288, ALL, 4, 3, (1e-3, 1e-4), reach=576),
)


def get_config(preset: str = "") -> ConfigDict:
    """Configures the full run, or with `:smoke` a few seconds of it."""
    config = train_mini.get_config(preset).copy_and_resolve_references()
    with config.unlocked():
        config.cpu_devices = 1
        config.width = 80
        if not preset:
            config.stages = STAGES
    return config.lock()

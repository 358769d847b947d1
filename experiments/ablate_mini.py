"""Which property of the pretraining text causes which bias: train without it, and measure.

python -m experiments.ablate_mini --config=configs/mini_ablations.py --workdir=W
"""

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from batch_calibration.errors import InputError
from experiments import study
from experiments.cli import enter
from experiments.pretrain.ablations import ablate

CONFIG = config_flags.DEFINE_config_file("config", None, "the ablations", lock_config=True)
WORKDIR = flags.DEFINE_string("workdir", None, "directory for models and results", required=True)
flags.mark_flag_as_required("config")


def main() -> None:
    """Train a model for each recipe, measure its biases, and print the table."""
    config = CONFIG.value
    if "recipes" not in config:
        raise InputError(
            "--config: expected recipes of a text, found none; give "
            "--config=configs/mini_ablations.py."
        )
    print(ablate(config, study.settings(config.base), Path(WORKDIR.value)))


if __name__ == "__main__":
    enter(main)

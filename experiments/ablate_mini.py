"""Measures which property of the pretraining text causes which bias, by training without it.

python -m experiments.ablate_mini --config=configs/mini_ablations.py --workdir=W
"""

from pathlib import Path

from absl import app, flags
from ml_collections import config_flags

from experiments.guard import guarded, parse_flags

CONFIG = config_flags.DEFINE_config_file("config", None, "the ablations", lock_config=True)
WORKDIR = flags.DEFINE_string("workdir", None, "folder for models and results", required=True)
flags.mark_flag_as_required("config")


def main() -> None:
    """Trains and measures each ablation, and prints the table."""
    # Imported here because JAX takes a second to load and parsing the flags does not need it.
    from experiments.pretrain import ablations

    print(ablations.run(CONFIG.value, Path(WORKDIR.value)))


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)

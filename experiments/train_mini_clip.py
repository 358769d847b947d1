"""Trains the tiny CLIP from scratch and writes it as a Hugging Face directory.

python -m experiments.train_mini_clip --config=configs/train_mini_clip.py --out=DIR --workdir=W
"""

from absl import app, flags
from ml_collections import config_flags

from experiments.guard import guarded, parse_flags

CONFIG = config_flags.DEFINE_config_file("config", None, "the training run", lock_config=True)
OUT = flags.DEFINE_string("out", None, "folder for the finished checkpoint", required=True)
WORKDIR = flags.DEFINE_string("workdir", None, "folder for state and loss curve", required=True)
flags.mark_flag_as_required("config")


def main() -> None:
    """Trains the model, and prints the duration of each stage."""
    # Imported here because JAX takes a second to load and parsing the flags does not need it.
    from experiments.pretrain import from_config

    from_config.main(from_config.train_clip, CONFIG.value, OUT.value, WORKDIR.value)


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)

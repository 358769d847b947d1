"""Train the mini language model from scratch and write it as a Hugging Face directory.

python -m experiments.train_mini --config=configs/train_mini.py --out=DIR --workdir=W
"""

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from experiments.cli import enter
from experiments.pretrain import from_config

CONFIG = config_flags.DEFINE_config_file("config", None, "the training run", lock_config=True)
OUT = flags.DEFINE_string("out", None, "directory for the finished checkpoint", required=True)
WORKDIR = flags.DEFINE_string("workdir", None, "directory for state and loss curve", required=True)
flags.mark_flag_as_required("config")


def main() -> None:
    """Train, and say how long each stage took."""
    out, workdir = Path(OUT.value), Path(WORKDIR.value)
    ends = from_config.train_language_model(CONFIG.value, out, workdir)
    spent = from_config.minutes(workdir, ends)
    for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        print(f"stage {number + 1}: {end - begin} steps, {spent[number]:.1f} minutes")
    print(f"the checkpoint is in {out}, the curve in {workdir}")


if __name__ == "__main__":
    enter(main)

"""Train the tiny CLIP from scratch and write it as a Hugging Face directory.

python -m experiments.train_mini_clip --config=configs/train_mini_clip.py --out=DIR --workdir=W
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
    """Train, and say how long it took."""
    out, workdir = Path(OUT.value), Path(WORKDIR.value)
    ends = from_config.train_clip(CONFIG.value, out, workdir)
    spent = sum(from_config.minutes(workdir, ends))
    print(f"trained in {spent:.1f} minutes; the checkpoint is in {out}, the curve in {workdir}")


if __name__ == "__main__":
    enter(main)

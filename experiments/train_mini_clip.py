"""Train the tiny CLIP from scratch and write it as a Hugging Face directory.

python -m experiments.train_mini_clip --config=configs/train_mini_clip.py --out=DIR --workdir=W
"""

from pathlib import Path

from experiments import cli

CONFIG = cli.config_flag("the training run", "configs/train_mini_clip.py")
OUT = cli.folder_flag("directory for the finished checkpoint", "out")
WORKDIR = cli.folder_flag("directory for state and loss curve")


def main() -> None:
    """Train, and say how long it took."""
    from experiments.pretrain import from_config

    out, workdir = Path(OUT.value), Path(WORKDIR.value)
    ends = from_config.train_clip(CONFIG.value, out, workdir)  # its only stage ends at one step
    spent = sum(from_config.minutes(workdir, ends))
    print(f"trained in {spent:.1f} minutes; the checkpoint is in {out}, the curve in {workdir}")


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))

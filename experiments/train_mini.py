"""Train the mini language model from scratch and write it as a Hugging Face directory.

python -m experiments.train_mini --config=configs/train_mini.py --out=DIR --workdir=W
"""

from pathlib import Path

from experiments import cli

CONFIG = cli.config_flag("the training run", "configs/train_mini.py")
OUT = cli.folder_flag("directory for the finished checkpoint", "out")
WORKDIR = cli.folder_flag("directory for state and loss curve")


def main() -> None:
    """Train, and say how long each stage took."""
    from experiments.pretrain import from_config

    out, workdir = Path(OUT.value), Path(WORKDIR.value)
    # The step at which each stage ended; a stage begins where the one before it ended.
    ends = from_config.train_language_model(CONFIG.value, out, workdir)
    spent = from_config.minutes(workdir, ends)
    for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        print(f"stage {number + 1}: {end - begin} steps, {spent[number]:.1f} minutes")
    print(f"the checkpoint is in {out}, the curve in {workdir}")


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))

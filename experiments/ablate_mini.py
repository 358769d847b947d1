"""Which property of the pretraining text causes which bias: train without it, and measure.

python -m experiments.ablate_mini --config=configs/mini_ablations.py --workdir=W
"""

from pathlib import Path

from experiments import cli

CONFIG = cli.config_flag("the ablations", "configs/mini_ablations.py")
WORKDIR = cli.folder_flag("directory for models and results")


def main() -> None:
    """Train, measure, and print the table."""
    from experiments.pretrain import ablations

    print(ablations.run(CONFIG.value, Path(WORKDIR.value)))


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))

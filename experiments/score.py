"""Ask a model for label scores, context by context, and keep them.

python -m experiments.score --config=configs/mini.py --workdir=W
"""

from batch_calibration.cli import studies
from experiments import cli

CONFIG = cli.config_flag("the study to score")
WORKDIR = cli.folder_flag("folder for the scores")
cli.machine_flags()


def main() -> None:
    """Score every context of the sweep that the workdir does not hold yet."""
    cli.set_up_machine()
    studies.score(cli.configured_study(), WORKDIR.value)


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))

"""How far the runs on a workdir are: what is done, running (by whom), failed (why) and left.

python -m experiments.status --workdir=W
python -m experiments.status --workdir=W --config=configs/mini.py
"""

from batch_calibration.cli import studies
from experiments import cli

WORKDIR = cli.folder_flag("folder of the runs")
CONFIG = cli.config_flag("the one study to speak of; all by default", required=False)


def main() -> None:
    """Print the status, a line for each context that is running or failed."""
    study = cli.configured_study() if CONFIG.value else None
    studies.show_status(WORKDIR.value, study)


if __name__ == "__main__":
    cli.enter(main)

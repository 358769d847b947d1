"""Tables of a study: in the terminal, as Markdown, LaTeX and CSV; all results as one file.

python -m experiments.tables --workdir=W
"""

from absl import flags

from batch_calibration.cli import studies
from experiments import cli

WORKDIR = cli.folder_flag("folder with scores and records")
TENSORBOARD = flags.DEFINE_bool("tensorboard", False, "also write WORKDIR/tensorboard")


def main() -> None:
    """Write every table, print those that are no point of a curve, and write all results."""
    studies.write_tables(WORKDIR.value, tensorboard=TENSORBOARD.value)


if __name__ == "__main__":
    cli.enter(main)

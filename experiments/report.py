"""What was found, in one paragraph a setting, and one HTML page with every table and figure.

python -m experiments.report --workdir=W
"""

from batch_calibration.cli import studies
from batch_calibration.cli.compilation_cache import keep_programs
from experiments import cli

WORKDIR = cli.folder_flag("folder with scores and records")


def main() -> None:
    """Write the page, print the paragraph of every setting, and say where the files are."""
    keep_programs()
    studies.write_report(WORKDIR.value)


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))

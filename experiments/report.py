"""Prints a paragraph of results for each setting, and writes a page of all tables and figures.

python -m experiments.report --workdir=W
"""

from absl import app, flags

from batch_calibration.cli import studies
from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)


def main() -> None:
    """Writes the page, and prints the paragraph of every setting and the paths of the files."""
    studies.make_report(WORKDIR.value)


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)

"""Prints a study's tables, writes them as Markdown, LaTeX and CSV, and all results as one file.

python -m experiments.tables --workdir=W
"""

from absl import app, flags

from batch_calibration.cli import studies
from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)
QUIET = flags.DEFINE_boolean("quiet", False, "write the files without printing the tables")


def main() -> None:
    """Writes every table and all results; prints the tables that are not points of a curve."""
    studies.show_tables(WORKDIR.value, quiet=QUIET.value)


if __name__ == "__main__":
    app.run(guarded(main, loads=()), flags_parser=parse_flags)

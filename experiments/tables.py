"""Tables of a study: in the terminal, as Markdown, LaTeX and CSV; all results as one file.

python -m experiments.tables --workdir=W
"""

from absl import app, flags

from batch_calibration.cli import studies
from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)
QUIET = flags.DEFINE_boolean("quiet", False, "write the files and print no table")


def main() -> None:
    """Write every table, print those that are no point of a curve, and write all results."""
    studies.show_tables(WORKDIR.value, quiet=QUIET.value)


if __name__ == "__main__":
    app.run(guarded(main, loads=()), flags_parser=parse_flags)

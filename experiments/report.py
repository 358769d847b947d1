"""Results in one paragraph a setting, and one HTML page with every table and figure.

python -m experiments.report --workdir=W
"""

from absl import app, flags

from batch_calibration.cli import studies
from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)


def main() -> None:
    """Write the page, print the paragraph of every setting, and say where the files are."""
    studies.make_report(WORKDIR.value)


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)

"""Checks whether a model reads its demonstrations, on scores of configs/demo_labels.py.

python -m experiments.demonstration_labels --workdir=W
"""

from absl import app, flags

from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)


def main() -> None:
    """Writes tables and figures into W/demonstration_labels, and prints the tables."""
    from experiments.evidence import demonstration_labels

    demonstration_labels.run(WORKDIR.value)


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)

"""A small real language model on real sentences of four domains: fetched, asked, corrected, shown.

    python -m experiments.real --workdir=runs/real

`make real` runs it: configs/real.py, then one table and the page, which opens in a browser where
somebody sits before one. What is there is kept: a run that was stopped goes on where it was, and a
second one asks nothing. `--preset=smoke` takes a minute.
"""

from pathlib import Path

from absl import app, flags

from batch_calibration.cli import machine
from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", "runs/real", "folder for model, tasks, scores and page")
PRESET = flags.DEFINE_string("preset", "", "of configs/real.py: smoke is a small run")


def main() -> None:
    """Fetch, score, calibrate, write the page, print the table."""
    from experiments.evidence import small_model

    machine.set_up()
    small_model.open_page(small_model.run(Path(WORKDIR.value), PRESET.value))


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)

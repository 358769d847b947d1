"""Draws the figures of a study: gains, prompts, decision boundaries, curves.

python -m experiments.figures --workdir=W
"""

from absl import app, flags

from batch_calibration.cli import studies
from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)
TASKS = flags.DEFINE_integer(
    "boundary_tasks", 2, "number of tasks in the figure of boundaries", lower_bound=0
)
FORMATS = flags.DEFINE_string("formats", "png", "formats of the figures: png, pdf, svg")


def main() -> None:
    """Draws every figure in the catalogue."""
    studies.draw_figures(WORKDIR.value, boundary_tasks=TASKS.value, formats=FORMATS.value)


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)

"""Figures of a study: gains, prompts, decision boundaries, curves, as PNG and PDF.

python -m experiments.figures --workdir=W
"""

from absl import flags

from batch_calibration.cli import studies
from batch_calibration.cli.compilation_cache import keep_programs
from experiments import cli

WORKDIR = cli.folder_flag("folder with scores and records")
BOUNDARY_TASKS = flags.DEFINE_integer(
    "boundary_tasks", 2, "tasks in the figure of boundaries", lower_bound=0
)


def main() -> None:
    """Draw every figure in the catalogue."""
    keep_programs()
    studies.write_figures(WORKDIR.value, boundary_tasks=BOUNDARY_TASKS.value)


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))

"""Score a study with several workers: processes, jobs of Slurm, or tasks of Ray.

python -m experiments.sweep --config=configs/mini.py --workdir=W --launcher=local --workers=2
"""

from absl import flags

from batch_calibration.cli import studies
from experiments import cli

# `cli.configured_studies` reads it.
CONFIG = cli.config_flag("the study; --config.KEY=A,B,C scores it for each value")
WORKDIR = cli.folder_flag("folder for the scores, which all workers see")
DRY_RUN = flags.DEFINE_boolean("dry_run", False, "print contexts, tokens and time; score nothing")
cli.launcher_flags()


def main() -> None:
    """Start the workers, wait for them, and say what they did."""
    workers: int = flags.FLAGS.workers
    studies.sweep(
        cli.configured_studies(), WORKDIR.value, cli.read_launcher(), workers, dry_run=DRY_RUN.value
    )


if __name__ == "__main__":
    cli.enter(main, loads=("jax",), grids=True)

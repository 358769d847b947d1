"""Scores a study with several workers: processes, Slurm jobs, or Ray tasks.

python -m experiments.sweep --config=configs/mini.py --workdir=W --launcher=local --workers=2
"""

from absl import app, flags
from ml_collections import config_flags

from batch_calibration.cli import launchers, studies
from experiments.guard import config_studies, guarded, launcher_flags, make_launcher, parse_flags

CONFIG = config_flags.DEFINE_config_file("config", None, "the study", lock_config=True)
WORKDIR = flags.DEFINE_string(
    "workdir", None, "folder for the scores; all workers need access to it", required=True
)
VARY = flags.DEFINE_multi_string("vary", [], "KEY=A,B,C: score the study for each value of a key")
LAUNCHER = flags.DEFINE_enum("launcher", "local", launchers.NAMES, launchers.HELP)
WORKERS = flags.DEFINE_integer("workers", 2, "number of workers")
DRY_RUN = flags.DEFINE_boolean("dry_run", False, "print contexts, tokens and time, without scoring")
flags.mark_flag_as_required("config")
launcher_flags()


def main() -> None:
    """Starts the workers, waits for them, and prints their results."""
    launcher = make_launcher(LAUNCHER.value, WORKERS.value)
    studies.run_sweep(
        config_studies(VARY.value), WORKDIR.value, launcher, WORKERS.value, dry_run=DRY_RUN.value
    )


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)

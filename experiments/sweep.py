"""Score a study with several workers: processes, jobs of Slurm, or tasks of Ray.

python -m experiments.sweep --config=configs/mini.py --workdir=W --launcher=local --workers=2
"""

from absl import flags

from experiments import cli, launchers

CONFIG = cli.config_flag("the study; --config.KEY=A,B,C scores it for each value")
WORKDIR = cli.folder_flag("folder for the scores, which all workers see")
DRY_RUN = flags.DEFINE_boolean("dry_run", False, "print contexts, tokens and time; score nothing")
launchers.define_flags()


def main() -> None:
    """Start the workers, wait for them, and say what they did."""
    from batch_calibration.study.workers import sweep
    from experiments.launchers import summary, watching

    studies, launch = cli.configured_studies(), launchers.configured_launcher()
    if DRY_RUN.value:
        summary.show_plan(studies, WORKDIR.value, flags.FLAGS["workers"].value)
        return
    with watching.shown_progress(WORKDIR.value, studies) as notify:
        report = sweep(studies, WORKDIR.value, launch=launch, notify=notify)
    summary.show_report(report, WORKDIR.value)


if __name__ == "__main__":
    cli.enter(main, loads=("jax",), grids=True)

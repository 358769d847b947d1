"""Ask a model for label scores, context by context, and keep them.

python -m experiments.score --config=configs/mini.py --workdir=W
"""

from experiments import cli, machine

CONFIG = cli.config_flag("the study to score")
WORKDIR = cli.folder_flag("folder for the scores")
machine.define_flags()


def main() -> None:
    """Score every context of the sweep that the workdir does not hold yet."""
    from batch_calibration.store import Store
    from batch_calibration.study import run_scoring
    from experiments.progress import ProgressBar

    machine.set_up()
    study, store = cli.configured_study(), Store(WORKDIR.value, create=True)
    with ProgressBar("scoring", "examples") as bar:
        report = run_scoring(
            *study,
            store,
            progress=lambda now: bar.update(now.done, now.total, now.context),
            notify=print,
        )
    print(*report.notes, sep="\n", end="\n" * bool(report.notes))
    print(
        f"{len(report.ids)} contexts: {report.scored:,} rows scored in {report.seconds:.1f} s, "
        f"{report.inputs - report.scored:,} were there already; the scores are in "
        f"{store.workdir / 'scores'}"
    )


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))

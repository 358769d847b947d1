"""Says what a sweep will cost, and what it did."""

from collections.abc import Sequence

from batch_calibration.grids import Study
from batch_calibration.study.loading import load_api_scorer, load_token_budget
from batch_calibration.study.scoring import render_contexts
from batch_calibration.study.workers import SweepReport
from experiments import preview


def show_plan(studies: Sequence[Study], workdir: str, workers: int) -> None:
    """Print contexts and tokens of each study, and about how long they will take."""
    for settings, cells in studies:
        contexts = render_contexts(settings, cells, notify=print)
        print(f"model {settings.model.model}")
        if settings.model.scorer == "api":
            preview.show_api_cost(contexts, load_api_scorer(settings))
        else:
            preview.show_cost(contexts, settings.model, load_token_budget(settings))


def show_report(report: SweepReport, workdir: str) -> None:
    """Print what the workers did, and the wall time beside that of one of them."""
    notes = dict.fromkeys(note for one in report.workers for note in one.notes)
    print(*report.lost, *notes, sep="\n", end="\n" * bool(report.lost or notes))
    scored = [one.scored for one in report.workers]
    alone = sum(one.seconds for one in report.workers)
    print(
        f"{report.contexts} contexts: {sum(scored):,} rows scored in {report.seconds:.1f} s by "
        f"{len(scored)} workers ({', '.join(f'{one:,}' for one in scored)}), whose time adds up to "
        f"{alone:.1f} s; the scores are in {workdir}/scores"
    )

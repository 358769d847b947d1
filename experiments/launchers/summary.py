"""Says what a sweep will cost, and what it did."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from batch_calibration.files import Json
from batch_calibration.prompts.rendered import RenderedContext
from batch_calibration.scores import context_id
from batch_calibration.scoring.table import SCORERS
from batch_calibration.settings import Study
from batch_calibration.store import Store
from batch_calibration.study.context_scores import missing, model_name
from batch_calibration.study.loading import load_scorer, load_token_budget, open_model
from batch_calibration.study.scoring import render_contexts
from batch_calibration.study.workers import SweepReport
from experiments import preview


def show_plan(studies: Sequence[Study], workdir: str, workers: int) -> None:
    """Print contexts and tokens of each study, and about how long they will take."""
    store = Store(workdir) if (Path(workdir) / "scores").is_dir() else None
    left = of = 0
    for settings, cells in studies:
        files = open_model(settings)
        contexts = render_contexts(settings, cells, notify=print, files=files)
        contexts.sort(key=lambda one: str(one.context["task"]))
        print(f"\nmodel {settings.model.model or 'not named'}")
        if SCORERS[settings.model.scorer].asks_server:
            preview.show_api_cost(contexts, load_scorer(settings, files=files))
        else:
            preview.show_cost(contexts, settings.model, load_token_budget(settings, files))
        left += _rows_left(contexts, settings.model.model, store)
        of += sum(context.size for context in contexts)
    print(f"{left:,} of {of:,} rows are left to score, by {workers} worker{'s' * (workers > 1)}")
    rate = store.progress.rate() if store else None
    if rate is None:
        print(f"time: not known, for no rows were scored in {workdir} yet")
    else:
        least = timedelta(seconds=round(left / rate / workers))
        print(f"time: about {least}, at the {rate:,.0f} rows/s of a worker so far in {workdir}")


def _rows_left(contexts: Sequence[RenderedContext], model: str, store: Store | None) -> int:
    """Rows that no stored table of a model of that name holds; no weights are read."""
    if store is None:
        return sum(context.size for context in contexts)
    held = {_key(table.context): table for table in store.tables()[0]}
    name = {"model": model_name(model)}
    return sum(
        context.blocks[block].size
        for context in contexts
        for block in missing(context, held.get(_key({**context.context, **name})))
    )


def _key(context: Mapping[str, Json]) -> str:
    """All that decides a context's numbers but the scorer, whose weights would have to be read."""
    return context_id({key: value for key, value in context.items() if key != "scorer"})


def show_report(report: SweepReport, workdir: str) -> None:
    """Print what the workers did, and the wall time beside that of one of them alone."""
    notes = dict.fromkeys(note for one in report.workers for note in one.notes)
    print(*report.lost, *notes, sep="\n", end="\n" * bool(report.lost or notes))
    rate, scored = Store(workdir).progress.rate(), [one.scored for one in report.workers]
    alone = f" (one worker alone: {sum(scored) / rate:.1f} s)" if rate and sum(scored) else ""
    print(
        f"{report.contexts} contexts: {sum(scored):,} rows scored in {report.seconds:.1f} s{alone} "
        f"by {len(scored)} worker{'s' * (len(scored) > 1)}: {', '.join(f'{n:,}' for n in scored)}; "
        f"{report.inputs - sum(scored):,} were there already; the scores are in "
        f"{Path(workdir) / 'scores'}"
    )

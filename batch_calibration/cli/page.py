"""The page of `batch-calibration report`: what each prompt prefers, then the page of a study."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from batch_calibration.artifacts import catalogue, writing
from batch_calibration.artifacts.catalogue import Table
from batch_calibration.artifacts.figures import preferences
from batch_calibration.artifacts.report import Context, Figure, Section
from batch_calibration.cli import advice, notes, summaries
from batch_calibration.methods import Options
from batch_calibration.study import run_calibration

PREFERS = "What the prompts prefer"


def write(
    contexts: Sequence[summaries.Corrected],
    page: Path,
    methods: Sequence[str] | None,
    seed: int,
    options: Mapping[str, Options] | None = None,
) -> list[str]:
    """Write the page, and return its paragraphs.

    Args:
        contexts: what BC does to each of them.
        page: the file.
        methods: those that are compared, all that the scores allow by default.
        seed: of methods that start at random.
        options: method -> what its `make` takes.
    """
    tables = [context.table for context in contexts]
    # Tables of metrics need right labels; what a prompt prefers does not.
    labeled = [context for context in tables if (context.blocks["test"].labels >= 0).any()]
    by_id = {table.id: table for table in tables}
    records = run_calibration(labeled, methods, seed=seed, options=options) if labeled else []
    results = catalogue.gather(records, lambda record: by_id[record.id])
    first = _section(contexts)
    return [*writing.write_report(results, page, [], [first]), first.paragraph]


def _section(contexts: Sequence[summaries.Corrected]) -> Section:
    if len(contexts) > summaries.MAX_SHOWN_SINGLY:
        cells = summaries.context_cells(contexts)
        recommended = [context.recommended for context in contexts]
        paragraph = f"{summaries.over_all(contexts)} {advice.over_all(recommended)}"
        models = Table(PREFERS, "models", "Over contexts", summaries.model_cells(contexts))
        context_table = Table(
            PREFERS, "contexts", "Contexts", cells, summaries.CONTEXT_NOTE, unit=""
        )
        # A header alone, or as many models as contexts, would say nothing more.
        tables = (
            [models, context_table] if 1 < len(models.cells) <= len(contexts) else [context_table]
        )
    else:
        paragraph = " ".join(sentence for context in contexts for sentence in context.sentences())
        tables = [table for context in contexts for table in _tables(context)]
    sentences = notes.group([context.table for context in contexts])
    titles = [summaries.title(context.table) for context in contexts]
    chart = preferences.chart([context.diagnosis for context in contexts], titles)
    shown = [Figure("preferences", chart)]
    single = [Context(summaries.title(context.table), context.diagnosis) for context in contexts]
    return Section(PREFERS, " ".join([paragraph, *sentences]), tables, shown, single)


def _tables(context: summaries.Corrected) -> list[Table]:
    name = summaries.title(context.table)
    tables = [
        Table(
            PREFERS,
            "labels",
            f"{name}: labels",
            summaries.label_cells(context.diagnosis),
            unit="shares in %",
        )
    ]
    if context.diagnosis.before:  # None where no right label is known
        cells = summaries.right_cells(context.diagnosis)
        tables.append(Table(PREFERS, "right", f"{name}: right answers", cells, unit="in %"))
    return tables

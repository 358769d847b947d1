"""The page of `batch-calibration report`: what each prompt prefers, then the page of a study."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from batch_calibration.artifacts import catalogue, writing
from batch_calibration.artifacts.catalogue import Table
from batch_calibration.artifacts.report import Context, Figure, Section
from batch_calibration.cli import advice, said
from batch_calibration.methods import Options
from batch_calibration.study import run_calibration

PREFERS = "What the prompts prefer"
WITHOUT = (
    "Figures are left out, for matplotlib is not installed: pip install 'batch-calibration[plots]'."
)


def write(
    found: Sequence[said.Found],
    page: Path,
    methods: Sequence[str] | None,
    seed: int,
    options: Mapping[str, Options] | None = None,
) -> list[str]:
    """Write the page, and return its paragraphs.

    Args:
        found: contexts and what BC does to them.
        page: the file.
        methods: those that are compared, all that the scores allow by default.
        seed: of methods that start at random.
        options: method -> what its `make` takes.
    """
    tables = [one.table for one in found]
    labeled = [one for one in tables if (one.blocks["test"].labels >= 0).any()]
    by_id = {table.id: table for table in tables}
    records = run_calibration(labeled, methods, seed=seed, options=options) if labeled else []
    results = catalogue.gather(records, lambda record: by_id[record.id])
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder)
        missing = [] if _drawn(found, results, figures) else [WITHOUT]
        first = _section(found, figures / "preferences.png")
        return [*writing.write_report(results, page, figures, missing, [first]), first.paragraph]


def _drawn(found: Sequence[said.Found], results: catalogue.Results, folder: Path) -> bool:
    """Draw every figure into the folder, if matplotlib is there."""
    try:
        from batch_calibration.artifacts.figures import preferences
    except ImportError:
        return False
    titles = [said.title(one.table) for one in found]
    drawing = preferences.draw([one.diagnosis for one in found], titles)
    preferences.save(drawing, folder / "preferences.png")
    if results.records:
        writing.write_figures(results, folder)
    return True


def _section(found: Sequence[said.Found], image: Path) -> Section:
    if len(found) > said.ALL:
        cells = said.context_cells(found)
        words = f"{said.over_all(found)} {advice.over_all([one.recommended for one in found])}"
        models = Table(PREFERS, "models", "Over contexts", said.model_cells(found))
        contexts = Table(PREFERS, "contexts", "Contexts", cells, said.CONTEXT_NOTE, unit="")
        tables = [models, contexts] if 1 < len(models.cells) <= len(found) else [contexts]
    else:
        words = " ".join(sentence for one in found for sentence in one.sentences())
        tables = [table for one in found for table in _tables(one)]
    notes = dict.fromkeys(
        note for one in found for block in one.table.blocks.values() for note in said.notes(block)
    )
    shown = [Figure("preferences", PREFERS, image)] if image.exists() else []
    single = [Context(said.title(one.table), one.diagnosis) for one in found]
    return Section(PREFERS, " ".join([words, *notes]), tables, shown, single)


def _tables(one: said.Found) -> list[Table]:
    name = said.title(one.table)
    tables = [
        Table(
            PREFERS,
            "labels",
            f"{name}: labels",
            said.label_cells(one.diagnosis),
            unit="shares in %",
        )
    ]
    if one.diagnosis.before:
        cells = said.right_cells(one.diagnosis)
        tables.append(Table(PREFERS, "right", f"{name}: right answers", cells, unit="in %"))
    return tables

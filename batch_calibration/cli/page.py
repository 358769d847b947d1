"""The page of `batch-calibration report`: verdicts on files of scores, then the page of a study."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from batch_calibration.cli import notes, summaries
from batch_calibration.diagnosis.verdicts import Verdict
from batch_calibration.methods import Options, check_scores
from batch_calibration.reporting import catalogue, writing
from batch_calibration.reporting.report import Card
from batch_calibration.scores import ScoreTable
from batch_calibration.studies import Record, run_calibration


def write_page(
    tables: Sequence[ScoreTable],
    files: Sequence[Path],
    page: Path,
    methods: Sequence[str] | None,
    seed: int,
    options: Mapping[str, Options] | None = None,
) -> list[str]:
    """Write the page, and return its paragraphs.

    Args:
        tables: the contexts.
        files: where they came from; the page has the date of the newest.
        page: the file.
        methods: those that are compared, all that the scores allow by default.
        seed: of methods that start at random.
        options: method -> what its `make` takes.
    """
    # Tables of metrics need right labels; what a prompt prefers does not.
    labeled = [table for table in tables if (table.blocks["test"].labels >= 0).any()]
    by_id = {table.id: table for table in tables}
    records = run_calibration(labeled, methods, seed=seed, options=options) if labeled else []
    results = catalogue.gather(records, lambda record: by_id[record.id])
    models = [str(table.context.get("model") or "") for table in tables]
    tasks = [str(table.context.get("task") or "") for table in tables]
    title = writing.name_page(models, tasks)
    changed = [path.stat().st_mtime for path in files if path.is_file()]
    date = datetime.fromtimestamp(max(changed), UTC).strftime("%Y-%m-%d") if changed else ""
    return writing.write_report(
        results, page, notes.group(tables), _cards(tables, records), title=title, date=date
    )


def _cards(tables: Sequence[ScoreTable], records: Iterable[Record]) -> list[Card]:
    """A card for each model and number of shots, in the order of the files."""
    bias_of_table = {record.id: writing.known_bias(record) for record in records}
    cards: dict[str, list[Verdict]] = {}
    for table in tables:
        scores = check_scores(table.blocks["test"].log_probs, from_probs=False)
        name, task = summaries.title(table), str(table.context.get("task") or table.id)
        verdict = writing.judge_scores(
            name, task, table, np.asarray(scores), bias_of_table.get(table.id)
        )
        shots = table.context.get("shots")
        model = str(table.context.get("model") or "unnamed model")
        heading = model if shots is None else f"{model}, {shots}-shot"
        cards.setdefault(heading, []).append(verdict)
    return [Card(heading, of_card) for heading, of_card in cards.items()]

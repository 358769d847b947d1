"""Writes every table, figure and the report of a study, each file whole or not at all."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from batch_calibration.diagnosis.known_shares import BY_DESIGN, Known, know_shares
from batch_calibration.diagnosis.recommend import recommend_tables
from batch_calibration.diagnosis.verdicts import Verdict, judge_context
from batch_calibration.files import csv_text, file_name, write_whole
from batch_calibration.methods.options import counted_shares
from batch_calibration.methods.run import task_of
from batch_calibration.reporting import frame
from batch_calibration.reporting import page as pages
from batch_calibration.reporting.cells import latex, markdown, show_cells
from batch_calibration.reporting.frame import Frame
from batch_calibration.reporting.items import Drawing, Results, Table
from batch_calibration.reporting.tables import context_table, make_tables
from batch_calibration.reporting.words import Card
from batch_calibration.scores import BALANCED, TRAIN_LABELS, ScoreTable
from batch_calibration.studies import Record, Run

if TYPE_CHECKING:
    from batch_calibration.reporting.figures.style import Drawn

WITHOUT_FIGURES = (
    "The figures need matplotlib, which is not installed: pip install 'batch-calibration[plots]'."
)


def make_figures(results: Results) -> list[Drawing]:
    """Makes every figure, as in `drawings.make_figures`.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from batch_calibration.reporting import drawings

    return drawings.make_figures(results)


def print_tables(tables: Iterable[Table]) -> None:
    """Prints tables; a sentence of a note is printed only below the first table that has it."""
    printed = dict[str, None]()
    for table in tables:
        sentences = dict.fromkeys(re.split(r"(?<=[.]) (?=\S)", table.note))
        note = " ".join(sentence for sentence in sentences if sentence not in printed)
        printed |= sentences
        show_cells(table.title, table.cells, note, table.keys)


def write_tables(results: Results, folder: Path) -> list[Table]:
    """Writes each table as CSV, Markdown and LaTeX."""
    tables = make_tables(results)
    for table in tables:
        write_table(table, folder / file_name(table.slug))
    return tables


def write_figures(
    results: Results,
    folder: Path,
    notify: Callable[[Path], None] = lambda path: None,
    formats: Sequence[str] = ("png",),
) -> None:
    """Writes each figure and its numbers as CSV; calls `notify` with each file."""
    for drawing in make_figures(results):
        for path in write_figure(drawing, folder / file_name(drawing.slug), formats):
            notify(path)


def write_figure(drawing: Drawing, path: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Writes a figure in each format, and its numbers as CSV; `path` lacks the ending."""
    from batch_calibration.reporting.figures.style import save

    drawn = drawing.draw()
    return [*save(drawn.figure, path, formats), _write(path, "csv", csv_text(drawn.cells))]


def write_table(table: Table, path: Path) -> list[Path]:
    """Writes a table as Markdown, LaTeX and CSV; `path` lacks the ending."""
    texts = {"md": markdown(table.cells, table.note), "tex": latex(table.cells, table.note)}
    texts["csv"] = csv_text(table.cells)
    return [_write(path, ending, text) for ending, text in texts.items()]


def _write(path: Path, ending: str, text: str) -> Path:
    target = path.with_name(f"{path.name}.{ending}")
    write_whole(target, text.encode())
    return target


def write_report(
    results: Results,
    page: Path,
    missing: Sequence[str] = (),
    verdicts: Mapping[str, Verdict] | None = None,
    *,
    runs: Sequence[Run] | None = None,
    date: str = "",
    source: str = "",
) -> tuple[list[Card], list[str]]:
    """Writes one HTML page: a card, the tables, the figures and the contexts of each study.

    Without matplotlib it has words and tables only, and a remark on that.

    Args:
        results: the results.
        page: the file.
        missing: sentences on results that are missing or out of date.
        verdicts: id of a score table -> the verdict on its context; by default each loaded table
            is judged.
        runs: runs of scoring; None leaves them out.
        date: the date of the scores; by default that of the last run.
        source: the file or folder of the scores, for commands.

    Returns:
        The cards, and the remarks.
    """
    if verdicts is None:
        verdicts = judge_records(results)
    cards = make_cards(results, verdicts)
    tables = frame.group_by(make_tables(results), lambda table: table.section)
    drawn: dict[str, list[str]] = {}
    try:
        drawings = make_figures(results)
    except ImportError:
        drawings, missing = [], [*missing, WITHOUT_FIGURES]
    for drawing in drawings:
        figure = (drawing.draw_for_page or drawing.draw)()
        drawn.setdefault(drawing.section, []).append(pages.figure_html(drawing.slug, figure))
    sections = []
    for name, card in cards.items():
        few = card.verdicts if len(card.verdicts) <= pages.MAX_IN_TABLES else []
        each = [context_table(name, card)] if len(card.verdicts) > 1 else []
        shown = [*tables.get(name, ()), *each, *chain.from_iterable(map(pages.context_tables, few))]
        if few and (reliability := _draw_few(few)):
            drawn.setdefault(name, []).append(pages.figure_html(f"{name}-reliability", reliability))
        sections.append(pages.Section(card.heading, shown, drawn.get(name, ()), card.verdicts))
    last_run = max((run.began for run in runs or ()), default="")
    title, date = name_page(results.records), date or last_run[:10]
    shown_cards = [card for card in cards.values() if card.verdicts]
    html = pages.make_page(
        sections, runs, cards=shown_cards, notices=missing, title=title, date=date, source=source
    )
    write_whole(page, html.encode())
    return shown_cards, [*missing]


def _draw_few(verdicts: Sequence[Verdict]) -> "Drawn | None":
    """Draws the reliability of a few contexts; None without right labels or matplotlib."""
    with suppress(ImportError):
        from batch_calibration.reporting.figures.preferences import draw_reliability

        diagnoses = [verdict.diagnosis for verdict in verdicts]
        return draw_reliability(diagnoses, [verdict.name for verdict in verdicts])
    return None


def make_cards(results: Results, verdicts: Mapping[str, Verdict]) -> dict[str, Card]:
    """Makes the card of each study; a context is called by the factors that vary in it."""
    cards = {}
    for section, group in results.studies.items():
        own = []
        for record, name in zip(group.records, group.names, strict=True):
            if record.id in verdicts:
                task = frame.factors_of(record)["task"]
                own.append(verdicts[record.id]._replace(name=name, task=task))
        cards[section] = Card(group.heading, group, own)
    return cards


def name_page(records: Sequence[Record]) -> str:
    """Returns the title of a page: the models, the tasks, and the factors that vary.

    >>> from batch_calibration.studies.records import ContextInfo
    >>> def record(**facts):
    ...     return Record(str(facts), ContextInfo(**facts), ("a", "b"), {"test": 1}, {})
    >>> name_page([record(model="gpt2", task="sst2")])
    'Label bias of gpt2 on SST-2'
    >>> name_page([record(task="mine", seed=seed) for seed in (0, 1)])
    'Label bias on mine: 2 seeds'
    """
    group = Frame(list(records))
    names = []
    for kind in ("model", "task"):
        titles = list(map(frame.task_title, group.levels(kind))) if records else [""]
        names.append(f"{len(titles):,} {kind}s" if len(titles) > 1 else titles[0])
    model, task = names
    varied = [part for part in group.scope.split(" × ") if part] if records else []
    more = [part for part in varied if not part.endswith((" models", " tasks"))]
    return (
        f"Label bias{model and f' of {model}'}{task and f' on {task}'}"
        f"{': ' * bool(more)}{' × '.join(more)}"
    )


def judge_records(results: Results) -> dict[str, Verdict]:
    """Judges the scores of records by the advice of `recommend`; contexts of a task are pooled."""
    judged, tables = list[Record](), list[ScoreTable]()
    for record in results.records:
        if table := results.load(record):
            test = table.blocks["test"]._replace(log_probs=record.scores_of(table))
            tables.append(table._replace(blocks={**table.blocks, "test": test}))
            judged.append(record)
    known = list(map(_known_shares, judged, tables))
    advised = recommend_tables(tables, [*map(task_of, tables)], known)
    verdicts = {}
    for record, table, advice in zip(judged, tables, advised, strict=True):
        by_bc = frame.gains_of_rows(record)
        verdict = judge_context("", record.context.task, advice, table, by_bc)
        # A study's scores are no losses, and demonstrations may have wrong labels on purpose.
        diagnosis = verdict.diagnosis._replace(doubt="")
        verdicts[record.id] = verdict._replace(diagnosis=diagnosis, record=record.id)
    return verdicts


def _known_shares(record: Record, table: ScoreTable) -> Known | None:
    """Returns the shares of the training file if methods matched them, or those of a design."""
    if any(found.options.get("target_prior") == "train" for found in record.methods.values()):
        return know_shares(counted_shares(table.context[TRAIN_LABELS]))
    return BY_DESIGN if table.context.get(BALANCED) is True else None

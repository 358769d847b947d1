"""Every table, figure and the report of a study: made in order, written whole or not at all."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import numpy as np

from batch_calibration.calibration.pooled_shares import FEWEST_CONTEXTS
from batch_calibration.diagnosis.known_shares import BY_DESIGN, Known, know_shares
from batch_calibration.diagnosis.recommend import LIKELY, TOGETHER, advise, implied_shares
from batch_calibration.diagnosis.verdicts import Verdict, judge_context
from batch_calibration.files import csv_text, file_name, write_whole
from batch_calibration.methods.options import counted_shares
from batch_calibration.methods.run import holds_cosines
from batch_calibration.reporting import frame, words
from batch_calibration.reporting.cells import latex, markdown, show_cells
from batch_calibration.reporting.items import ACROSS, Drawing, Results, Table, TextsOf
from batch_calibration.reporting.page import Card, Section, context_tables, figure_html, make_page
from batch_calibration.reporting.tables import TABLES
from batch_calibration.scores import BALANCED, TRAIN_LABELS, ScoreTable
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import Record, Run

Artifact = TypeVar("Artifact", Table, Drawing)


def make_tables(study: Results) -> list[Table]:
    """Every table: section by section, and in each in the order of `TABLES`."""
    return _in_sections(study, chain.from_iterable(make(study) for make in TABLES))


def make_figures(study: Results) -> list[Drawing]:
    """Every figure: section by section, and in each in the order of `drawings.FIGURES`.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from batch_calibration.reporting.drawings import FIGURES

    return _in_sections(study, chain.from_iterable(find(study) for find in FIGURES))


def _in_sections(study: Results, artifacts: Iterable[Artifact]) -> list[Artifact]:
    order = [*(str(group.setting) for group in study.groups), ACROSS]
    return sorted(artifacts, key=lambda artifact: order.index(artifact.section))


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables, below each the sentences of its note that no table before it had."""
    said = dict[str, None]()
    for table in tables:
        setting = "" if table.section == ACROSS else f": {table.section}"
        sentences = dict.fromkeys(re.split(r"(?<=[.]) (?=\S)", table.note))
        note = " ".join(sentence for sentence in sentences if sentence not in said)
        said |= sentences
        show_cells(f"{table.title}{setting}", table.cells, note)


MAX_IN_TABLES = 3  # contexts of a card whose labels have tables; of more the overview says enough
WITHOUT_FIGURES = (
    "The figures need matplotlib, which is not installed: pip install 'batch-calibration[plots]'."
)


def write_tables(study: Results, folder: Path) -> list[Table]:
    """Each table as Markdown and LaTeX, some as CSV."""
    tables = make_tables(study)
    for table in tables:
        write_table(table, folder / file_name(table.slug))
    return tables


def write_figures(
    study: Results,
    folder: Path,
    notify: Callable[[Path], None] = lambda path: None,
    formats: Sequence[str] = ("png",),
) -> None:
    """Writes each figure and its numbers as CSV; `notify` is called with each file."""
    for drawing in make_figures(study):
        for path in write_figure(drawing, folder / file_name(drawing.slug), formats):
            notify(path)


def write_figure(drawing: Drawing, path: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Writes a figure in each format, and its numbers as CSV; `path` lacks the ending."""
    from batch_calibration.reporting.figures.style import save

    drawn = drawing.draw()
    return [*save(drawn.figure, path, formats), _write(path, "csv", csv_text(drawn.cells))]


def write_table(table: Table, path: Path) -> list[Path]:
    """A table as Markdown and LaTeX, and as CSV where it has one; `path` lacks the ending."""
    files = [_write(path, "md", markdown(table.cells, table.note))]
    files.append(_write(path, "tex", latex(table.cells, table.note)))
    return files if table.csv is None else [*files, _write(path, "csv", csv_text(table.csv))]


def _write(path: Path, ending: str, text: str) -> Path:
    target = path.with_name(f"{path.name}.{ending}")
    write_whole(target, text.encode())
    return target


def write_report(
    study: Results,
    page: Path,
    missing: Sequence[str] = (),
    cards: Sequence[Card] = (),
    *,
    runs: Sequence[Run] | None = None,
    texts: TextsOf = lambda table: {},
    contexts: bool = False,
    title: str = "",
    date: str = "",
) -> tuple[list[Card], list[str]]:
    """One HTML page: verdicts and contexts, every table, and every figure.

    Without matplotlib it has words and tables alone, and says so.

    Args:
        study: what is shown.
        page: the file.
        missing: sentences on what is not shown, or on what shown results are no longer true of.
        cards: verdicts on contexts, by model and setting.
        runs: what was run; None leaves that out.
        texts: of a score table the texts of its test rows by id.
        contexts: whether the settings' own contexts are judged, and each is said in words.
        title: of the page; by default the study's models and tasks.
        date: of the scores; by default that of the last run.

    Returns:
        The cards, those of the settings too, and those sentences.
    """
    shown_tables = filter(attrgetter("shown"), make_tables(study))
    shown = frame.group_by(shown_tables, attrgetter("section"))
    drawn: dict[str, list[str]] = {}
    try:
        drawings = make_figures(study)
    except ImportError:
        drawings, missing = [], [*missing, WITHOUT_FIGURES]
    for drawing in drawings:
        if drawing.is_on_page:
            figure = drawing.draw_for_page(texts) if drawing.draw_for_page else drawing.draw()
            drawn.setdefault(drawing.section, []).append(figure_html(drawing.slug, figure))
    sections, shown_cards = [], [*cards]
    for card in cards:
        few = card.verdicts if len(card.verdicts) <= MAX_IN_TABLES else []
        tables = list(chain.from_iterable(map(context_tables, few)))
        heading = f"{card.heading}: each context"
        sections.append(Section(heading, "", tables, (), card.verdicts))
    others = len(study.records) - sum(len(group.records) for group in study.sections)
    if contexts and others:
        missing = [
            *missing,
            f"{others:,} of {len(study.records):,} contexts are in the tables and figures of "
            f"{ACROSS!r} only: their prompts or shots differ from the contexts judged here.",
        ]
    shorts = frame.name_differences([group.setting for group in study.sections])
    for group, short in zip(study.sections, shorts, strict=True):
        name, paragraph = str(group.setting), words.setting_paragraph(group)
        loaded = ((record, study.load(record)) for record in group.records if contexts)
        single = [judge_record(record, table) for record, table in loaded if table]
        shown_cards += [Card(name, single, short)] if single else []
        figures = drawn.get(name, ())
        sections.append(Section(name, paragraph, shown.get(name, ()), figures, single))
    studies = words.study_paragraphs(study).values()
    if ACROSS in shown or ACROSS in drawn:
        lines = "\n".join(["Accuracy as one setting varies and the others stay fixed.", *studies])
        figures = drawn.get(ACROSS, ())
        sections.append(Section(ACROSS, lines, shown.get(ACROSS, ()), figures))
    last_run = max((run.began for run in runs or ()), default="")
    models = [record.context.model for record in study.records]
    tasks = [record.context.task for record in study.records]
    title, date = title or name_page(models, tasks), date or last_run[:10]
    html = make_page(sections, runs, cards=shown_cards, notices=missing, title=title, date=date)
    write_whole(page, html.encode())
    return shown_cards, [*missing]


def name_page(models: Sequence[str], tasks: Sequence[str]) -> str:
    """The title of a page: whose bias it is, on what.

    >>> name_page(["gpt2"], ["sst2"])
    'Label bias of gpt2 on SST-2'
    >>> name_page(["", "a"], ["sst2", "rte"]), name_page([""], ["mine"])
    ('Label bias of 2 models on 2 tasks', 'Label bias on mine')
    """
    names, tasks = list(dict.fromkeys(models)), list(dict.fromkeys(tasks))
    model = f"{len(names):,} models" if len(names) > 1 else "".join(names)
    task = f"{len(tasks):,} tasks" if len(tasks) > 1 else frame.task_title("".join(tasks))
    return f"Label bias{model and f' of {model}'}{task and f' on {task}'}"


def judge_record(record: Record, table: ScoreTable) -> Verdict:
    """Judges the scores of a record, with the shares that its methods found.

    If the methods did not run, or ran with options, the shares are estimated from the context.
    """
    context = record.context
    scores = record.scores_of(table)
    table = table._replace(
        blocks={**table.blocks, "test": table.blocks["test"]._replace(log_probs=scores)}
    )
    name = frame.context_title(context.task, context.seed)
    known: Known | None = None
    task = TASKS.get(context.task)
    if any(found.options.get("target_prior") == "train" for found in record.methods.values()):
        known = know_shares(counted_shares(table.context[TRAIN_LABELS]))
    # Tables of earlier versions do not contain it.
    elif table.context.get(BALANCED) is True or (task and task.balanced and not task.is_image):
        known = BY_DESIGN
    results = [record.methods.get(name) for name in (LIKELY, TOGETHER)]
    are_usual = not any(result.options for result in results if result)
    alone, pooled = ((are_usual and result and result.bias) or None for result in results)
    # Contexts of a task with fewer than three are corrected separately.
    is_pooled = pooled is not None and pooled != alone
    bias, shares = pooled if is_pooled else alone, None
    if bias is not None and known is None:
        shares = implied_shares(scores, np.asarray(bias, np.float32))
    contexts = FEWEST_CONTEXTS if is_pooled else 1
    advice = advise(
        scores, table.label_names, known, shares=shares, contexts=contexts,
        # It is skipped if the contexts are not known to have the same rows.
        same_rows="ensemble" in record.methods, cosines=holds_cosines(table),
        is_labeled=bool((table.blocks["test"].labels >= 0).any()),
    )  # fmt: skip
    verdict = judge_context(name, context.task, advice, table)
    # A study's scores are no losses, and flipped demonstrations turn the answers round.
    return verdict._replace(diagnosis=verdict.diagnosis._replace(doubt=""))

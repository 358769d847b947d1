"""The page as text: its style, figures and program are in it, nothing is fetched."""

import base64
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.diagnosis.verdicts import Verdict
from batch_calibration.files import file_name
from batch_calibration.reporting import verdict_tables, words
from batch_calibration.reporting.catalogue import ACROSS, Table
from batch_calibration.reporting.cells import Best, Cells, Sums
from batch_calibration.reporting.frame import group_by
from batch_calibration.studies import Run, csv_text

if TYPE_CHECKING:
    from batch_calibration.reporting.figures.style import Drawn

TITLE = "Label-bias correction"
MAX_TABLES_OPEN = 4  # of more tables in a section the first alone stands open
FOLDER = Path(__file__).parent
MAX_CONTEXTS_FULL = 100  # of more contexts none has reasons and a table of its own
NO_RUNS = (
    "This workdir keeps no facts about scoring runs: its scores came from elsewhere, or from a "
    "version that kept none."
)


class Card(NamedTuple):
    """The first view: the contexts of one model and setting, and its name."""

    heading: str
    verdicts: Sequence[Verdict]
    short: str = ""  # what tells it from other cards, where names of contexts do not


class Section(NamedTuple):
    """A heading, a paragraph or several (lines), tables, figures, and single contexts."""

    heading: str
    paragraph: str
    tables: Sequence[Table] = ()
    figures: Sequence[str] = ()  # of `figure_html`
    contexts: Sequence[Verdict] = ()


def make_page(
    sections: Sequence[Section],
    runs: Sequence[Run] | None = None,
    *,
    cards: Sequence[Card] = (),
    notices: Sequence[str] = (),
    title: str = TITLE,
    date: str = "",
) -> str:
    """The page: notices, verdicts, contexts and their gains; details, folded; what was run.

    Runs that are None are left out; the date is that of the scores.
    """
    contexts = list(chain.from_iterable(card.verdicts for card in cards))
    rows = sum(verdict.diagnosis.rows for verdict in contexts)
    counts = (
        f"{len(contexts):,} context{'s' * (len(contexts) > 1)}, {rows:,} rows" if contexts else ""
    )
    subtitle = escape(", ".join(filter(None, (counts, date))))
    lines = [f'<header><h1>{escape(title)}</h1><p class="note">{subtitle}</p></header>']
    lines += [f'<p class="notice">{escape(notice)}</p>' for notice in notices]
    if cards:
        lines.append(f'<div class="cards">{"".join(map(card_html, cards))}</div>')
        lines += _contexts(cards)
    if sections:
        lines.append('<h2 id="details">Details</h2>')
    for number, section in enumerate(sections):
        lines.append(_section(section, f"s{number}"))
    if runs is not None:
        lines.append(f'<section id="run"><h2>What was run</h2>{runs_html(runs)}</section>')
    body, named = "\n".join(lines), escape(", ".join(filter(None, (title, date))))
    style, program = ((FOLDER / name).read_text("utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{named}</title>\n<style>{style}</style></head>\n"
        f"<body><main>\n{body}\n</main>\n<script>{program}</script></body></html>\n"
    )


def _fold(attributes: str, summary: str, content: str) -> str:
    return f"<details {attributes}><summary>{summary}</summary>\n{content}</details>"


def card_html(card: Card) -> str:
    """A card: what to do in a line, then what is known, question by question."""
    pairs = []
    for question, answer in words.facts(card.verdicts).items():
        pairs.append(f"<dt>{escape(question)}</dt><dd>{escape(answer)}</dd>")
    return (
        f'<section class="card"><h2>{escape(card.heading)}</h2>'
        f'<p class="verdict">{escape(words.headline(card.verdicts))}</p>'
        f"<dl>{''.join(pairs)}</dl></section>"
    )


def _contexts(cards: Sequence[Card]) -> list[str]:
    """The contexts in one table, where there are several, and one chart of them."""
    contexts = list(chain.from_iterable(card.verdicts for card in cards))
    if len({verdict.name for verdict in contexts}) < len(contexts):
        # Settings have contexts of one name: each says its setting.
        contexts = []
        for card in cards:
            setting = card.short or card.heading
            for verdict in card.verdicts:
                contexts.append(verdict._replace(name=f"{verdict.name}: {setting}"))
    names = [verdict.name for verdict in contexts]
    try:
        from batch_calibration.reporting.figures.preferences import draw_preferences
    except ImportError:  # without matplotlib the page has words and tables
        drawn = ""
    else:
        diagnoses = [verdict.diagnosis for verdict in contexts]
        figure = figure_html("preferences", draw_preferences(diagnoses, names))
        drawn = f'<div id="effects">{figure}</div>'
    if len(contexts) == 1:
        return [drawn]
    cells = verdict_tables.verdict_cells(contexts)
    are_cosines = {verdict.diagnosis.cosines for verdict in contexts}
    cells, note = verdict_tables.with_unit(cells, verdict_tables.OVERVIEW_NOTE, are_cosines)
    table = Table(ACROSS, "contexts", "Contexts, the largest effect first", cells, note, unit="")
    head = '<section id="overview"><h2>Contexts, the largest effect first</h2>'
    return [f"{head}\n{table_html(table)}</section>", drawn]


def _section(section: Section, name: str) -> str:
    """A section of the details, folded; in it tables and single contexts are folded, too."""
    lines = list(map("<p>{}</p>".format, escape(section.paragraph).splitlines()))
    for i, table in enumerate(section.tables):
        state = " open" if not i or len(section.tables) <= MAX_TABLES_OPEN else ""
        heading = f"<h4>{escape(table.title)}</h4>"
        lines.append(_fold(f'id="{name}-t{i}"{state}', heading, table_html(table)))
    for i, figure in enumerate(section.figures):
        lines.append(f'<div id="{name}-f{i}">{figure}</div>')
    if section.contexts:
        count, contexts = len(section.contexts), []
        for i, context in enumerate(section.contexts):
            is_full = count <= MAX_CONTEXTS_FULL
            contexts.append(context_html(context, f"{name}-c{i}", is_full=is_full))
        heading = f"<h4>Each context in words ({count:,})</h4>"
        lines.append(_fold(f'id="{name}-contexts"', heading, "\n".join([*contexts, ""])))
    heading = f"<h3>{escape(section.heading)}</h3>"
    return _fold(f'class="section" id="{name}"', heading, "\n".join([*lines, ""]))


def figure_html(slug: str, drawn: "Drawn") -> str:
    """A figure with its heading, how to read it, its rows in a table, and a link to its numbers."""
    from batch_calibration.reporting.figures.files import page_svg

    name = file_name(slug)
    lines = [
        f'<figure id="figure-{name}"><figcaption>{escape(drawn.heading)}</figcaption>',
        f'<div class="drawn" tabindex="0">{page_svg(drawn, slug)}</div>',
    ]
    if drawn.note:
        lines.append(f'<p class="note">{escape(drawn.note)}</p>')
    if drawn.rows:
        table = Table(
            ACROSS, f"{slug}-rows", f"{drawn.heading}: rows", list(drawn.rows), unit=drawn.unit
        )
        heading = f"Texts of {len(drawn.rows) - 1:,} rows"
        lines.append(_fold(f'class="texts" id="{name}-rows"', heading, table_html(table)))
    lines.append(f"<p>{_download(name, drawn.cells)}</p>")
    return "\n".join([*lines, "</figure>"])


def _download(name: str, cells: Cells) -> str:
    """A link that saves the cells as a file of CSV, which the page holds."""
    encoded = base64.b64encode(csv_text(cells).encode()).decode()
    return (
        f'<a class="csv" download="{name}.csv" '
        f'href="data:text/csv;charset=utf-8;base64,{encoded}">{name}.csv</a>'
    )


def table_html(table: Table) -> str:
    """Rows that can be sorted and filtered, sums and a note below; the page saves them as CSV."""
    header, *rows = table.cells
    split = sum(not isinstance(row, Sums) for row in rows)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body, foot = ("\n".join(map(_row, part)) for part in (rows[:split], rows[split:]))
    sums = f"\n<tfoot>{foot}</tfoot>" if foot else ""
    note = f"<p>{escape(table.note)}</p>\n" if table.note else ""
    return (
        f'<div class="table" role="region" tabindex="0" aria-label="{escape(table.title)}" '
        f'data-file="{file_name(table.slug)}"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody>{sums}</table></div>\n{note}"
    )


def _row(row: Sequence[str]) -> str:
    name, *cells = map(_shown, row)
    return f'<tr><th scope="row">{name}</th>{"".join(map("<td>{}</td>".format, cells))}</tr>'


def _shown(cell: str) -> str:
    """A cell; what is the best is bold, an interval stands in an element of its own."""
    number, interval, mark = map(escape, getattr(cell, "parts", ()) or (cell, "", ""))
    bold = f"<b>{number}</b>" if isinstance(cell, Best) else number
    return f"{bold}<span> {interval}</span>{mark}" if interval else bold


def runs_html(runs: Sequence[Run]) -> str:
    """A line a run; runs that differ only in when they were and what they did, are one."""
    groups = group_by(runs, lambda run: repr(replace(run, began="", rows=None, seconds=None)))
    lines = "\n".join(f"<li>{_run(group)}</li>" for group in groups.values())
    return f'<ol class="runs">{lines}</ol>' if runs else f"<p>{NO_RUNS}</p>"


def _run(runs: Sequence[Run]) -> str:
    first, progress = runs[0], []
    for run in runs:
        done = "did not come to its end"
        if run.rows is not None and run.seconds is not None:
            done = f"{run.rows:,} rows in {run.seconds:,.1f} s"
        progress.append(f"{run.began} UTC: {done}")
    versions = ", ".join(map(" ".join, first.versions.items()))
    code = f"Commit {first.commit}. {versions}." if first.commit else f"{versions}."
    settings = []
    for name, setting in first.config.items():
        several = isinstance(setting, list | tuple)
        shown = ", ".join(map(str, setting)) if several else str(setting)  # type: ignore[call-overload]
        settings.append(f"<dt>{escape(name)}</dt><dd>{escape(shown)}</dd>")
    listed = "\n".join(settings)
    lines = [
        f"<code>{escape(first.command)}</code>",
        f"<p>{escape('; '.join(progress))}.</p>",
        f"<p>{first.contexts:,} contexts on {escape(first.device)}. {escape(code)}</p>",
        f"<details><summary>Settings</summary><dl>{listed}</dl></details>" if settings else "",
    ]
    return "\n".join(filter(None, lines))


def context_html(context: Verdict, name: str, *, is_full: bool) -> str:
    """The context's line, and its sentences, and with `is_full` reasons and a table of labels."""
    sentences, table = context.diagnosis.sentences(), ""
    if is_full:
        sentences += context.recommendation.reason
        table = table_html(
            verdict_tables.context_tables(context)[0]._replace(slug=f"{name}-labels")
        )
    content = f"<p>{escape(' '.join(sentences))}</p>\n{table}"
    return _fold(f'id="{name}" class="context"', escape(_headline(context)), content)


def _headline(context: Verdict) -> str:
    """A context in a line: which label it favors, by how much, and what accuracy does."""
    diagnosis, names = context.diagnosis, context.diagnosis.label_names
    low = names[int(diagnosis.preference.argmin())]
    line = f"{context.name}: favors {context.preferred!r} over {low!r} by "
    line += verdict_tables.size_cell(diagnosis) + " nats" * (not diagnosis.cosines)
    if diagnosis.before and diagnosis.after:
        before, after = diagnosis.before.accuracy.value, diagnosis.after.accuracy.value
        line += f"; accuracy {100 * before:.1f} → {100 * after:.1f} %"
    return line

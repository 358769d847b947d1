"""The page as text: its style, figures and program are in it, nothing is fetched."""

import base64
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.diagnosis.verdicts import Verdict
from batch_calibration.errors import escape_controls
from batch_calibration.files import csv_text, file_name
from batch_calibration.reporting import cells, palette, words
from batch_calibration.reporting.frame import group_by
from batch_calibration.reporting.items import ACROSS, Table
from batch_calibration.reporting.palette import verdict_color
from batch_calibration.studies import Run

if TYPE_CHECKING:
    from batch_calibration.reporting.figures.style import Drawn

TITLE = "Label-bias correction"
MAX_TABLES_OPEN = 4  # of more tables in a section the first alone stands open
FOLDER = Path(__file__).parent
MAX_CONTEXTS_FULL = 100  # of more contexts none has reasons and a table of its own
MIN_ROWS = 3  # of fewer rows a column that says the same in all of them stays
MAX_BARS = 5  # labels of a card's picture; of more those whose shares are most off
MEANINGS = {
    "context": "All that decides the scores but the rows: model, template, label words, examples.",
    "label bias": "A model's preference for some labels whatever the input.",
    "points": "A difference of two percentages; in brackets its 95 % interval.",
    "beyond noise": "0 is outside the 95 % interval, over rows and draws of demonstrations.",
    "nats": "The unit of log-probabilities: 0.69 nats are a factor of 2.",
    "bc": "Batch Calibration: it subtracts each label's mean score over the rows. icl: no change.",
}
"""Word -> what it means, of the words that the page uses most."""
NO_RUNS = (
    "This workdir has no facts about scoring runs: its scores came from elsewhere, or from a "
    "version that stored none."
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
    subtitle += ' (<a href="#words">what the words mean</a>)'
    lines = [f'<header><h1>{escape(title)}</h1><p class="note">{subtitle}</p></header>']
    lines += [f'<p class="notice">{escape(notice)}</p>' for notice in notices]
    if cards:
        # Of several cards each is called by what tells it from the others.
        shown = []
        for card in cards:
            heading = (card.short if len(cards) > 1 else "") or card.heading
            shown.append(card_html(card._replace(heading=heading)))
        lines.append(f'<div class="cards">{"".join(shown)}</div>')
        lines.append(_contexts(cards))
    if sections:
        lines.append('<h2 id="details">Details</h2>')
    for number, section in enumerate(sections):
        lines.append(_section(section, f"s{number}"))
    if runs is not None:
        lines.append(f'<section id="run"><h2>What was run</h2>{runs_html(runs)}</section>')
    # The words that the page uses; of cosines it says that they have no nats.
    used, meanings = "\n".join(lines).replace("osines have no nats", ""), ""
    for word, meaning in MEANINGS.items():
        meanings += f"<dt>{word}</dt><dd>{escape(meaning)}</dd>" * (word in used)
    lines.append(_fold('class="section" id="words"', "<h3>Words</h3>", f"<dl>{meanings}</dl>"))
    body, named = escape_controls("\n".join(lines)), escape(", ".join(filter(None, (title, date))))
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
    """A card: three lines and a picture; folded, what is known, question by question."""
    bias, effect, advice = map(escape, words.card_lines(card.verdicts))
    # Commands are broken between words alone.
    pieces = advice.split("`")
    for place in range(1, len(pieces), 2):
        command = re.sub(r"\S+", r"<span>\g<0></span>", pieces[place])
        pieces[place] = f"<code>{command}</code>"
    pairs = []
    for question, answer in words.facts(card.verdicts).items():
        pairs.append(f"<dt>{escape(question)}</dt><dd>{escape(answer)}</dd>")
    answers = _fold('class="facts"', "How sure, how safe", f"<dl>{''.join(pairs)}</dl>")
    return (
        f'<section class="card"><h2>{escape(card.heading)}</h2><div class="first"><div>'
        f'<p class="verdict">{bias}</p><p class="verdict">{effect}</p><p>{"".join(pieces)}</p>'
        f'</div><div class="picture">{_bars(card.verdicts)}{_strip(card.verdicts)}</div></div>'
        f"{answers}</section>"
    )


def _picture(kind: str, caption: str, colors: Mapping[str, str], content: str) -> str:
    """A small figure of a card, with the meaning of its colors."""
    for name, color in colors.items():
        caption += f' <span><i style="background:{color}"></i>{escape(name)}</span>'
    return f'<figure class="{kind}"><figcaption>{caption}</figcaption>{content}</figure>'


def _bars(verdicts: Sequence[Verdict]) -> str:
    """Shares of each label before, after and right; of several contexts those of its top label."""
    found, methods = verdicts[0].diagnosis, {verdict.first_answer[0] for verdict in verdicts}
    right = () if found.classes is None else (found.classes,)
    after_shares = verdicts[0].first_answer[1]
    rows = list(zip(found.label_names, found.predicted, after_shares, *right, strict=True))
    if len(verdicts) > 1:
        rows = [("most predicted label, mean over contexts", *words.most_predicted(verdicts))]
    more = len(rows) - MAX_BARS
    if more > 0:
        rows.sort(key=lambda row: -abs(row[1] - row[-1]))
    after = f"after {methods.pop()}" if len(methods) == 1 else "after the correction"
    colors = {"predicted": palette.color("icl"), after: palette.color("bc"), "right": "none"}
    content = ""
    for name, *shares in rows[:MAX_BARS]:
        content += f"<p>{escape(name)}</p>"
        for share, color in zip(shares, colors.values(), strict=False):
            style = f"background:{color};width:calc({share:.4f} * (100% - 2.5rem))"
            content += f'<div><i style="{style}"></i>{100 * share:.0f}</div>'
    content += f"<p>{more:,} more labels are in the details.</p>" if more > 0 else ""
    if len(rows[0]) < 4:
        del colors["right"]
    return _picture("shares", "Share of rows in %:", colors, content)


def _strip(verdicts: Sequence[Verdict]) -> str:
    """The measured gain of each of several contexts as a mark, losses in their own color."""
    named = [(verdict.diagnosis.gain, verdict.name) for verdict in verdicts]
    gains = sorted([(gain, name) for gain, name in named if gain], reverse=True)
    if len(gains) < 2:
        return ""
    low, high = min(gains[-1][0].value, 0.0), max(gains[0][0].value, 0.001)
    marks, counts = "", cells.count_signs(gain for gain, _ in gains)
    for place, (gain, name) in enumerate(gains):
        # A mark of no height would not be seen.
        height = max(abs(gain.value), 0.02 * (high - low)) * (-1 if gain.value >= 0 else 1)
        color = verdict_color(gain.beyond_noise)
        marks += f'<path d="M{place + 0.5} 0v{height:.4f}" stroke="{color}">'
        marks += f"<title>{escape(f'{name}: {gain.points}')}</title></path>"
    colors = {}
    for count, kind, sign in zip(counts, ("gain", "within noise", "lose"), (1, 0, -1), strict=True):
        colors[f"{count:,} {kind}"] = verdict_color(sign)
    caption = f"Gain of each context as recommended ({100 * low:+.1f} to {100 * high:+.1f} points):"
    box = f"0 {-high:.4f} {len(gains)} {high - low:.4f}"
    content = (
        f'<svg viewBox="{box}" preserveAspectRatio="none" role="img" aria-label="{caption}" '
        f'stroke-width=".8">{marks}</svg>'
    )
    return _picture("strip", caption, colors, content)


def _contexts(cards: Sequence[Card]) -> str:
    """The contexts in one table, where there are several."""
    contexts = list(chain.from_iterable(card.verdicts for card in cards))
    if len({verdict.name for verdict in contexts}) < len(contexts):
        # Settings have contexts of one name: each says its setting.
        contexts = []
        for card in cards:
            setting = card.short or card.heading
            for verdict in card.verdicts:
                contexts.append(verdict._replace(name=f"{verdict.name}, {setting}"))
    if len(contexts) == 1:
        return ""
    shared, contexts = _shorten(contexts)
    are_cosines = {verdict.diagnosis.cosines for verdict in contexts}
    rows = cells.verdict_cells(contexts)
    rows, note = cells.with_unit(rows, cells.OVERVIEW_NOTE, are_cosines)
    table = Table(ACROSS, "contexts", "Contexts, the largest effect first", rows, note, unit="")
    said = f'<p class="note">All of {escape(shared)}.</p>' if shared else ""
    head = f'<section id="overview"><h2>Contexts, the largest effect first</h2>{said}'
    return f"{head}\n{table_html(table)}</section>"


def _shorten(contexts: Sequence[Verdict]) -> tuple[str, list[Verdict]]:
    """The parts that all names share, and the contexts by the other parts of their names."""
    parts = [verdict.name.split(", ") for verdict in contexts]
    shared = sorted(set(parts[0]).intersection(*parts), key=parts[0].index)
    shortened = []
    for verdict, own in zip(contexts, parts, strict=True):
        name = ", ".join(part for part in own if part not in shared)
        shortened.append(verdict._replace(name=name or verdict.name))
    return ", ".join(shared), shortened


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
    from batch_calibration.reporting.figures.style import page_svg

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
    encoded = base64.b64encode(csv_text(drawn.cells).encode()).decode()
    lines.append(
        f'<p><a class="csv" download="{name}.csv" '
        f'href="data:text/csv;charset=utf-8;base64,{encoded}">{name}.csv</a></p>'
    )
    return "\n".join([*lines, "</figure>"])


def table_html(table: Table) -> str:
    """Rows that can be sorted and filtered, sums and a note below; the page saves them as CSV.

    A column that says the same in every row is said above; it is hidden, and saved with the rest.
    """
    header, *rows = table.cells
    split = sum(not isinstance(row, cells.Sums) for row in rows)
    hidden, said = set[int](), []
    for place, name in enumerate(header[1:] if split >= MIN_ROWS else (), 1):
        (first, *others), sums = [row[place] for row in rows[:split]], rows[split:]
        if set(others) == {first} and not any(row[place] for row in sums):
            hidden.add(place)
            said += [f"{name} {first}"] if first else []
    shared = f'<p class="note">In every row: {escape(", ".join(said))}.</p>\n' if said else ""
    head = ""
    for place, name in enumerate(header):
        head += f'<th scope="col"{" hidden" * (place in hidden)}>{escape(name)}</th>'
    lines = [_row(row, hidden) for row in rows]
    body, foot = ("\n".join(part) for part in (lines[:split], lines[split:]))
    footer = f"\n<tfoot>{foot}</tfoot>" if foot else ""
    note = f"<p>{escape(table.note)}</p>\n" if table.note else ""
    return (
        f'{shared}<div class="table" role="region" tabindex="0" aria-label="{escape(table.title)}" '
        f'data-file="{file_name(table.slug)}"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody>{footer}</table></div>\n{note}"
    )


def _row(row: Sequence[str], hidden: Set[int]) -> str:
    html = f'<th scope="row">{_shown(row[0])}</th>'
    for place, cell in enumerate(row[1:], 1):
        html += f"<td{' hidden' * (place in hidden)}>{_shown(cell)}</td>"
    return f"<tr>{html}</tr>"


def _shown(cell: str) -> str:
    """A cell; what is the best is bold, an interval stands in an element of its own."""
    number, interval, mark = map(escape, getattr(cell, "parts", ()) or (cell, "", ""))
    bold = f"<b>{number}</b>" if isinstance(cell, cells.Best) else number
    return f"{bold}<span> {interval}</span>{mark}" if interval else bold


def runs_html(runs: Sequence[Run]) -> str:
    """A line a run; runs that differ only in when they were and what they did, are one."""
    groups = group_by(runs, lambda run: repr(replace(run, began="", rows=None, seconds=None)))
    lines = "\n".join(f"<li>{_run(group)}</li>" for group in groups.values())
    return f'<ol class="runs">{lines}</ol>' if runs else f"<p>{NO_RUNS}</p>"


def _run(runs: Sequence[Run]) -> str:
    first, progress = runs[0], []
    for run in runs:
        done = "did not finish"
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


def context_tables(verdict: Verdict) -> list[Table]:
    """Two tables of a context: facts of each label, and how often its predictions are right."""
    name, rows = verdict.name, cells.label_cells(verdict.diagnosis)
    both = [Table(ACROSS, "labels", f"{name}: labels", rows, unit="shares in %")]
    if verdict.diagnosis.before:  # None where no right label is known
        rows = cells.right_cells(verdict.diagnosis)
        both.append(Table(ACROSS, "right", f"{name}: right answers", rows, unit="in %"))
    return both


def context_html(context: Verdict, name: str, *, is_full: bool) -> str:
    """The context's line, and its sentences, and with `is_full` reasons and a table of labels."""
    sentences, table = context.diagnosis.sentences(), ""
    if is_full:
        sentences += context.advice.reason
        labels, *_ = context_tables(context)
        table = table_html(labels._replace(slug=f"{name}-labels"))
    content = f"<p>{escape(' '.join(sentences))}</p>\n{table}"
    summary = f"{context.name}: {' '.join(words.card_lines([context])[:2])}"
    return _fold(f'id="{name}" class="context"', escape(summary), content)

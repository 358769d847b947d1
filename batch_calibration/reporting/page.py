"""Makes the page as text with its style, figures and program; it loads no other file."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.diagnosis.verdicts import Verdict
from batch_calibration.errors import escape_controls
from batch_calibration.files import csv_text, file_name
from batch_calibration.reporting import cells, frame, palette, words
from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.frame import REFERENCES, Frame, factor_name
from batch_calibration.reporting.items import Table
from batch_calibration.reporting.palette import verdict_color
from batch_calibration.reporting.tables import spread
from batch_calibration.reporting.words import Card
from batch_calibration.studies import Run

if TYPE_CHECKING:
    from batch_calibration.reporting.figures.style import Drawn

TITLE = "Label-bias correction"
FOLDER = Path(__file__).parent
FIRST_METHODS = ("icl", "cc", "dc", "pc", "bc")  # of the first screen, the paper's
MOVES = (
    "Standard deviation of accuracy over the levels of a factor while the others are held, in "
    "points (lower: this choice matters less):"
)
MAX_IN_TABLES = 3  # contexts of a study with tables of their labels among the others
MAX_CONTEXTS_FULL = 20  # contexts with reasons and a table; with more, no context has them
MAX_CONTEXTS = 200  # contexts that are described in words; with more, no context is
MAX_BARS = 5  # labels in a card's picture, those with the largest errors in their shares
MAX_LETTERS = 22  # letters of a level beside a dot
MAX_DOTS = 15  # levels of a factor in a card's picture, those with the largest changes
MEANINGS = {
    "context": "All that decides the scores but the rows: model, template, label words, examples.",
    "label bias": "A model's preference for some labels whatever the input.",
    "points": "A difference of two percentages; in brackets its 95 % interval.",
    "beyond noise": "0 is outside the 95 % interval, over rows and draws of demonstrations.",
    "nats": "The unit of log-probabilities: 0.69 nats are a factor of 2.",
    "bc": "Batch Calibration: it subtracts each label's mean score over the rows. icl: no change.",
}
"""Word -> its meaning."""
NO_RUNS = (
    "This workdir has no facts about scoring runs: its scores came from elsewhere, or from a "
    "version that stored none."
)


class Section(NamedTuple):
    """The details of a study.

    Attributes:
        heading: the title.
        tables: tables; the first one is open.
        figures: results of `figure_html`.
        contexts: verdicts on single contexts.
    """

    heading: str
    tables: Sequence[Table] = ()
    figures: Sequence[str] = ()
    contexts: Sequence[Verdict] = ()


def make_page(
    sections: Sequence[Section],
    runs: Sequence[Run] | None = None,
    *,
    cards: Sequence[Card] = (),
    notices: Sequence[str] = (),
    title: str = TITLE,
    date: str = "",
    source: str = "",
) -> str:
    """Makes the page: a card for each study, its contexts, folded details, and the runs.

    Args:
        sections: the details.
        runs: runs of scoring; None leaves them out.
        cards: the first screen.
        notices: remarks on results that are missing or out of date; they follow the cards.
        title: the title.
        date: the date of the scores.
        source: the file or folder of the scores, for commands.
    """
    contexts = list(chain.from_iterable(card.verdicts for card in cards))
    rows = sum(verdict.diagnosis.rows for verdict in contexts)
    counts = f"{len(contexts):,} context{'s' * (len(contexts) > 1)}, {rows:,} scored rows"
    subtitle = escape(", ".join(filter(None, (counts * bool(contexts), date))))
    subtitle += ' (<a href="#words">what the words mean</a>)'
    lines = [f'<header><h1>{escape(title)}</h1><p class="note">{subtitle}</p></header>']
    for card in cards:
        heading = f"<h2>{escape(card.heading)}</h2>" if len(cards) > 1 else ""
        content = card_html(card, source, is_only=len(cards) == 1)
        lines.append(f'<section class="card">{heading}{content}</section>')
    lines += [f'<p class="notice">{escape(notice)}</p>' for notice in notices]
    if sections:
        lines.append('<h2 id="details">Details</h2>')
    for number, section in enumerate(sections):
        lines.append(_section(section, f"s{number}"))
    if runs is not None:
        lines.append(_fold('class="section" id="run"', "<h3>Runs</h3>", runs_html(runs)))
    # Only words on the page; "nats" does not count in the note on cosines.
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


def card_html(card: Card, source: str, *, is_only: bool) -> str:
    """Formats a card: sentences, each answer's accuracy, a picture, the advice, and its facts."""
    accuracy, *more, advice = map(escape, words.card_lines(card, source, is_only=is_only))
    accuracy = re.sub(r"(?<= to )[\d.]+ %", r"<b>\g<0></b>", accuracy, count=1)
    # Commands are broken only between words.
    pieces = advice.split("`")
    for place in range(1, len(pieces), 2):
        command = re.sub(r"\S+", r"<span>\g<0></span>", pieces[place])
        pieces[place] = f"<code>{command}</code>"
    pairs = []
    for question, answer in words.facts(card).items():
        pairs.append(f"<dt>{escape(question)}</dt><dd>{escape(answer)}</dd>")
    facts = _fold('class="facts"', "How sure, how safe", f"<dl>{''.join(pairs)}</dl>")
    answers, lines = words.answer_cells(card), "".join(map("<p>{}</p>".format, more))
    table = f'<div class="answers">{_plain_table(answers)}</div>' if answers else ""
    if len(card.frame) > 2 and (moves := spread(card.frame, card.frame.among(FIRST_METHODS))):
        lines += f"<p>{MOVES}</p>" + f'<div class="answers">{_plain_table(moves)}</div>'
    picture = _bars(card.verdicts) if len(card.verdicts) == 1 else _dots(card.frame)
    return (
        f'<p class="headline">{accuracy}</p><div class="first"><div>{table}{lines}'
        f'<p class="do">{"".join(pieces)}</p>{facts}</div>{picture}</div>'
    )


def _plain_table(rows: Cells) -> str:
    """Formats a small table that is neither sorted nor saved."""
    header, *body = rows
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(map(_row, body))}</tbody></table>"


def _picture(kind: str, caption: str, colors: Mapping[str, str], content: str) -> str:
    """Formats a small figure of a card, with the meaning of its colors."""
    for name, color in colors.items():
        caption += f' <span><i style="background:{color}"></i>{escape(name)}</span>'
    return f'<figure class="picture {kind}"><figcaption>{caption}</figcaption>{content}</figure>'


def _bars(verdicts: Sequence[Verdict]) -> str:
    """Draws the shares of each label before, after and right, for one context."""
    found, (method, after_shares) = verdicts[0].diagnosis, verdicts[0].first_answer
    right = () if found.classes is None else (found.classes,)
    rows = list(zip(found.label_names, found.predicted, after_shares, *right, strict=True))
    more = len(rows) - MAX_BARS
    if more > 0:
        rows.sort(key=lambda row: -abs(row[1] - row[-1]))
    colors = {"answered": palette.color("icl"), f"after {method}": palette.color("bc")}
    if right:
        colors["right"] = "none"
    content = ""
    for name, *shares in rows[:MAX_BARS]:
        content += f"<p>{escape(name)}</p>"
        for share, color in zip(shares, colors.values(), strict=False):
            style = f"background:{color};width:calc({share:.4f} * (100% - 2.5rem))"
            content += f'<div><i style="{style}"></i>{100 * share:.0f}</div>'
    content += f"<p>{more:,} more labels are in the details.</p>" if more > 0 else ""
    return _picture("shares", "Share of rows in %:", colors, content)


def _dots(group: Frame) -> str:
    """Draws accuracy before and after bc for each level of each factor, with the numbers."""
    rows = list(_dot_rows(group))
    if not rows:
        return ""
    ends = list(chain.from_iterable((before, after) for _, _, before, after in rows))
    low, high = 10 * np.floor(min(ends) / 10), 10 * np.ceil((max(ends) + 0.1) / 10)
    width, left, right, line = 560, 200, 400, 20

    def x(value: float) -> str:
        return f"{left + (value - low) / (high - low) * (right - left):.1f}"

    step, marks, y = 10 if high - low <= 50 else 20, "", 14
    for heading, label, before, after in rows:
        if heading:
            y += 30
            marks += f'<text x="0" y="{y}" class="factor">{escape(heading)}</text>'
        y += line
        color = palette.color("bc") if after >= before else verdict_color(-1)
        gray = palette.color("icl")
        shown = label if len(label) <= MAX_LETTERS else f"{label[: MAX_LETTERS - 1]}…"
        marks += (
            f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{escape(shown)}</text>'
            f'<path d="M{x(before)} {y}H{x(after)}" stroke="{color}" stroke-width="2.5"/>'
            f'<circle cx="{x(before)}" cy="{y}" r="4" fill="{gray}"/>'
            f'<circle cx="{x(after)}" cy="{y}" r="5" fill="{color}"/>'
            f'<text x="{right + 14}" y="{y + 4}">{before:.1f} → {after:.1f}</text>'
            f'<text x="{width}" y="{y + 4}" text-anchor="end">{after - before:+.1f}</text>'
        )
    grid = ""
    for tick in range(int(low), int(high) + 1, step):
        grid += f'<path d="M{x(tick)} 18V{y + 8}" stroke="var(--grid)"/>'
        grid += f'<text x="{x(tick)}" y="12" text-anchor="middle" class="tick">{tick}</text>'
    label = "Accuracy in %, before and after Batch Calibration"
    colors = {"as the model answers": gray, "with bc": palette.color("bc")}
    if any(after < before for _, _, before, after in rows):
        colors["loss"] = verdict_color(-1)
    content = (
        f'<svg viewBox="0 0 {width} {y + 12}" role="img" aria-label="{label}">{grid}{marks}</svg>'
    )
    return _picture("dots", "Accuracy in %, matched in the other factors:", colors, content)


def _dot_rows(group: Frame) -> Iterator[tuple[str, str, float, float]]:
    """Yields heading or "", level, and mean accuracy in % before and after bc, factor by factor."""
    for name in group.varying:
        part = group.board if name == "task" else group.matched(name).frame
        pairs = []
        for (level,), of_level in part.by(name).items():
            if of_level.has_references:
                before, after = (100 * of_level.average(method) for method in REFERENCES)
                pairs.append((frame.level_title(name, level), before, after))
        kept = sorted(pairs, key=lambda pair: -abs(pair[2] - pair[1]))[:MAX_DOTS]
        heading = factor_name(name)
        if len(pairs) > MAX_DOTS:
            heading += f": {MAX_DOTS} of {len(pairs)} with the largest changes"
        for pair in filter(kept.__contains__, pairs):
            yield heading, *pair
            heading = ""


def _section(section: Section, name: str) -> str:
    """Formats the folded details of a study; tables and single contexts in it are folded, too."""
    lines = list[str]()
    for i, table in enumerate(section.tables):
        heading = f"<h4>{escape(table.title)}</h4>"
        lines.append(_fold(f'id="{name}-t{i}"{" open" * (not i)}', heading, table_html(table)))
    for i, figure in enumerate(section.figures):
        lines.append(f'<div id="{name}-f{i}">{figure}</div>')
    if 0 < len(section.contexts) <= MAX_CONTEXTS:
        count, contexts = len(section.contexts), []
        for i, context in enumerate(section.contexts):
            contexts.append(context_html(context, f"{name}-c{i}", count))
        heading = f"<h4>Each context in words ({count:,})</h4>"
        lines.append(_fold(f'id="{name}-contexts"', heading, "\n".join([*contexts, ""])))
    heading = f"<h3>{escape(section.heading)}</h3>"
    return _fold(f'class="section" id="{name}"', heading, "\n".join([*lines, ""]))


def figure_html(slug: str, drawn: "Drawn") -> str:
    """Formats a figure with its heading, note, and a link to its numbers."""
    from batch_calibration.reporting.figures.style import page_svg

    name = file_name(slug)
    lines = [
        f'<figure id="figure-{name}"><figcaption>{escape(drawn.heading)}</figcaption>',
        f'<div class="drawn" tabindex="0">{page_svg(drawn, slug)}</div>',
    ]
    if drawn.note:
        lines.append(f'<p class="note">{escape(drawn.note)}</p>')
    encoded = base64.b64encode(csv_text(drawn.cells).encode()).decode()
    lines.append(
        f'<p><a class="csv" download="{name}.csv" '
        f'href="data:text/csv;charset=utf-8;base64,{encoded}">{name}.csv</a></p>'
    )
    return "\n".join([*lines, "</figure>"])


def table_html(table: Table) -> str:
    """Formats rows that can be sorted, filtered and saved as CSV, with sums and a note below."""
    header, *rows = table.cells
    split = sum(not isinstance(row, cells.Sums) for row in rows)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    lines = list(map(_row, rows))
    body, foot = ("\n".join(part) for part in (lines[:split], lines[split:]))
    footer = f"\n<tfoot>{foot}</tfoot>" if foot else ""
    note = f"<p>{escape(table.note)}</p>\n" if table.note else ""
    return (
        f'<div class="table" role="region" tabindex="0" aria-label="{escape(table.title)}" '
        f'data-file="{file_name(table.slug)}"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody>{footer}</table></div>\n{note}"
    )


def _row(row: Sequence[str]) -> str:
    html = f'<th scope="row">{_shown(row[0])}</th>'
    return f"<tr>{html}{''.join(f'<td>{_shown(cell)}</td>' for cell in row[1:])}</tr>"


def _shown(cell: str) -> str:
    """Formats a cell; the best is bold, and an interval has an element of its own."""
    number, interval, mark = map(escape, getattr(cell, "parts", ()) or (cell, "", ""))
    bold = f"<b>{number}</b>" if isinstance(cell, cells.Best) else number
    return f"{bold}<span> {interval}</span>{mark}" if interval else bold


def runs_html(runs: Sequence[Run]) -> str:
    """Formats a line for each run; runs that differ in times and progress only are one."""
    groups = frame.group_by(runs, lambda run: repr(replace(run, began="", rows=None, seconds=None)))
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
    """Makes tables of a context: labels, right answers, probabilities, and grades."""
    name, rows = verdict.name, cells.label_cells(verdict.diagnosis)
    both = [Table("", "labels", f"{name}: labels", rows, unit="shares in %")]
    if verdict.diagnosis.before:  # it needs right labels
        rows = cells.right_cells(verdict.diagnosis)
        both.append(Table("", "right", f"{name}: right answers", rows, unit="in %"))
        if len(rows := cells.reliability_cells(verdict.diagnosis)) > 1:
            both.append(
                Table("", "probabilities", f"{name}: probabilities", rows, unit="by softmax")
            )
    if rows := cells.grade_cells(verdict.diagnosis):
        both.append(Table("", "grades", f"{name}: grades", rows, unit="absolute errors, kappa"))
    return both


def context_html(context: Verdict, name: str, count: int) -> str:
    """Formats a context's sentences; of `count` contexts, not too many have reasons and a table."""
    sentences, table = context.diagnosis.sentences(), ""
    if count <= MAX_CONTEXTS_FULL:
        sentences += context.advice.reason
    if MAX_IN_TABLES < count <= MAX_CONTEXTS_FULL:
        labels, *_ = context_tables(context)
        table = table_html(labels._replace(slug=f"{name}-labels"))
    content = f"<p>{escape(' '.join(sentences))}</p>\n{table}"
    return _fold(f'id="{name}" class="context"', escape(context.name), content)

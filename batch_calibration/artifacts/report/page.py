"""The page as text: its style, its program and plotly.js are in it, nothing is fetched."""

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.catalogue import Table
from batch_calibration.artifacts.cells import Best
from batch_calibration.artifacts.figures import preferences
from batch_calibration.artifacts.grouping import CORRECTED, task_title
from batch_calibration.artifacts.report import plots
from batch_calibration.diagnosis import Diagnosis, diagnose
from batch_calibration.scores import ScoreTable
from batch_calibration.store import Record, Run

TITLE = "Label-bias correction"
MAX_TABLES_OPEN = 4  # of more tables in a section the first alone stands open
FOLDER = Path(__file__).parent
NUMBER = r"[+-]?[\d.,]+"
# A number, its interval, and the mark of what exceeds noise.
INTERVAL = re.compile(rf"({NUMBER}) (\[{NUMBER}, {NUMBER}\])(\*?)")
NO_RUNS = (
    "This workdir keeps no facts about scoring runs: its scores came from elsewhere, or from a "
    "version that kept none."
)


class Context(NamedTuple):
    """One context: what it is called, and its diagnosis."""

    name: str
    diagnosis: Diagnosis


class Section(NamedTuple):
    """A heading, a paragraph or several (lines), tables, figures, and single contexts."""

    heading: str
    paragraph: str
    tables: Sequence[Table] = ()
    figures: Sequence[plots.Figure] = ()
    contexts: Sequence[Context] = ()


def page(sections: Sequence[Section], runs: Sequence[Run] | None = None) -> str:
    """The page.

    Args:
        sections: what it shows, in order.
        runs: what was run; None leaves that out.
    """
    lines = [f"<h1>{TITLE}</h1>"]
    if runs is not None:
        lines.append(f'<section id="run"><h2>What was run</h2>{runs_html(runs)}</section>')
    lines.append(_contents(sections))
    for number, section in enumerate(sections):
        lines.append(_section(section, f"s{number}"))
    body = "\n".join(lines)
    # Without a figure to draw, its library of some megabytes stays out.
    library = ""
    if 'class="plot"' in body:
        library = f'<script id="library" type="text/plain">{plots.library()}</script>\n'
    style, program = ((FOLDER / name).read_text("utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{TITLE}</title>\n<style>{style}</style></head>\n"
        f"<body><main>\n{body}\n</main>\n{library}<script>{program}</script></body></html>\n"
    )


def _contents(sections: Sequence[Section]) -> str:
    lines = []
    for number, section in enumerate(sections):
        links = []
        headings = {f"t{i}": table.heading for i, table in enumerate(section.tables)}
        headings |= {f"f{i}": figure.chart.heading for i, figure in enumerate(section.figures)}
        for anchor, heading in headings.items():
            # What the section's heading says need not be said again.
            title = heading.removesuffix(f": {section.heading}")
            if title == heading:
                title = title.removesuffix(f" on {section.heading}")
            links.append(f'<a href="#s{number}-{anchor}">{escape(title)}</a>')
        if section.contexts:
            links.append(f'<a href="#s{number}-contexts">Each context in words</a>')
        listed = f"<p>{' · '.join(links)}</p>" if links else ""
        lines.append(f'<li><a href="#s{number}">{escape(section.heading)}</a>{listed}</li>')
    return f'<nav aria-label="Contents"><h2>Contents</h2><ol>{"".join(lines)}</ol></nav>'


def _section(section: Section, name: str) -> str:
    lines = [f'<section id="{name}"><h2>{escape(section.heading)}</h2>']
    lines += map("<p>{}</p>".format, escape(section.paragraph).splitlines())
    for i, table in enumerate(section.tables):
        state = " open" if not i or len(section.tables) <= MAX_TABLES_OPEN else ""
        lines.append(
            f'<details id="{name}-t{i}"{state}><summary><h3>{escape(table.title)}</h3></summary>\n'
            f"{table_html(table)}</details>"
        )
    for i, figure in enumerate(section.figures):
        lines.append(f'<div id="{name}-f{i}">{plots.html(figure)}</div>')
    if section.contexts:
        count = len(section.contexts)
        contexts = map(context_html, section.contexts, map(f"{name}-c{{}}".format, range(count)))
        lines.append(
            f'<details id="{name}-contexts"><summary><h3>Each context in words ({count})</h3>'
            "</summary>\n" + "\n".join(contexts) + "</details>"
        )
    return "\n".join([*lines, "</section>"])


def table_html(table: Table) -> str:
    """Rows that can be sorted and filtered, sums and a note below, and a link to them as CSV."""
    header, *rows = table.cells
    split = len(rows) - table.summary_rows
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body, foot = ("\n".join(map(_row, part)) for part in (rows[:split], rows[split:]))
    note = f"<p>{escape(table.note)}</p>\n" if table.note else ""
    return (
        f'<div class="table" role="region" tabindex="0" aria-label="{escape(table.title)}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
        + (f"\n<tfoot>{foot}</tfoot>" if foot else "")
        + f"</table></div>\n{note}<p>{plots.download(table.slug, table.cells)}</p>"
    )


def _row(row: Sequence[str]) -> str:
    name = _marked(row[0], escape(row[0]))
    return f'<tr><th scope="row">{name}</th>{"".join(map(_cell, row[1:]))}</tr>'


def _cell(cell: str) -> str:
    match = INTERVAL.fullmatch(cell)
    if not match:
        return f"<td>{_marked(cell, escape(cell))}</td>"
    number, interval, mark = match.groups()
    shown = f'{_marked(cell, number)}<span class="interval"> {interval}</span>{mark}'
    return f'<td data-whole="{cell}">{shown}</td>'


def _marked(cell: str, shown: str) -> str:
    return f"<b>{shown}</b>" if isinstance(cell, Best) else shown


def runs_html(runs: Sequence[Run]) -> str:
    """A line a run; runs that differ only in when they were and what they did, are one."""
    alike: dict[str, list[Run]] = {}
    for run in runs:
        key = repr(replace(run, began="", rows=None, seconds=None))
        alike.setdefault(key, []).append(run)
    lines = "\n".join(f"<li>{_run(group)}</li>" for group in alike.values())
    return f'<ol class="runs">{lines}</ol>' if runs else f"<p>{NO_RUNS}</p>"


def _run(runs: Sequence[Run]) -> str:
    first = runs[0]
    lines = [f"<code>{escape(first.command)}</code>"]
    lines.append(f"<p>{escape('; '.join(map(_progress, runs)))}.</p>")
    versions = ", ".join(map(" ".join, first.versions.items()))
    code = f"Commit {first.commit}. {versions}." if first.commit else f"{versions}."
    lines.append(f"<p>{first.contexts:,} contexts on {escape(first.device)}. {escape(code)}</p>")
    settings = []
    for name, setting in first.config.items():
        several = isinstance(setting, list | tuple)
        shown = ", ".join(map(str, setting)) if several else str(setting)  # type: ignore[call-overload]
        settings.append(f"<dt>{escape(name)}</dt><dd>{escape(shown)}</dd>")
    if settings:
        listed = "\n".join(settings)
        lines.append(f"<details><summary>Settings</summary><dl>{listed}</dl></details>")
    return "\n".join(lines)


def _progress(run: Run) -> str:
    if run.rows is None or run.seconds is None:
        return f"{run.began} UTC: did not come to its end"
    return f"{run.began} UTC: {run.rows:,} rows in {run.seconds:,.1f} s"


def diagnose_record(record: Record, table: ScoreTable) -> Context:
    """The diagnosis of a record's scores, corrected by the bias that BC found in them."""
    test, context = table.blocks["test"], record.context
    scores = test.log_probs if record.floor is None else np.maximum(test.log_probs, record.floor)
    bias = record.bias.get(CORRECTED)
    corrected = None if bias is None else scores - np.asarray(bias)
    name = task_title(context.task)
    if context.seed is not None:
        name = ", ".join(filter(None, (name, f"seed {context.seed}")))
    diagnosis = diagnose(
        scores, test.labels, corrected=corrected, label_names=table.label_names, from_probs=False
    )
    # A study's scores are no losses; answers turn round where demonstrations have flipped labels.
    return Context(name, diagnosis._replace(doubt=""))


def context_html(context: Context, name: str) -> str:
    """The context's line, and behind it its sentences and the shares of its labels."""
    sentences = " ".join(context.diagnosis.sentences())
    figure = plots.Figure(name, preferences.chart([context.diagnosis], [context.name]))
    return (
        f'<details id="{name}" class="context"><summary>{escape(headline(context))}</summary>\n'
        f"<p>{escape(sentences)}</p>\n{plots.html(figure)}</details>"
    )


def headline(context: Context) -> str:
    """A context in a line: which label it favors, by how much, and what accuracy does."""
    diagnosis, names = context.diagnosis, context.diagnosis.label_names
    high, low = int(diagnosis.preference.argmax()), int(diagnosis.preference.argmin())
    nats = float(diagnosis.preference[high] - diagnosis.preference[low])
    line = f"{context.name}: favors {names[high]!r} over {names[low]!r} by {nats:.2f} nats"
    if diagnosis.before and diagnosis.after:
        before, after = diagnosis.before.accuracy.value, diagnosis.after.accuracy.value
        line += f"; accuracy {100 * before:.1f} → {100 * after:.1f} %"
    return line

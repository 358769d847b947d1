"""The page as text: its style, its program and plotly.js are in it, nothing is fetched."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from batch_calibration.artifacts.catalogue import Table
from batch_calibration.artifacts.report import facts, plots, tables
from batch_calibration.artifacts.report.contexts import Context
from batch_calibration.artifacts.report.contexts import html as context_html
from batch_calibration.store import Run

TITLE = "Label-bias correction"
FEW = 4
"""Tables that stand open in a section; of more the first alone does."""
HERE = Path(__file__).parent


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
    parts = [f"<h1>{TITLE}</h1>"]
    if runs is not None:
        parts.append(f'<section id="run"><h2>What was run</h2>{facts.html(runs)}</section>')
    parts.append(_contents(sections))
    parts += [_section(section, f"s{number}") for number, section in enumerate(sections)]
    body = "\n".join(parts)
    # Without a figure to draw, its library of some megabytes stays out.
    library = ""
    if 'class="plot"' in body:
        library = f'<script id="library" type="text/plain">{plots.library()}</script>\n'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{TITLE}</title>\n<style>{_file('page.css')}</style></head>\n"
        f"<body><main>\n{body}\n</main>\n{library}<script>{_file('page.js')}</script></body></html>\n"
    )


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _contents(sections: Sequence[Section]) -> str:
    lines = []
    for number, section in enumerate(sections):
        # What the section's heading says need not be said again.
        ends = (f": {section.heading}", f" on {section.heading}")
        named = [(f"t{i}", table.heading) for i, table in enumerate(section.tables)]
        named += [(f"f{i}", figure.heading) for i, figure in enumerate(section.figures)]
        links = [
            f'<a href="#s{number}-{place}">{escape(_without(heading, ends))}</a>'
            for place, heading in named
        ]
        links += [f'<a href="#s{number}-contexts">Each context in words</a>'] * bool(
            section.contexts
        )
        inner = f"<p>{' · '.join(links)}</p>" if links else ""
        lines.append(f'<li><a href="#s{number}">{escape(section.heading)}</a>{inner}</li>')
    return f'<nav aria-label="Contents"><h2>Contents</h2><ol>{"".join(lines)}</ol></nav>'


def _without(heading: str, ends: Sequence[str]) -> str:
    return next((heading.removesuffix(end) for end in ends if heading.endswith(end)), heading)


def _section(section: Section, name: str) -> str:
    parts = [f'<section id="{name}"><h2>{escape(section.heading)}</h2>']
    parts += [f"<p>{escape(line)}</p>" for line in section.paragraph.splitlines()]
    for i, table in enumerate(section.tables):
        state = " open" if not i or len(section.tables) <= FEW else ""
        parts.append(
            f'<details id="{name}-t{i}"{state}><summary><h3>{escape(table.title)}</h3></summary>\n'
            f"{tables.html(table)}</details>"
        )
    parts += [
        f'<div id="{name}-f{i}">{plots.html(figure)}</div>'
        for i, figure in enumerate(section.figures)
    ]
    if section.contexts:
        parts.append(
            f'<details id="{name}-contexts"><summary><h3>Each context in words '
            f"({len(section.contexts)})</h3></summary>\n"
            + "\n".join(context_html(one, f"{name}-c{i}") for i, one in enumerate(section.contexts))
            + "</details>"
        )
    return "\n".join([*parts, "</section>"])

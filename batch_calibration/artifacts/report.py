"""One self-contained HTML page: the paragraph, the tables, the figures."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from batch_calibration.artifacts.catalogue import Table
from batch_calibration.artifacts.cells import Best, Cells

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0 }
td, th { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left }
td, th { white-space: nowrap }
div { overflow-x: auto }
img { max-width: 100% }
"""


class Section(NamedTuple):
    """A heading, a paragraph, tables, and images (PNG) by what they show."""

    heading: str
    paragraph: str
    tables: Sequence[Table]
    images: Mapping[str, Path]


def page(sections: Sequence[Section]) -> str:
    """The page as text; images are inside it, nothing is fetched from anywhere."""
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Label-bias correction</title><style>{STYLE}</style></head>\n"
        f"<body><h1>Label-bias correction</h1>\n{body}\n</body></html>\n"
    )


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.heading)}</h2>", f"<p>{escape(section.paragraph)}</p>"]
    for table in section.tables:
        parts += [f"<h3>{escape(table.title)}</h3>", _table(table.cells)]
        parts += [f"<p>{escape(table.note)}</p>"] if table.note else []
    for heading, image in section.images.items():
        data = base64.b64encode(image.read_bytes()).decode()
        parts.append(f'<p><img alt="{escape(heading)}" src="data:image/png;base64,{data}"></p>')
    return "\n".join(parts)


def _table(cells: Cells) -> str:
    def row(values: Sequence[str], tag: str) -> str:
        # An interval stands below its number: eight methods fit side by side.
        lines = (escape(value).replace(" [", "<br>[") for value in values)
        marked = (
            f"<b>{line}</b>" if isinstance(value, Best) else line
            for line, value in zip(lines, values, strict=True)
        )
        return "<tr>" + "".join(f"<{tag}>{value}</{tag}>" for value in marked) + "</tr>"

    rows = row(cells[0], "th") + "".join(row(r, "td") for r in cells[1:])
    return f"<div><table>{rows}</table></div>"

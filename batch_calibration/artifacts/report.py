"""One self-contained HTML page: the paragraph, the tables, the figures."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from batch_calibration.artifacts.tables import Cells

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0 }
td, th { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left }
img { max-width: 100% }
"""


class Section(NamedTuple):
    """One setting: its heading, what was learned, its tables by caption, its pictures (PNG).

    `note` stands below each table.
    """

    heading: str
    paragraph: str
    tables: dict[str, Cells]
    pictures: Sequence[Path]
    note: str = ""


def page(sections: Sequence[Section]) -> str:
    """The page as text; pictures are inside it, nothing is fetched from anywhere."""
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Label-bias correction</title><style>{STYLE}</style></head>\n"
        f"<body><h1>Label-bias correction</h1>\n{body}\n</body></html>\n"
    )


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.heading)}</h2>", f"<p>{escape(section.paragraph)}</p>"]
    for caption, cells in section.tables.items():
        parts += [f"<h3>{escape(caption)}, accuracy in %</h3>", _table(cells)]
        parts += [f"<p>{escape(section.note)}</p>"] if section.note else []
    for picture in section.pictures:
        data = base64.b64encode(picture.read_bytes()).decode()
        name = escape(picture.stem)
        parts.append(f'<p><img alt="{name}" src="data:image/png;base64,{data}"></p>')
    return "\n".join(parts)


def _table(cells: Cells) -> str:
    def row(values: Sequence[str], tag: str) -> str:
        marked = (
            f"<b>{escape(v.strip('*'))}</b>" if v.startswith("**") else escape(v) for v in values
        )
        return "<tr>" + "".join(f"<{tag}>{v}</{tag}>" for v in marked) + "</tr>"

    return "<table>" + row(cells[0], "th") + "".join(row(r, "td") for r in cells[1:]) + "</table>"

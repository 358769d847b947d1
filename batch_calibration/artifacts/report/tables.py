"""Tables of the page: rows that can be sorted and filtered, sums below them, intervals on hover."""

import re
from collections.abc import Sequence
from html import escape

from batch_calibration.artifacts.catalogue import Table
from batch_calibration.artifacts.cells import Best
from batch_calibration.artifacts.report.plots import download

NUMBER = r"[+-]?[\d.,]+"
INTERVAL = re.compile(rf"({NUMBER}) (\[{NUMBER}, {NUMBER}\])(\*?)")
"""A value, its interval, and the mark of what exceeds noise."""


def html(table: Table) -> str:
    """The table, what stands below it, and a link to its cells as CSV."""
    count = min(table.last, len(table.cells) - 2)
    split = len(table.cells) - max(count, 0)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.cells[0])
    body, foot = (_rows(rows) for rows in (table.cells[1:split], table.cells[split:]))
    note = f"<p>{escape(table.note)}</p>\n" if table.note else ""
    return (
        f'<div class="table" role="region" tabindex="0" aria-label="{escape(table.title)}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
        + (f"\n<tfoot>{foot}</tfoot>" if foot else "")
        + f"</table></div>\n{note}<p>{download(table.slug, table.cells)}</p>"
    )


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        f'<tr><th scope="row">{_marked(row[0], escape(row[0]))}</th>'
        + "".join(map(_cell, row[1:]))
        + "</tr>"
        for row in rows
    )


def _cell(value: str) -> str:
    found = INTERVAL.fullmatch(value)
    if not found:
        return f"<td>{_marked(value, escape(value))}</td>"
    number, interval, mark = found.groups()
    shown = f'{_marked(value, number)}<span class="interval"> {interval}</span>{mark}'
    return f'<td data-whole="{value}">{shown}</td>'


def _marked(value: str, shown: str) -> str:
    return f"<b>{shown}</b>" if isinstance(value, Best) else shown

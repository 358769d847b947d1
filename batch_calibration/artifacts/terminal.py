"""Prints a table in the terminal."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from textwrap import fill
from unicodedata import category, east_asian_width

from batch_calibration.artifacts.catalogue import ACROSS, Table
from batch_calibration.artifacts.cells import Best, Cells

WIDTH = 100
"""Letters a line of words has, at most."""


def show(table: Table) -> None:
    """Print one table, and below it its note."""
    where = "" if table.section == ACROSS else f": {table.section}"
    show_cells(f"{table.title}{where}", table.cells, table.note)


def show_cells(heading: str, cells: Cells, note: str = "") -> None:
    """Print a heading, aligned columns, and a note.

    A terminal too narrow for all columns gets them in parts, each with the first column.
    """
    rows = [[_plain(cell) for cell in row] for row in cells]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    print(f"\n{_plain(heading)}")
    for part in _parts(widths):
        print()
        for number, (row, marked) in enumerate(zip(rows, cells, strict=True)):
            print("  ".join(_cell(row[i], widths[i], i, marked) for i in part))
            if not number:
                print("  ".join("─" * widths[i] for i in part))
    if note:
        print(f"\n{fill(_plain(note), WIDTH)}")


def _parts(widths: Sequence[int]) -> Iterator[list[int]]:
    """The columns that fit into the terminal together; all of them in a file or a pipe."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sum(widths) * 3
    part = [0]
    for i in range(1, len(widths)):
        if len(part) > 1 and sum(widths[j] + 2 for j in part) + widths[i] > room:
            yield part
            part = [0]
        part.append(i)
    yield part


def _cell(text: str, width: int, place: int, marked: Sequence[str]) -> str:
    """The first column to the left, the others to the right; the best of a row bold."""
    space = " " * (width - _width(text))
    if isinstance(marked[place], Best) and sys.stdout.isatty():
        text = f"\033[1m{text}\033[0m"
    return f"{text}{space}" if not place else f"{space}{text}"


def _plain(text: str) -> str:
    """One line without signs that steer a terminal."""
    return "".join(sign if category(sign)[0] != "C" else " " for sign in " ".join(text.split()))


def _width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    return sum(
        0 if category(sign) in ("Mn", "Me") else 2 if east_asian_width(sign) in "WF" else 1
        for sign in text
    )

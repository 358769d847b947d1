"""A table as aligned text, and in the terminal."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from textwrap import fill
from unicodedata import category, east_asian_width

from batch_calibration.reporting.cells import Best, Cells
from batch_calibration.reporting.items import ACROSS, Table

FILE_WIDTH = 100  # letters that a line of prose has in a file or a pipe


def show_table(table: Table) -> None:
    """Print one table, and below it its note."""
    setting = "" if table.section == ACROSS else f": {table.section}"
    show_cells(f"{table.title}{setting}", table.cells, table.note)


def show_cells(heading: str, cells: Cells, note: str = "") -> None:
    """Print a heading, aligned columns, and a note.

    A terminal too narrow for all columns gets them in parts, each with the first column.
    """
    print(f"\n{_plain(heading)}")
    for columns in _split_columns(_widths(cells)):
        part = [list(map(row.__getitem__, columns)) for row in cells]
        print("", *aligned(part, is_bold=sys.stdout.isatty()), sep="\n")
    if note:
        print(f"\n{fill(_plain(note), prose_width())}")


def aligned(cells: Cells, *, is_bold: bool = False) -> list[str]:
    """The lines of a table, a rule below its header: names to the left, numbers to the right.

    Args:
        cells: header and rows.
        is_bold: whether the best of each row is bold, as terminals show it.
    """
    widths, lines = _widths(cells), []
    for row in cells:
        line = ""
        for i, cell in enumerate(row):
            space, text = " " * (widths[i] - _width(_plain(cell))), _plain(cell)
            if is_bold and isinstance(cell, Best):
                text = f"\033[1m{text}\033[0m"
            line += f"  {space}{text}" if i else f"{text}{space}"
        lines.append(line.rstrip())
    lines.insert(1, "  ".join("─" * width for width in widths))
    return lines


def _widths(cells: Cells) -> list[int]:
    """Columns of a terminal that each column of the table takes."""
    plain = [map(_plain, column) for column in zip(*cells, strict=True)]
    return [max(map(_width, column)) for column in plain]


def prose_width() -> int:
    """Letters that a line of prose has at most: the terminal's columns."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else FILE_WIDTH


def _split_columns(widths: Sequence[int]) -> Iterator[list[int]]:
    """The columns that fit into the terminal together; all of them in a file or a pipe."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sum(widths) * 3
    columns, used = [0], widths[0] + 2
    for i in range(1, len(widths)):
        if len(columns) > 1 and used + widths[i] > room:
            yield columns
            columns, used = [0], widths[0] + 2
        columns.append(i)
        used += widths[i] + 2  # two spaces between columns
    yield columns


def _plain(text: str) -> str:
    """One line without signs that steer a terminal."""
    return "".join(sign if category(sign)[0] != "C" else " " for sign in " ".join(text.split()))


def _width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    width = 0
    for sign in text:
        # Accents stand on the letter before them; signs of East Asia are two columns wide.
        if category(sign) not in ("Mn", "Me"):
            width += 2 if east_asian_width(sign) in "WF" else 1
    return width

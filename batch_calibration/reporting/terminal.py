"""A table as aligned text, and in the terminal."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill
from unicodedata import category, east_asian_width

from batch_calibration.reporting.cells import Best, Cells
from batch_calibration.reporting.items import ACROSS, Table

FILE_WIDTH = 100  # letters that a line has in a file or a pipe


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables, below each the sentences of its note that no table before it had."""
    said = dict[str, None]()
    for table in tables:
        setting = "" if table.section == ACROSS else f": {table.section}"
        sentences = dict.fromkeys(re.split(r"(?<=[.]) (?=\S)", table.note))
        note = " ".join(sentence for sentence in sentences if sentence not in said)
        said |= sentences
        show_cells(f"{table.title}{setting}", table.cells, note)


def show_cells(heading: str, cells: Cells, note: str = "") -> None:
    """Print a heading, aligned columns, and a note.

    Where the lines are too narrow for all columns, they come in parts, each with the first column.
    """
    print(f"\n{_plain(heading)}")
    for columns in _split_columns(_widths(cells)):
        part = [list(map(row.__getitem__, columns)) for row in cells]
        print("", *aligned(part, is_bold=sys.stdout.isatty()), sep="\n")
    if note:
        print(f"\n{filled(_plain(note))}")


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


def line_width() -> int:
    """Letters that a line has at most: COLUMNS, the terminal's columns, or those of a file."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return FILE_WIDTH


def filled(sentence: str) -> str:
    """A sentence in lines of that width; a path or a name stays whole."""
    return fill(sentence, line_width(), break_long_words=False, break_on_hyphens=False)


def _split_columns(widths: Sequence[int]) -> Iterator[list[int]]:
    """The columns that fit into a line together."""
    room = line_width()
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

"""Prints a table in the terminal."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from batch_calibration.artifacts.catalogue import ACROSS, Table
from batch_calibration.artifacts.cells import Best

# Eight columns of "mean ± sd" do not fit in 80.
WIDTH = 118


def show(table: Table) -> None:
    """Print one table, and below it its note."""
    where = "" if table.section == ACROSS else f": {table.section}"
    shown = RichTable(
        title=Text(f"{table.heading}, accuracy in %{where}", style="italic"),
        title_justify="left", box=SIMPLE_HEAD, padding=(0, 1),
        caption=Text(table.note, style="dim italic") if table.note else None,
        caption_justify="left",
    )  # fmt: skip
    for i, name in enumerate(table.cells[0]):
        shown.add_column(Text(name), justify="right" if i else "left", no_wrap=True)
    for row in table.cells[1:]:
        shown.add_row(*(Text(c, style="bold" if isinstance(c, Best) else "") for c in row))
    Console(width=max(WIDTH, Console().width)).print(shown)

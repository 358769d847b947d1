"""Tables of a study: in the terminal, as Markdown, LaTeX and CSV.

python -m experiments.tables --workdir=W
"""

from pathlib import Path

from absl import flags
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from batch_calibration.artifacts import tables
from batch_calibration.artifacts.study import PANELS, Study, studies
from batch_calibration.store import Store
from experiments.door import enter

# Eight columns of "mean ± sd" do not fit in 80.
WIDTH = 118
WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)


def show(study: Study, cells: tables.Cells, what: str) -> None:
    """Print one table."""
    table = Table(
        title=f"{what}, accuracy in %: {study.setting}",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1),
    )
    for i, name in enumerate(cells[0]):
        table.add_column(name, justify="right" if i else "left", no_wrap=True)
    for row in cells[1:]:
        table.add_row(*(f"[bold]{c.strip('*')}[/bold]" if c.startswith("**") else c for c in row))
    Console(width=max(WIDTH, Console().width)).print(table)


def main() -> None:
    """Write and print the table of every setting in the workdir."""
    out = Path(WORKDIR.value) / "tables"
    for study in studies(Store(WORKDIR.value).records()):
        out.mkdir(exist_ok=True)
        for what, methods in PANELS.items():
            cells = tables.accuracy_cells(study, study.among(methods))
            show(study, cells, what)
            name = f"{study.setting.slug}-{what.split()[-1].lower()}"
            (out / f"{name}.md").write_text(tables.markdown(cells), encoding="utf-8")
            (out / f"{name}.tex").write_text(tables.latex(cells), encoding="utf-8")
        (out / f"{study.setting.slug}.csv").write_text(tables.long_csv(study), encoding="utf-8")
    print(f"tables are in {out}")


if __name__ == "__main__":
    enter(main)

"""Tables of a study: in the terminal, as Markdown, LaTeX and CSV.

python -m experiments.tables --workdir=W
"""

from pathlib import Path

from absl import flags
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from batch_calibration.artifacts import curves, learned, paper, robustness, tables
from batch_calibration.artifacts.study import studies, title
from batch_calibration.store import Store
from experiments.cli import enter

# Eight columns of "mean ± sd" do not fit in 80.
WIDTH = 118
WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)


def show(heading: str, cells: tables.Cells, note: str = "") -> None:
    """Print one table, and below it a note."""
    table = Table(
        title=heading, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1),
        caption=note or None, caption_justify="left",
    )  # fmt: skip
    for i, name in enumerate(cells[0]):
        table.add_column(name, justify="right" if i else "left", no_wrap=True)
    for row in cells[1:]:
        table.add_row(*(f"[bold]{c.strip('*')}[/bold]" if c.startswith("**") else c for c in row))
    Console(width=max(WIDTH, Console().width)).print(table)


def write(
    out: Path,
    name: str,
    cells: tables.Cells,
    csv: str | None = None,
    *,
    note: str = "",
    last: int = 1,
) -> None:
    """Keep one table as Markdown and LaTeX, and as CSV where it is given."""
    out.mkdir(exist_ok=True)
    (out / f"{name}.md").write_text(tables.markdown(cells, note), encoding="utf-8")
    (out / f"{name}.tex").write_text(tables.latex(cells, note, last), encoding="utf-8")
    if csv is not None:
        (out / f"{name}.csv").write_text(csv, encoding="utf-8")


def main() -> None:
    """Write the table of every setting, axis of robustness, and curve in the workdir; print it.

    A setting that is no more than a point of a curve is written alone.
    """
    out = Path(WORKDIR.value) / "tables"
    records = Store(WORKDIR.value).records()
    every = studies(records)
    shown = curves.apart(every)
    for study in every:
        note = learned.note(study)
        for what, methods in study.panels().items():
            cells = tables.accuracy_cells(study, methods)
            if study in shown:
                show(f"{what}, accuracy in %: {study.setting}", cells, note)
            write(out, f"{study.setting.slug}-{what.split()[-1].lower()}", cells, note=note)
        if beside := paper.pictures_cells(study):
            show(f"Beside the paper's CLIP ViT-B/16, accuracy in %: {study.setting}", beside)
            write(out, f"{study.setting.slug}-paper", beside)
        (out / f"{study.setting.slug}.csv").write_text(tables.long_csv(study), encoding="utf-8")
    for axis in robustness.axes(records):
        cells = robustness.accuracy_cells(axis)
        show(f"{title(axis.task)}, accuracy in % over {axis.name}: {axis.setting}", cells)
        write(out, axis.slug, cells, tables.plain_csv(cells), last=robustness.SUMMARY)
    for curve in [*curves.by_shots(every), *curves.by_probe_size(every)]:
        cells = curves.accuracy_cells(curve)
        show(f"{curve.heading}, accuracy in %", cells)
        write(out, curve.slug, cells, tables.plain_csv(cells))
    print(f"tables are in {out}")


if __name__ == "__main__":
    enter(main)

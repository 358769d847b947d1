"""Zero-shot images: the paper's Table 6, with its numbers where the setting is the same."""

import re

import numpy as np

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import Cells, named
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords, title
from batch_calibration.metrics import Estimate

IMAGES = {
    "svhn": (18.0, 35.0), "eurosat": (47.8, 54.7), "ucf101": (66.7, 66.0),
    "clevr": (14.7, 29.2), "aircraft": (24.8, 22.3), "dtd": (44.4, 41.7),
}  # fmt: skip
"""Accuracy in % of CLIP ViT-B/16, zero-shot and with BC (Zhou et al. 2024, Table 6)."""
FIGURE = ("svhn", "eurosat", "clevr")
"""The tasks of images in the paper's Fig. 7."""
MODEL = re.compile(r"vit-?b(ase)?-?(patch)?/?16", re.IGNORECASE)
"""Names of its checkpoint."""


DRAWN = (
    "These are drawn images of 48 x 48 pixels, of DTD 12 of its 47 classes, with noise whose size "
    "was chosen with a look at the test images (docs/mini.md): a small CLIP's accuracy on them is "
    "no result on the data sets of these names, and the paper's numbers do not stand beside it."
)
"""The note where the images are the embedded suite's."""
OTHER = (
    "The paper's numbers are of CLIP ViT-B/16 on all test images and classes; this is another "
    "setting, so they do not stand here."
)


def same(group: SettingRecords) -> bool:
    """Whether the setting is the paper's: its checkpoint's name, real images, all of them."""
    of = group.setting
    return of.data != "mini" and not of.limit and not of.options and bool(MODEL.search(of.model))


def note(group: SettingRecords) -> str:
    """Why the paper's numbers do not stand in the table; nothing where they do."""
    if same(group):
        return ""
    return DRAWN if group.setting.data == "mini" else OTHER


def cells(group: SettingRecords) -> Cells | None:
    """Zero-shot and BC, in %, and the paper's where the setting is its; None of other tasks."""
    tasks = [task for task in group.records if task in IMAGES]
    if not tasks or not set(REFERENCES) <= set(group.methods):
        return None
    sides = [("", [[100 * group.values(task, m).mean() for m in REFERENCES] for task in tasks])]
    sides += [("paper ", [list(IMAGES[task]) for task in tasks])] if same(group) else []
    names = [*(named(task, group.records[task]) for task in tasks), "average"]
    rows: Cells = [["task"], *([name] for name in names)]
    for side, numbers in sides:
        rows[0] += [f"{side}ZS", f"{side}ZS+BC", f"{side}gain"]
        averaged = [*numbers, list(np.mean(numbers, axis=0))]
        for row, (before, after) in zip(rows[1:], averaged, strict=True):
            row += [f"{before:.1f}", f"{after:.1f}", f"{after - before:+.1f}"]
    return rows


def estimates(group: SettingRecords) -> dict[str, dict[str, Estimate]]:
    """Task -> zero-shot and BC with their intervals, of the tasks of the paper's figure."""
    methods = group.among(REFERENCES)
    if len(methods) < len(REFERENCES) or not gains.compared(group, REFERENCES):
        return {}
    return {
        title(task): {name: gains.accuracy(group, task, name) for name in methods}
        for task in FIGURE
        if task in group.records
    }

"""The paper's table of images (Table 6), to stand beside ours."""

import numpy as np

from batch_calibration.artifacts.cells import Cells, named
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords

IMAGES = {
    "svhn": (18.0, 35.0), "eurosat": (47.8, 54.7), "ucf101": (66.7, 66.0),
    "clevr": (14.7, 29.2), "aircraft": (24.8, 22.3), "dtd": (44.4, 41.7),
}  # fmt: skip
"""Accuracy in % of CLIP ViT-B/16, zero-shot and with BC (Zhou et al. 2024, Table 6)."""


DRAWN = (
    "Ours are drawn images of 48 x 48 pixels, of DTD 12 of its 47 classes, with noise whose size "
    "was chosen with a look at the test images (docs/mini.md): the two sides are no comparison of "
    "models or of what BC gains."
)
"""The note where the images are the embedded suite's."""


def note(group: SettingRecords) -> str:
    """What the table cannot say; nothing of real images."""
    return DRAWN if group.setting.data == "mini" else ""


def image_cells(group: SettingRecords) -> Cells | None:
    """Zero-shot and BC of ours and of the paper's CLIP ViT-B/16, in %; None of other tasks."""
    tasks = [task for task in group.records if task in IMAGES]
    if not tasks or not set(REFERENCES) <= set(group.methods):
        return None
    ours = [[100 * group.values(task, name).mean() for name in REFERENCES] for task in tasks]
    numbers = np.concatenate([ours, [IMAGES[task] for task in tasks]], axis=1)
    names = [*(named(task, group.records[task]) for task in tasks), "average"]
    header = ["task", "ours ZS", "ours ZS+BC", "gain", "paper ZS", "paper ZS+BC", "gain"]
    return [
        header,
        *(
            [name, f"{a:.1f}", f"{b:.1f}", f"{b - a:+.1f}", f"{c:.1f}", f"{d:.1f}", f"{d - c:+.1f}"]
            for name, (a, b, c, d) in zip(names, [*numbers, numbers.mean(axis=0)], strict=True)
        ),
    ]

"""The paper's table of pictures, to stand beside ours."""

import numpy as np

from batch_calibration.artifacts.study import Study
from batch_calibration.artifacts.tables import Cells, named

PICTURES = {
    "svhn": (18.0, 35.0), "eurosat": (47.8, 54.7), "ucf101": (66.7, 66.0),
    "clevr": (14.7, 29.2), "aircraft": (24.8, 22.3), "dtd": (44.4, 41.7),
}  # fmt: skip
"""Accuracy in % of CLIP ViT-B/16, zero-shot and with BC (Zhou et al. 2024, table of images)."""


def pictures_cells(study: Study) -> Cells | None:
    """Zero-shot and BC of ours and of the paper's CLIP ViT-B/16, in %; None of other tasks."""
    tasks = [task for task in study.records if task in PICTURES]
    if not tasks or not {"icl", "bc"} <= set(study.methods):
        return None
    ours = [[100 * study.values(task, name).mean() for name in ("icl", "bc")] for task in tasks]
    numbers = np.concatenate([ours, [PICTURES[task] for task in tasks]], axis=1)
    names = [named(task, study.records[task]) for task in tasks]
    header = ["task", "ours ZS", "ours ZS+BC", "gain", "paper ZS", "paper ZS+BC", "gain"]
    return [
        header,
        *(
            [name, f"{a:.1f}", f"{b:.1f}", f"{b - a:+.1f}", f"{c:.1f}", f"{d:.1f}", f"{d - c:+.1f}"]
            for name, (a, b, c, d) in zip(
                [*names, "average"], [*numbers, numbers.mean(axis=0)], strict=True
            )
        ),
    ]

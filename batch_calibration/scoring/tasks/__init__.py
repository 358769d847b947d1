"""The tasks, in the order of the paper's tables: of language, three more, of images."""

from batch_calibration.errors import InputError
from batch_calibration.scoring.tasks import images, texts
from batch_calibration.scoring.tasks.base import Row, Rows, Task

IN_ORDER = (
    texts.SST2, texts.MNLI, texts.QNLI, texts.MRPC, texts.QQP, texts.BOOLQ,
    texts.CB, texts.COPA, texts.RTE, texts.WIC, texts.ANLI_R1,
    texts.ANLI_R2, texts.ANLI_R3, texts.MR, texts.AGNEWS, texts.TREC, images.SVHN,
    images.EUROSAT, images.UCF101, images.CLEVR, images.AIRCRAFT, images.DTD,
)  # fmt: skip
TASKS = {task.name: task for task in IN_ORDER}
PAPER_LANGUAGE = tuple(name for name, task in TASKS.items() if task.objective)
"""The paper's 13 tasks of text (Zhou et al. 2024, Table 4, which counts their rows)."""


def get_task(name: str) -> Task:
    """The task of that name; an unknown name is answered with the nearest right one."""
    if name not in TASKS:
        raise InputError.unknown("task", name, TASKS)
    return TASKS[name]


__all__ = ["PAPER_LANGUAGE", "TASKS", "Row", "Rows", "Task", "get_task"]

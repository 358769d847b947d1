"""The tasks, in the order of the paper's tables: of language, three more, of images."""

from batch_calibration.errors import InputError
from batch_calibration.tasks.base import Row, Rows, Task
from batch_calibration.tasks.images import AIRCRAFT, CLEVR, DTD, EUROSAT, SVHN, UCF101
from batch_calibration.tasks.text_pairs import (
    ANLI_R1,
    ANLI_R2,
    ANLI_R3,
    CB,
    MNLI,
    MRPC,
    QQP,
    RTE,
    WIC,
)  # fmt: skip
from batch_calibration.tasks.texts import AGNEWS, BOOLQ, COPA, MR, QNLI, SST2, TREC

TASKS = {
    task.name: task
    for task in (
        SST2, MNLI, QNLI, MRPC, QQP, BOOLQ, CB, COPA, RTE, WIC, ANLI_R1, ANLI_R2, ANLI_R3,
        MR, AGNEWS, TREC, SVHN, EUROSAT, UCF101, CLEVR, AIRCRAFT, DTD,
    )
}  # fmt: skip
PAPER_LANGUAGE = tuple(name for name, task in TASKS.items() if task.objective)
"""The paper's 13 tasks of text (Zhou et al. 2024, Table 4, which counts their rows)."""


def get_task(name: str) -> Task:
    """The task of that name; an unknown name is answered with the nearest right one."""
    if name not in TASKS:
        raise InputError.unknown("task", name, TASKS)
    return TASKS[name]


__all__ = ["PAPER_LANGUAGE", "TASKS", "Row", "Rows", "Task", "get_task"]

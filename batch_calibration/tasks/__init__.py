"""The tasks, in the order of the paper's tables: of language, three more, of images."""

from batch_calibration.errors import InputError
from batch_calibration.tasks.agnews import AGNEWS
from batch_calibration.tasks.aircraft import AIRCRAFT
from batch_calibration.tasks.anli import ANLI_R1, ANLI_R2, ANLI_R3
from batch_calibration.tasks.base import Row, Rows, Task
from batch_calibration.tasks.boolq import BOOLQ
from batch_calibration.tasks.cb import CB
from batch_calibration.tasks.clevr import CLEVR
from batch_calibration.tasks.copa import COPA
from batch_calibration.tasks.dtd import DTD
from batch_calibration.tasks.eurosat import EUROSAT
from batch_calibration.tasks.mnli import MNLI
from batch_calibration.tasks.mr import MR
from batch_calibration.tasks.mrpc import MRPC
from batch_calibration.tasks.qnli import QNLI
from batch_calibration.tasks.qqp import QQP
from batch_calibration.tasks.rte import RTE
from batch_calibration.tasks.sst2 import SST2
from batch_calibration.tasks.svhn import SVHN
from batch_calibration.tasks.trec import TREC
from batch_calibration.tasks.ucf101 import UCF101
from batch_calibration.tasks.wic import WIC

TASKS = {
    task.name: task
    for task in (
        SST2, MNLI, QNLI, MRPC, QQP, BOOLQ, CB, COPA, RTE, WIC, ANLI_R1, ANLI_R2, ANLI_R3,
        MR, AGNEWS, TREC, SVHN, EUROSAT, UCF101, CLEVR, AIRCRAFT, DTD,
    )
}  # fmt: skip
PAPER_LANGUAGE = tuple(name for name, task in TASKS.items() if task.objective)
"""The paper's 13 tasks of text (Zhou et al. 2024, Table 4)."""


def get_task(name: str) -> Task:
    """The task of that name; an unknown name is answered with the nearest right one."""
    if name not in TASKS:
        raise InputError.unknown("task", name, TASKS)
    return TASKS[name]


__all__ = ["PAPER_LANGUAGE", "TASKS", "Row", "Rows", "Task", "get_task"]

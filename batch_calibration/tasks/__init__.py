"""The shelf of tasks."""

from batch_calibration.tasks.agnews import AGNEWS
from batch_calibration.tasks.base import Row, Rows, Task
from batch_calibration.tasks.mnli import MNLI
from batch_calibration.tasks.mr import MR
from batch_calibration.tasks.sst2 import SST2
from batch_calibration.tasks.trec import TREC
from batch_calibration.typing import InputError

TASKS = {task.name: task for task in (SST2, MNLI, MR, AGNEWS, TREC)}


def get_task(name: str) -> Task:
    """The task called `name`; an unknown name is answered with the nearest right one."""
    if name not in TASKS:
        raise InputError.unknown("task", name, TASKS)
    return TASKS[name]


__all__ = ["TASKS", "Row", "Rows", "Task", "get_task"]

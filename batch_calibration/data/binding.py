"""From a record as its source holds it to a task's row and integer label."""

from collections.abc import Mapping

from batch_calibration.data.label_names import label_of
from batch_calibration.errors import InputError, shown
from batch_calibration.tasks.base import NAMES, Row, Task

UNKNOWN = -1


def columns(task: Task, present: tuple[str, ...], where: str) -> dict[str, str]:
    """The column of each field and of `label`: the task's first schema that the data have.

    >>> from batch_calibration.tasks import TASKS
    >>> columns(TASKS["rte"], ("premise", "hypothesis", "label"), "here")
    {'sentence1': 'premise', 'sentence2': 'hypothesis', 'label': 'label'}
    """
    lacking = []
    for renamed in task.columns:
        names = {name: renamed.get(name, name) for name in (*task.fields, "label")}
        missing = [name for name in names.values() if name not in present]
        if not missing:
            return names
        lacking.append(", ".join(missing))
    raise InputError(
        f"{where}: task {task.name} needs {' or else '.join(lacking)}, the row has only "
        f"{', '.join(map(str, present)) or 'nothing'}; rename or add it."
    )


def bind(task: Task, record: Mapping[str, object], where: str) -> tuple[Row, int]:
    """The task's fields and the label of one record; `where` names file and row in errors."""
    names = columns(task, tuple(record), where)
    row = {}
    for field in task.fields:
        value = record[names[field]]
        if not isinstance(value, str):
            raise InputError(f"{where}: field {names[field]} must be text, got {shown(value)}.")
        row[field] = value
    return row, _label(task, record[names["label"]], where)


def _label(task: Task, value: object, where: str) -> int:
    named = ", ".join(task.label_names)
    if task.labels_are == NAMES:
        if task.is_image and str(value) != str(UNKNOWN):
            return label_of(task, str(value), where)
        if value in (UNKNOWN, str(UNKNOWN)):
            return UNKNOWN
        if value not in task.label_names:
            raise InputError(
                f"{where}: label must be one of {named}, or -1 (unknown), got {shown(value)}; "
                "where labels are numbers from 0, the task file says labels_are = 'numbers'."
            )
        return task.label_names.index(str(value))
    if type(value) is not int or not UNKNOWN <= value < len(task.label_names):
        raise InputError(
            f"{where}: label must be -1 (unknown) or 0 to {len(task.label_names) - 1} "
            f"({named}), got {shown(value)}."
        )
    return value

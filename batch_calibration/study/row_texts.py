"""Texts of scored rows, where the data that a workdir's runs read are still on the disk."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from batch_calibration.data import RowReader, load_task
from batch_calibration.errors import InputError
from batch_calibration.prompts.rendered import text_digest
from batch_calibration.scores import ScoreTable
from batch_calibration.store import ContextInfo, Run
from batch_calibration.tasks import TASKS
from batch_calibration.tasks.base import Task


def row_texts(runs: Sequence[Run]) -> Callable[[ScoreTable], Mapping[str, str]]:
    """A score table -> the texts of its test rows by row id; none where they are not found.

    Every data folder and task file of the runs is looked into; rows of another digest than the
    table's are others, and are not taken.
    """
    folders = list(dict.fromkeys(str(run.config["data"]) for run in runs if "data" in run.config))
    known, reader = _tasks(runs), RowReader()

    def texts(table: ScoreTable) -> Mapping[str, str]:
        about = ContextInfo.from_table(table)
        task = known.get(about.task)
        for folder in folders or [""]:
            if task is None or task.is_image:
                return {}
            try:
                rows = reader.texts(task, folder, about.split, about.limit)
            except InputError:
                continue
            if text_digest(f"{row}" for row in rows.rows) == table.context.get("rows"):
                return {
                    name: "\n".join(f"{field}: {text}" for field, text in row.items())
                    for name, row in zip(rows.ids, rows.rows, strict=True)
                }
        return {}

    return texts


def _tasks(runs: Sequence[Run]) -> dict[str, Task]:
    """The tasks of the package, and those whose files the runs named."""
    found = dict(TASKS)
    for run in runs:
        names = run.config.get("tasks")
        for name in names if isinstance(names, list | tuple) else ():
            with suppress(InputError):
                task = load_task(str(name))
                found[task.name] = task
    return found

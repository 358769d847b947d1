"""Records sorted into studies: one setting, its tasks, its methods, a value per seed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS
from batch_calibration.scores import digest
from batch_calibration.tasks import TASKS

MAIN = ("icl", "cc", "dc", "pc", "bc", "bcl", "bc_running")
VARIANTS = ("icl", "bc", *(name for name in METHODS if name not in MAIN))

SHORTENED = {
    "drop_shots": ", long prompts (†) lose shots",
    "truncate_left": ", long prompts (†) cut",
}
AXES = {
    ("selection",): "choices",
    ("order",): "orders",
    ("selection", "order"): "orders",
    ("template",): "templates",
    ("verbalizer",): "verbalizers",
}
"""Which choices of the prompt differ from a task's own, and the study in which they vary."""

Record = dict[str, Any]


class Setting(NamedTuple):
    """What a table holds fixed."""

    model: str
    scorer: str
    shots: int
    split: str
    limit: int
    over_long: str = "error"
    data: str = ""
    variant: str = ""

    def __str__(self) -> str:
        """In words, for titles and file names' captions."""
        rows = f"first {self.limit} rows" if self.limit else "all rows"
        how = "zero-shot" if not self.shots else f"{self.shots}-shot"
        long = SHORTENED.get(self.over_long, "")
        data = "" if self.data in ("", self.model) else f" on {self.data}"
        variant = f", scorer {self.variant}" if self.variant else ""
        return f"{self.model}{data}, {how}, {self.split} split, {rows}{long}{variant}"

    @property
    def slug(self) -> str:
        """The setting as part of a file name."""
        rows = f"-first{self.limit}" if self.limit else ""
        long = "" if self.over_long == "error" else f"-{self.over_long}"
        data = "" if self.data in ("", self.model) else f"-{self.data}"
        variant = f"-{self.variant}" if self.variant else ""
        name = f"{self.model}{data}-{self.shots}shot-{self.split}{rows}{long}{variant}"
        return name.replace(" ", "-")


class Study(NamedTuple):
    """The records of one setting, by task, in the order of the seeds."""

    setting: Setting
    records: dict[str, list[Record]]

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that every record has, in the order of the table of methods."""
        every = [record["methods"] for group in self.records.values() for record in group]
        return tuple(name for name in METHODS if all(name in methods for methods in every))

    def among(self, names: Sequence[str]) -> list[str]:
        """Of these methods, those that the study has."""
        return [name for name in self.methods if name in names]

    def panels(self) -> dict[str, list[str]]:
        """Title and methods of each table worth showing: one that adds something of its own."""
        shown = {"Methods": self.among(MAIN), "Published variants": self.among(VARIANTS)}
        return {
            what: methods
            for what, methods in shown.items()
            if methods and (what == "Methods" or set(methods) - set(MAIN))
        }

    def values(self, task: str, method: str, metric: str = "accuracy") -> np.ndarray:
        """One value per seed, `[s]`."""
        return np.array([r["methods"][method][metric] for r in self.records[task]])

    def average(self, method: str, metric: str = "accuracy") -> float:
        """Mean over tasks of the mean over seeds."""
        return float(np.mean([self.values(task, method, metric).mean() for task in self.records]))


def studies(records: Sequence[Record]) -> list[Study]:
    """Records grouped by setting; tasks in the order of their shelf, seeds ascending.

    Those of a robustness study, whose prompts differ from the task's own, are left out.

    Raises:
        InputError: two records of one setting, task and seed, as after a change of the data.
    """
    groups: dict[Setting, dict[str, list[Record]]] = {}
    for record in named_apart(ordered(records)):
        if not axis(record):
            group = groups.setdefault(setting(record), {}).setdefault(record["context"]["task"], [])
            if any(r["context"]["seed"] == record["context"]["seed"] for r in group):
                raise InputError(
                    f"the workdir holds two records of {record['context']['task']}, seed "
                    f"{record['context']['seed']}, in the setting {setting(record)}, such as from "
                    "before and after a change of the data; keep them in workdirs of their own."
                )
            group.append(record)
    return [Study(held, groups[held]) for held in sorted(groups)]


def named_apart(records: Sequence[Record]) -> list[Record]:
    """The same records; where one setting's come from several scorers, each says which.

    Another checkpoint in a folder of the same name, or another scale, is another scorer.
    """
    scorers: dict[Setting, set[str]] = {}
    for record in records:
        scorers.setdefault(setting(record), set()).add(digest(record["context"]["scorer"]))
    return [
        record
        if len(scorers[setting(record)]) == 1
        else {**record, "variant": digest(record["context"]["scorer"])[:4]}
        for record in records
    ]


def setting(record: Record) -> Setting:
    """What the record's table holds fixed."""
    about = record["context"]
    over_long = about.get("options", {}).get("over_long", "error")
    return Setting(
        about["model"], about["scorer"]["kind"], about["shots"], about["split"], about["limit"],
        over_long, about.get("data", ""), record.get("variant", ""),
    )  # fmt: skip


def axis(record: Record) -> str:
    """The robustness study that a record belongs to; nothing where the prompt is the task's own."""
    options = record["context"].get("options", {})
    varied = tuple(k for k in ("selection", "order", "template", "verbalizer") if k in options)
    return AXES.get(varied, "-".join(varied))


def ordered(records: Sequence[Record]) -> list[Record]:
    """Tasks in the order of their shelf, seeds ascending."""
    return sorted(records, key=_rank(list(TASKS)))


def _rank(order: list[str]) -> Any:
    def rank(record: Record) -> tuple[int, str, int]:
        task = record["context"]["task"]
        place = order.index(task) if task in order else len(order)
        return place, task, record["context"]["seed"]

    return rank


def title(task: str) -> str:
    """A task's name as papers print it."""
    return TASKS[task].title if task in TASKS else task

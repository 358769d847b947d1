"""Groups records by setting: one setting, its tasks, its methods, a value per seed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, Group
from batch_calibration.store import Record
from batch_calibration.tasks import TASKS

BASELINE = "icl"
"""What others are said to gain over."""
CORRECTED = "bc"
"""The method that paragraphs tell of."""
REFERENCES = (BASELINE, CORRECTED)
"""What published variants are shown beside."""
SHORTENED = {
    "drop_shots": ", long prompts (†) lose shots",
    "same_context": ", all prompts (†) lose shots where one is long",
    "truncate_left": ", long prompts (†) cut",
}
VARIED = ("selection", "order", "template", "verbalizer")
"""Choices of the prompt that a robustness study varies."""
CONTROLS = ("demonstration_labels", "label_words")
"""Choices that say how much a model reads in its demonstrations; no prompt that one would use."""
CONTROL = "demonstration labels"
"""The study in which they vary."""
AXES = {
    ("selection",): "choices",
    ("order",): "orders",
    ("selection", "order"): "orders",
    ("template",): "templates",
    ("verbalizer",): "verbalizers",
}
"""Which choices of the prompt differ from a task's own, and the study in which they vary."""


class Setting(NamedTuple):
    """What a table holds fixed; what is not known is empty, shots None."""

    model: str
    scorer: str
    shots: int | None
    split: str
    limit: int
    over_long: str = "error"
    data: str = ""
    variant: str = ""
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        """In words, for titles and file names' captions."""
        if self.shots is None:
            return self.words()
        return self.words("zero-shot" if self.shots == 0 else f"{self.shots}-shot")

    def words(self, how: str = "") -> str:
        """All but the shots in words, `how` before the split."""
        model = self.model or "unnamed model"
        parts = [model if self.data in ("", self.model) else f"{model} on {self.data}", how]
        parts += [f"{self.split} split"] if self.split else []
        parts += [f"first {self.limit} rows"] if self.limit else ["all rows"] if self.split else []
        long = SHORTENED.get(self.over_long, "")
        variant = f", scorer {self.variant}" if self.variant else ""
        options = "".join(f", {option}" for option in self.options)
        return f"{', '.join(filter(None, parts))}{long}{variant}{options}"

    @property
    def slug(self) -> str:
        """The setting as part of a file name."""
        rows = f"-first{self.limit}" if self.limit else ""
        long = "" if self.over_long == "error" else f"-{self.over_long}"
        data = "" if self.data in ("", self.model) else f"-{self.data}"
        variant = f"-{self.variant}" if self.variant else ""
        options = "".join(f"-{option}" for option in self.options)
        shots = "" if self.shots is None else f"-{self.shots}shot"
        split = f"-{self.split}" if self.split else ""
        name = f"{self.model or 'scores'}{data}{shots}{split}{rows}{long}{variant}{options}"
        return name.replace(" ", "-")


class SettingRecords(NamedTuple):
    """The records of one setting, by task, in the order of the seeds."""

    setting: Setting
    records: dict[str, list[Record]]

    @property
    def every(self) -> list[Record]:
        """The records of all tasks."""
        return [record for of_task in self.records.values() for record in of_task]

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that every record has, in the order of the table of methods."""
        return tuple(name for name in METHODS if all(name in one.methods for one in self.every))

    def among(self, names: Sequence[str]) -> list[str]:
        """Of these methods, those that every record has."""
        return [name for name in self.methods if name in names]

    @property
    def compared(self) -> list[str]:
        """Methods of the paper's comparison that every record has."""
        return self.among(of_group("paper"))

    def values(self, task: str, method: str, metric: str = "accuracy") -> np.ndarray:
        """One value per seed, `[s]`."""
        return np.array([record.methods[method][metric] for record in self.records[task]])

    def average(self, method: str, metric: str = "accuracy") -> float:
        """Mean over tasks of the mean over seeds."""
        return float(np.mean([self.values(task, method, metric).mean() for task in self.records]))


def of_group(group: Group) -> list[str]:
    """Names of the methods of a group."""
    return [name for name, method in METHODS.items() if method.group == group]


def by_setting(records: Iterable[Record]) -> list[SettingRecords]:
    """Records grouped by setting; tasks in the order of `TASKS`, seeds ascending.

    Those of studies of the prompt, which differs from the task's own, are left out.

    Raises:
        InputError: two records of one setting, task and seed, as after a change of the data.
    """
    groups: dict[Setting, dict[str, list[Record]]] = {}
    for setting, record in with_settings(records):
        if axis(record):
            continue
        task, seed = record.context.task, record.context.seed
        group = groups.setdefault(setting, {}).setdefault(task, [])
        if any(other.context.seed == seed for other in group):
            of = task if seed is None else f"{task}, seed {seed},"
            raise InputError(
                f"the workdir holds two records of {of} in the setting {setting}, "
                "such as from before and after a change of the data; keep them in workdirs of "
                "their own."
            )
        group.append(record)
    order = sorted(
        groups, key=lambda one: one._replace(shots=-1 if one.shots is None else one.shots)
    )
    return [SettingRecords(setting, groups[setting]) for setting in order]


def with_settings(records: Iterable[Record]) -> list[tuple[Setting, Record]]:
    """Each record and its setting, in the order of tasks and seeds.

    Where one setting's records come from several scorers, each says which: another checkpoint in
    a folder of the same name, or another scale, is another scorer. A record that lacks a block
    stands beside those that have it, unless they made it in several ways.
    """
    found = ordered(records)
    scorers: dict[Setting, set[str]] = {}
    made: dict[tuple[Setting, str], set[tuple[str, ...]]] = {}
    for record in found:
        setting = _setting(record)
        scorers.setdefault(setting, set()).add(record.context.scorer.digest)
        for block, options in record.context.blocks.items():
            made.setdefault((setting._replace(shots=0), block), set()).add(_words(options))
    blocks = sorted({block for _, block in made})

    def whole(record: Record) -> Setting:
        setting, given = _setting(record), record.context.blocks
        several = len(scorers[setting]) > 1
        options = list(setting.options)
        for block in blocks:
            others = made.get((setting._replace(shots=0), block), set())
            if block in given:
                options += _words(given[block])
            elif len(others) == 1:
                options += next(iter(others))
        variant = record.context.scorer.digest[:4] if several else ""
        return setting._replace(variant=variant, options=tuple(options))

    return [(whole(record), record) for record in found]


def _words(options: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(f"{name} {_word(value)}" for name, value in sorted(options.items()))


def _word(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _setting(record: Record) -> Setting:
    """What the record's table holds fixed."""
    about = record.context
    held = {k: v for k, v in about.options.items() if k not in (*VARIED, *CONTROLS, "over_long")}
    floor = {} if record.floor is None else {"floor": record.floor}
    methods = {f"{m} {k}": v for m, given in record.options.items() for k, v in given.items()}
    return Setting(
        about.model, about.scorer.kind, about.shots, about.split, about.limit,
        str(about.options.get("over_long", "error")), about.data,
        options=_words(held | floor | methods),
    )  # fmt: skip


def axis(record: Record) -> str:
    """The study of the prompt that a record belongs to; nothing where it is the task's own."""
    options = record.context.options
    if any(name in options for name in CONTROLS):
        return CONTROL
    varied = tuple(k for k in VARIED if k in options)
    name = AXES.get(varied, "-".join(varied))
    selection = options.get("selection", "total")
    return name if selection == "total" else f"{name}-{selection}"


def ordered(records: Iterable[Record]) -> list[Record]:
    """Tasks in the order of `TASKS`, seeds ascending."""
    position = {name: number for number, name in enumerate(TASKS)}

    def rank(record: Record) -> tuple[int, str, int]:
        task = record.context.task
        seed = record.context.seed
        return position.get(task, len(position)), task, -1 if seed is None else seed

    return sorted(records, key=rank)


def title(task: str) -> str:
    """A task's name as papers print it."""
    return TASKS[task].title if task in TASKS else task


def joined(items: Iterable[str]) -> str:
    """The items with commas, and `and` before the last."""
    some = list(items)
    return some[0] if len(some) == 1 else ", ".join(some[:-1]) + " and " + some[-1]

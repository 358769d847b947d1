"""Groups records by setting: one setting, its tasks, its methods, a value per seed."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, Group
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import Record

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

BASELINE = "icl"  # the method that gains are measured against
CORRECTED = "bc"  # the method that paragraphs describe
REFERENCES = (BASELINE, CORRECTED)  # the methods that published variants are shown beside
SHORTENED = {
    "drop_shots": ", long prompts (†) lose shots",
    "same_context": ", all prompts (†) lose shots where one is long",
    "truncate_left": ", long prompts (†) cut",
}
# Choices of the prompt that a robustness study varies.
VARIED = ("selection", "order", "template", "verbalizer")
# Choices that test how much a model reads in its demonstrations, not prompts for use.
CONTROLS = ("demonstration_labels", "label_words")
CONTROL = "demonstration labels"  # the study in which they vary
# Choices of the prompt that differ from the task's own -> the study in which they vary.
AXES = {
    ("selection",): "choices",
    ("order",): "orders",
    ("selection", "order"): "orders",
    ("template",): "templates",
    ("verbalizer",): "verbalizers",
}


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
        model = self.model or "unnamed model"
        if self.data not in ("", self.model):
            model = f"{model} on {self.data}"
        shots = "zero-shot" if self.shots == 0 else f"{self.shots}-shot"
        phrases = [model, "" if self.shots is None else shots]
        phrases.append(f"{self.split} split" if self.split else "")
        # Scores without a split are some rows of unknown origin: "all rows" would claim too much.
        all_rows = "all rows" if self.split else ""
        phrases.append(f"first {self.limit} rows" if self.limit else all_rows)
        shortened = SHORTENED.get(self.over_long, "")
        variant = f", scorer {self.variant}" if self.variant else ""
        options = "".join(map(", {}".format, self.options))
        return f"{', '.join(filter(None, phrases))}{shortened}{variant}{options}"

    @property
    def slug(self) -> str:
        """The setting as part of a file name."""
        parts = [self.model or "scores", "" if self.data == self.model else self.data]
        parts.append("" if self.shots is None else f"{self.shots}shot")
        parts += [self.split, f"first{self.limit}" if self.limit else ""]
        parts += ["" if self.over_long == "error" else self.over_long, self.variant]
        return "-".join([*filter(None, parts), *self.options]).replace(" ", "-")


@dataclass(frozen=True)
class SettingRecords:
    """The records of one setting, by task, in the order of the seeds."""

    setting: Setting
    records: dict[str, list[Record]]

    # Tables and figures ask for these again and again: each is found once per group.
    @cached_property
    def all_records(self) -> list[Record]:
        """The records of all tasks."""
        return list(chain.from_iterable(self.records.values()))

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Methods that every record has, in the order of the table of methods."""
        return tuple(shared_methods(self.all_records))

    @cached_property
    def judged(self) -> frozenset[str]:
        """Methods of which every record keeps which rows they answer rightly."""
        rights = [record.right.keys() for record in self.all_records]
        return frozenset(self.methods).intersection(*rights)

    @cached_property
    def paper_methods(self) -> list[str]:
        """Methods of the paper's comparison that every record has."""
        return self.among(methods_of_group("paper"))

    def among(self, names: Sequence[str]) -> list[str]:
        """Of these methods, those that every record has."""
        return list(filter(names.__contains__, self.methods))

    def first_seeds(self) -> "SettingRecords":
        """The same with one record a task, that of the first seed."""
        return replace(self, records={task: seeds[:1] for task, seeds in self.records.items()})

    def values(self, task: str, method: str, metric: str = "accuracy") -> np.ndarray:
        """One value per seed, `[s]`."""
        return metric_values(self.records[task], method, metric)

    def average(self, method: str, metric: str = "accuracy") -> float:
        """Mean over tasks of the mean over seeds."""
        return float(np.mean([self.values(task, method, metric).mean() for task in self.records]))


def name_differences(settings: Sequence[Setting]) -> list[str]:
    """Of each setting what tells it from the others: "gpt2, 4-shot".

    >>> one = Setting("gpt2", "causal_lm", 4, "test", 0)
    >>> name_differences([one, one._replace(shots=0), one._replace(model="mini")])
    ['gpt2, 4-shot', 'gpt2, 0-shot', 'mini, 4-shot']
    """
    names = [list[str]() for _ in settings]
    for field in Setting._fields:
        values = [getattr(setting, field) for setting in settings]
        if len(set(values)) > 1:
            for name, value in zip(names, values, strict=True):
                texts = value if isinstance(value, tuple) else [str(value)]
                name += [f"{text}-shot" if field == "shots" else text for text in texts]
    return [", ".join(filter(None, name)) for name in names]


def methods_of_group(group: Group) -> list[str]:
    """Names of the methods of a group."""
    return [name for name, method in METHODS.items() if method.group == group]


def shared_methods(records: Sequence[Record]) -> list[str]:
    """Methods that every record has, in the order of the table of methods."""
    shared = set(METHODS).intersection(*(record.methods for record in records))
    return list(filter(shared.__contains__, METHODS))


def metric_values(records: Iterable[Record], method: str, metric: str = "accuracy") -> np.ndarray:
    """A metric of one method, one value a record, [s]."""
    return np.array([record.methods[method][metric] for record in records])


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items by their key, in the order in which they come.

    >>> group_by(["a", "bc", "d"], len)
    {1: ['a', 'd'], 2: ['bc']}
    """
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def by_setting(records: Iterable[Record]) -> list[SettingRecords]:
    """Records grouped by setting; tasks in the order of `TASKS`, seeds ascending.

    Those of studies of the prompt, which differs from the task's own, are left out.

    Raises:
        InputError: two records of one setting, task and seed, as after a change of the data.
    """
    groups: dict[Setting, dict[str, list[Record]]] = {}
    for setting, record in with_settings(records):
        if axis_name(record):
            continue
        task, seed = record.context.task, record.context.seed
        siblings = groups.setdefault(setting, {}).setdefault(task, [])
        if any(sibling.context.seed == seed for sibling in siblings):
            subject = task if seed is None else f"{task}, seed {seed}"
            raise InputError(
                where=f"workdir, setting {setting}",
                expected="one record of each task and seed",
                got=f"two records of {subject}, such as from before and after the data changed",
                remedy="keep them in workdirs of their own",
            )
        siblings.append(record)
    # Unknown shots stand before zero-shot: None and numbers do not compare.
    order = sorted(
        groups, key=lambda key: key._replace(shots=-1 if key.shots is None else key.shots)
    )
    return [SettingRecords(setting, groups[setting]) for setting in order]


def with_settings(records: Iterable[Record]) -> list[tuple[Setting, Record]]:
    """Each record and its setting, in the order of tasks and seeds.

    Where one setting's records come from several scorers, each says which: another checkpoint in
    a folder of the same name, or another scale, is another scorer. A record that lacks a block
    stands beside those that have it, unless they made it in several ways.
    """
    ordered = sort_records(records)
    scorers: dict[Setting, set[str]] = {}
    # (setting, its shots 0; block) -> the options with which the setting's records made the block.
    block_options: dict[tuple[Setting, str], set[tuple[str, ...]]] = {}
    for record in ordered:
        setting = _setting(record)
        scorers.setdefault(setting, set()).add(record.context.scorer.digest)
        for block, options in record.context.blocks.items():
            key = setting._replace(shots=0), block
            block_options.setdefault(key, set()).add(_option_texts(options))
    blocks = sorted({block for _, block in block_options})

    def full_setting(record: Record) -> Setting:
        setting, own_blocks = _setting(record), record.context.blocks
        texts = list(setting.options)
        for block in blocks:
            variants = block_options.get((setting._replace(shots=0), block), set())
            if block in own_blocks:
                texts += _option_texts(own_blocks[block])
            elif len(variants) == 1:
                texts += next(iter(variants))
        variant = record.context.scorer.digest[:4] if len(scorers[setting]) > 1 else ""
        return setting._replace(variant=variant, options=tuple(texts))

    return [(full_setting(record), record) for record in ordered]


def _option_texts(options: Mapping[str, object]) -> tuple[str, ...]:
    texts = []
    for name, option in sorted(options.items()):
        several = isinstance(option, list | tuple)
        texts.append(f"{name} {' '.join(map(str, option)) if several else option}")  # type: ignore[call-overload]
    return tuple(texts)


def _setting(record: Record) -> Setting:
    """What the record's table holds fixed."""
    context = record.context
    varied = {*VARIED, *CONTROLS, "over_long"}
    options = {name: context.options[name] for name in context.options.keys() - varied}
    if record.floor is not None:
        options["floor"] = record.floor
    for method, method_options in record.options.items():
        options |= {f"{method} {name}": option for name, option in method_options.items()}
    return Setting(
        context.model, context.scorer.kind, context.shots, context.split, context.limit,
        str(context.options.get("over_long", "error")), context.data,
        options=_option_texts(options),
    )  # fmt: skip


def axis_name(record: Record) -> str:
    """The study of the prompt that a record belongs to; nothing where it is the task's own."""
    options = record.context.options
    if not options.keys().isdisjoint(CONTROLS):
        return CONTROL
    varied = tuple(filter(options.__contains__, VARIED))
    name = AXES.get(varied, "-".join(varied))
    selection = options.get("selection", "total")
    return name if selection == "total" else f"{name}-{selection}"


def _position(task: str) -> int:
    return [*TASKS, task].index(task)


def sort_records(records: Iterable[Record]) -> list[Record]:
    """Tasks in the order of `TASKS`, seeds ascending."""

    def rank(record: Record) -> tuple[int, str, int]:
        task, seed = record.context.task, record.context.seed
        return _position(task), task, -1 if seed is None else seed

    return sorted(records, key=rank)


def sort_tasks(tasks: Iterable[str]) -> list[str]:
    """Tasks in the order of `TASKS`, then the others as they come."""
    return sorted(dict.fromkeys(tasks), key=_position)


def task_title(task: str) -> str:
    """A task's name as papers print it."""
    return TASKS[task].title if task in TASKS else task


def context_title(task: str, seed: int | None) -> str:
    """The task and its seed, if it has one: "SST-2, seed 0"."""
    return task_title(task) if seed is None else f"{task_title(task)}, seed {seed}"

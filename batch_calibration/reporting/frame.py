"""Results as a frame: a line a context and method, grouped by setting, task and prompt."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from batch_calibration.diagnosis import comparison
from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, Group
from batch_calibration.metrics import OF_ACCURACY, OF_GAIN, Estimate, over_rows, over_tasks
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import Record, unpack

BASELINE, CORRECTED = REFERENCES = comparison.REFERENCES
Member = TypeVar("Member")
GroupKey = TypeVar("GroupKey", bound=Hashable)

LEARNED_MARGIN = 10.0  # points above chance
SHORTENED = {
    "drop_shots": ", long prompts (†) lose shots",
    "same_context": ", all prompts (†) lose shots where one is long",
    "truncate_left": ", long prompts (†) cut",
}
IN_SOME = "in some contexts"  # behind an option of a block that others lack
# Choices of the prompt that a robustness study varies.
VARIED = ("selection", "order", "template", "verbalizer")
# Options of settings whose demonstrations show other labels, which are no prompts for use.
LABELS = ("demonstration_labels", "label_words")
# Choices of the prompt that differ from the task's own -> the study in which they vary.
STUDIES = {
    ("selection",): "choices",
    ("order",): "orders",
    ("selection", "order"): "orders",
    ("template",): "templates",
    ("verbalizer",): "verbalizers",
}


class Setting(NamedTuple):
    """The settings that a table holds fixed; empty where not known, shots None."""

    model: str
    scorer: str
    shots: int | None
    split: str
    limit: int
    over_long: str = "error"
    data: str = ""
    variant: str = ""
    options: tuple[str, ...] = ()
    # (option of a block, shots) -> whether all contexts of these shots have the block; not
    # listed where none has. Empty where all of a setting have it, whatever their shots.
    partial: tuple[tuple[str, int | None, bool], ...] = ()

    @property
    def has_own_labels(self) -> bool:
        """True if demonstrations show their own labels, in the task's own words."""
        return not any(option.startswith(LABELS) for option in self.options)

    @property
    def shown_options(self) -> tuple[str, ...]:
        """The options that contexts of these shots have, marked where only some of them do."""
        of_shots = [part for part in self.partial if part[1] == self.shots]
        known = {option: is_whole for option, _, is_whole in of_shots}
        limited, texts = {option for option, *_ in self.partial}, []
        for option in self.options:
            if option not in limited:
                texts.append(option)
            elif option in known:
                texts.append(option if known[option] else f"{option} {IN_SOME}")
        return tuple(texts)

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
        phrases.append(f"{self.limit} rows" if self.limit else all_rows)
        shortened = SHORTENED.get(self.over_long, "")
        variant = f", scorer {self.variant}" if self.variant else ""
        options = "".join(map(", {}".format, self.shown_options))
        return f"{', '.join(filter(None, phrases))}{shortened}{variant}{options}"

    @property
    def slug(self) -> str:
        """The setting as part of a file name."""
        parts = [self.model or "scores", "" if self.data == self.model else self.data]
        parts.append("" if self.shots is None else f"{self.shots}shot")
        parts += [self.split, f"{self.limit}rows" if self.limit else ""]
        parts += ["" if self.over_long == "error" else self.over_long, self.variant]
        return "-".join([*filter(None, parts), *self.shown_options]).replace(" ", "-")


@dataclass(frozen=True, eq=False)
class Frame:
    """Results that share a setting: a line a context and method, its answers to rows in it.

    Attributes:
        setting: what the contexts share.
        records: the contexts, tasks in the order of `TASKS`, seeds ascending; each has a line a
            method.
    """

    setting: Setting
    records: list[Record]

    def by(self, key: Callable[[Record], GroupKey]) -> "dict[GroupKey, Frame]":
        """The contexts by a property of theirs, in the order in which its values come."""
        groups = group_by(self.records, key)
        return {name: Frame(self.setting, records) for name, records in groups.items()}

    # Tables and figures ask for these again and again: each is found once.
    @cached_property
    def tasks(self) -> "dict[str, Frame]":
        """The contexts by task."""
        return self.by(lambda record: record.context.task)

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Methods that every context has, in the order of the table of methods."""
        shared = set(METHODS).intersection(*(record.methods for record in self.records))
        return tuple(filter(shared.__contains__, METHODS))

    @cached_property
    def compared(self) -> list[str]:
        """Methods whose gain over ICL is known: both have the answers to each row."""
        judged = list(filter(self._is_judged, self.methods))
        return [name for name in judged if BASELINE in judged and name != BASELINE]

    def _is_judged(self, method: str) -> bool:
        return all(record.methods[method].right for record in self.records)

    @property
    def has_references(self) -> bool:
        """True where the gain of BC over ICL is known."""
        return CORRECTED in self.compared

    @property
    def max_seeds(self) -> int:
        """The most draws of demonstrations that a task has."""
        return max(len(frame.records) for frame in self.tasks.values())

    @property
    def paper_methods(self) -> list[str]:
        """Methods of the paper's comparison that every context has."""
        return self.among(methods_of_group("paper"))

    def among(self, names: Sequence[str]) -> list[str]:
        """The methods of these names that every context has."""
        return list(filter(names.__contains__, self.methods))

    def parts(self, names: Sequence[str]) -> "list[tuple[Frame, list[str]]]":
        """The contexts that have some of these methods, which others lack, and those methods."""
        methods_of = dict[tuple[int, ...], list[str]]()
        for name in names:
            has = tuple(i for i, record in enumerate(self.records) if name in record.methods)
            if 0 < len(has) < len(self.records):
                methods_of.setdefault(has, []).append(name)
        parts = []
        for has, methods in methods_of.items():
            parts.append((Frame(self.setting, [self.records[i] for i in has]), methods))
        return parts

    def first_seeds(self) -> "Frame":
        """The same with one context a task, with the first seed."""
        return Frame(self.setting, [frame.records[0] for frame in self.tasks.values()])

    def values(self, method: str, metric: str = "accuracy") -> np.ndarray:
        """A metric of one method, one value a context, [c]."""
        return np.array([record.methods[method].metrics[metric] for record in self.records])

    def average(self, method: str, metric: str = "accuracy") -> float:
        """Mean over tasks of the mean over seeds."""
        return float(np.mean([task.values(method, metric).mean() for task in self.tasks.values()]))

    def right(self, method: str) -> list[np.ndarray]:
        """Of each context the labeled rows [n], 1.0 where the method is right."""
        packed = [(record.methods[method].right, sum(record.classes)) for record in self.records]
        return [unpack(text, rows).astype(np.float64) for text, rows in packed]

    def accuracy(self, method: str) -> Estimate:
        """The accuracy, mean over the tasks."""
        return over_tasks([task_accuracy(task, method) for task in self.tasks.values()])

    def gains(self, method: str) -> dict[str, Estimate]:
        """The gain over ICL on each task."""
        return {name: gain(task, method) for name, task in self.tasks.items()}


def task_accuracy(frame: Frame, method: str) -> Estimate:
    """The accuracy on one task, mean over contexts; the interval of one is that of its record."""
    if len(frame.records) > 1:
        return _mean_over_contexts(frame, method, "")
    metrics = frame.records[0].methods[method].metrics
    return Estimate(metrics["accuracy"], metrics["accuracy_low"], metrics["accuracy_high"])


def gain(frame: Frame, method: str) -> Estimate:
    """The accuracy on one task less ICL's on the same rows, mean over contexts."""
    return _mean_over_contexts(frame, method, BASELINE)


# Tables, figures and paragraphs ask for the same number several times.
@lru_cache(maxsize=4096)
def _mean_over_contexts(frame: Frame, method: str, reference: str) -> Estimate:
    contexts, added = frame.right(method), OF_GAIN if reference else OF_ACCURACY
    if reference:
        pairs = zip(contexts, frame.right(reference), strict=True)
        contexts = [after - before for after, before in pairs]
    if len(set(map(len, contexts))) == 1:
        return over_rows(np.array(contexts), added)
    # Seeds that have unlike rows, as where images are unreadable, have no row in common.
    return over_tasks([over_rows(rows[None], added) for rows in contexts])


def learned_tasks(frame: Frame) -> list[str]:
    """Tasks where the better of icl and bc, mean over the seeds, is clearly above chance.

    `LEARNED_MARGIN` points above 100 % / number of labels, and its 95 % interval over seeds and
    rows above that and above the share of the most frequent label. Each of the two has one chance
    in 40 to pass by luck. Nothing is learned where icl or bc was not run.
    """
    tasks = frame.tasks if frame.has_references else {}
    return [name for name, task in tasks.items() if _is_learned(task)]


def _is_learned(task: Frame) -> bool:
    chance = 1 / len(task.records[0].label_names)
    means = [task.values(method).mean() for method in REFERENCES]
    better = int(np.argmax(means))
    # Rounded: 60 % of two labels is learned, whatever the last bit says.
    above = round(float(100 * (means[better] - chance)), 6)
    low = task_accuracy(task, REFERENCES[better]).low
    frequent = max(max(record.classes) / sum(record.classes) for record in task.records)
    return above >= LEARNED_MARGIN and low > max(chance, frequent)


def name_differences(settings: Sequence[Setting]) -> list[str]:
    """Of each setting what tells it from the others: "gpt2, 4-shot".

    >>> one = Setting("gpt2", "causal_lm", 4, "test", 0)
    >>> name_differences([one, one._replace(shots=0), one._replace(model="mini")])
    ['gpt2, 4-shot', 'gpt2, 0-shot', 'mini, 4-shot']
    >>> labeled = one._replace(options=("labeled 16",), partial=(("labeled 16", 4, True),))
    >>> name_differences([labeled, labeled._replace(shots=0)])
    ['4-shot, labeled 16', '0-shot']
    """
    names = [list[str]() for _ in settings]
    for field in (*Setting._fields[:-2], "shown_options"):
        values = [getattr(setting, field) for setting in settings]
        if len(set(values)) > 1:
            for name, value in zip(names, values, strict=True):
                texts = value if isinstance(value, tuple) else [str(value)]
                name += [f"{text}-shot" if field == "shots" else text for text in texts]
    return [", ".join(filter(None, name)) for name in names]


def methods_of_group(group: Group) -> list[str]:
    """Names of the methods of a group."""
    return [name for name, method in METHODS.items() if method.group == group]


def is_over_shots(name: str) -> bool:
    """True of methods in curves of shots: the paper's comparison of whole batches."""
    method = METHODS[name]
    return method.group == "paper" and not method.own_rows


def group_by(
    items: Iterable[Member], key: Callable[[Member], GroupKey]
) -> dict[GroupKey, list[Member]]:
    """The items by their key, in the order in which they come.

    >>> group_by(["a", "bc", "d"], len)
    {1: ['a', 'd'], 2: ['bc']}
    """
    groups: dict[GroupKey, list[Member]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def by_setting(records: Iterable[Record]) -> list[Frame]:
    """Records grouped by setting; tasks in the order of `TASKS`, seeds ascending.

    Records of studies of the prompt, which differs from the task's own, are left out.

    Raises:
        InputError: two records of one setting, task and seed, as after a change of the data.
    """
    groups: dict[Setting, list[Record]] = {}
    seen = set[tuple[Setting, str, int | None]]()
    for setting, record in with_settings(records):
        if axis_name(record):
            continue
        task, seed = record.context.task, record.context.seed
        if (setting, task, seed) in seen:
            subject = task if seed is None else f"{task}, seed {seed}"
            where, expected = f"workdir, setting {setting}", "one record of each task and seed"
            got = f"two records of {subject}, perhaps from before and after a change of the data"
            raise InputError.at(where, expected, got, "keep them in separate workdirs")
        seen.add((setting, task, seed))
        groups.setdefault(setting, []).append(record)

    # Unknown shots come before zero-shot: None and numbers do not compare.
    def rank(setting: Setting) -> tuple[bool, Setting]:
        shots = -1 if setting.shots is None else setting.shots
        return not setting.has_own_labels, setting._replace(shots=shots)

    return [Frame(setting, groups[setting]) for setting in sorted(groups, key=rank)]


def with_settings(records: Iterable[Record]) -> list[tuple[Setting, Record]]:
    """Each record and its setting, in the order of tasks and seeds.

    Where one setting's records come from several scorers, each says which: another checkpoint in
    a folder of the same name, or another scale, is another scorer. A record that lacks a block
    shares a table with records that have it, unless they made it in several ways.
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
    # (setting, its shots 0; block) -> shots -> whether each of its records has the block.
    holders: dict[tuple[Setting, str], dict[int | None, list[bool]]] = {}
    for record in ordered:
        for block in blocks:
            of_shots = holders.setdefault((_setting(record)._replace(shots=0), block), {})
            has_block = block in record.context.blocks
            of_shots.setdefault(record.context.shots, []).append(has_block)

    def full_setting(record: Record) -> Setting:
        setting, own_blocks = _setting(record), record.context.blocks
        texts, partial = list(setting.options), []
        for block in blocks:
            variants = block_options.get((setting._replace(shots=0), block), set())
            options = _option_texts(own_blocks[block]) if block in own_blocks else ()
            if len(variants) == 1:
                (options,) = variants
                of_shots = holders[setting._replace(shots=0), block]
                for shots, has_block in of_shots.items():
                    if any(has_block) and not all(chain.from_iterable(of_shots.values())):
                        partial += [(option, shots, all(has_block)) for option in options]
            texts += options
        variant = record.context.scorer.digest[:4] if len(scorers[setting]) > 1 else ""
        return setting._replace(variant=variant, options=tuple(texts), partial=tuple(partial))

    return [(full_setting(record), record) for record in ordered]


def _option_texts(options: Mapping[str, object]) -> tuple[str, ...]:
    texts = []
    for name, option in sorted(options.items()):
        several = isinstance(option, list | tuple)
        texts.append(f"{name} {' '.join(map(str, option)) if several else option}")  # type: ignore[call-overload]
    return tuple(texts)


OF_SHARES = "target_prior", "counts"
"""Options of methods that say how frequent labels are."""


def _setting(record: Record) -> Setting:
    """The settings that the record's table holds fixed."""
    context = record.context
    varied = {*VARIED, "over_long"}
    options = {name: context.options[name] for name in context.options.keys() - varied}
    if record.floor is not None:
        options["floor"] = record.floor
    for method, of_method in record.methods.items():
        for name, option in of_method.options.items():
            # A word for shares that each table has of its own, the same for all methods.
            is_word = name in OF_SHARES and isinstance(option, str)
            options["prior" if is_word else f"{method} {name}"] = option
    asked = context.model, context.scorer.kind, context.shots, context.split, context.limit
    over_long = str(context.options.get("over_long", "error"))
    return Setting(*asked, over_long, context.data, options=_option_texts(options))


def axis_name(record: Record) -> str:
    """The study of the prompt that a record belongs to; nothing where it is the task's own."""
    options = record.context.options
    varied = tuple(filter(options.__contains__, VARIED))
    name = STUDIES.get(varied, "-".join(varied))
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
    return ", ".join(filter(None, (task_title(task), "" if seed is None else f"seed {seed}")))

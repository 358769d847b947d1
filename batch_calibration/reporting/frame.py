"""One frame of results: a context is a dict of factors, with one result for each method."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from textwrap import shorten
from typing import NamedTuple, TypeVar

import numpy as np

from batch_calibration.diagnosis import comparison
from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS
from batch_calibration.metrics import OF_ACCURACY, OF_GAIN, Estimate, over_rows, over_tasks
from batch_calibration.metrics.intervals import gain_over_prompts
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import Record
from batch_calibration.studies.records import unpack

BASELINE, CORRECTED = REFERENCES = comparison.REFERENCES
Member = TypeVar("Member")
GroupKey = TypeVar("GroupKey", bound=Hashable)
Factors = dict[str, str]
"""Factor -> its level in a context, as text."""

ORDER = ("model", "task", "template", "verbalizer", "selection", "order", "shots", "seed")
"""The order of factors in names and tables; other factors come before the shots, by name."""
ASIDE = ("scorer", "data", "split", "limit", "over_long", "floor", "id")
"""Factors that name contexts only if all other factors are equal."""
UNCHANGED = {"selection": "per_class", "order": "as drawn", "over_long": "error", "floor": "none"}
UNCHANGED |= {"seed": "none", "shots": "unknown"}
"""Level of a factor that a context does not mention; "own" for other factors."""
OF_HEADING = ("model", "task", "shots", "seed", "scorer", "data", "split", "limit", "id")
"""Factors that headings have, or that no reader needs if all contexts share them."""
MAX_WORD = 48  # characters of an option in a note
LABELS = ("demonstration_labels", "label_words")
"""Options of prompts with wrong labels or other words, which show whether a model reads them."""
FEWEST_SEEDS = 3  # seeds whose common error an interval over prompts includes
LEARNED_MARGIN = 10.0  # points above chance


def factors_of(record: Record) -> Factors:
    """Returns the factors of a context, without the options of its blocks and methods.

    >>> from batch_calibration.studies.records import ContextInfo
    >>> context = ContextInfo(task="sst2", shots=4, options={"template": 2})
    >>> factors = factors_of(Record("1", context, ("a", "b"), {"test": 1}, {}))
    >>> {name: factors[name] for name in ("task", "shots", "template")}
    {'task': 'sst2', 'shots': '4', 'template': '2'}
    """
    context = record.context
    known: dict[str, object] = {"model": context.model, "task": context.task}
    known |= {"shots": context.shots, "seed": context.seed, "scorer": context.scorer.digest[:4]}
    split = f"{context.split} ({context.served})" if context.served else context.split
    known |= {"data": context.data, "split": split, "limit": context.limit or "all"}
    if context.options.get("selection") == "explicit":
        known["demonstrations"] = [row.rpartition("/")[2] for row in context.demonstrations]
    known |= {"floor": record.floor, **context.options, **context.factors, "id": record.id}
    return {name: _level(value) for name, value in known.items() if value is not None}


def _options_of(record: Record) -> dict[tuple[str, str], str]:
    """Maps blocks and methods, with their options that are no defaults, to levels."""
    options = dict[tuple[str, str], object]()
    for block, own in record.context.blocks.items():
        options |= {(block, name): option for name, option in own.items()}
    for method, result in record.methods.items():
        options |= {(method, f"{method} {name}"): of for name, of in result.options.items()}
    return {key: _level(value) for key, value in options.items()}


def _level(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@dataclass(frozen=True, eq=False)
class Frame:
    """Results of some contexts: a line per context and method, with its answers to the rows.

    Attributes:
        records: the contexts, tasks in the order of `TASKS`, seeds ascending.
        known: the factors of each context in a larger frame, or None.
    """

    records: list[Record]
    known: list[Factors] | None = None

    @cached_property
    def factors(self) -> list[Factors]:
        """The factors of each context; a level that is missing in some contexts is filled in."""
        if self.known is not None:
            return self.known
        known = [factors_of(record) for record in self.records]
        names = dict.fromkeys(chain.from_iterable(known))
        filled = {name: UNCHANGED.get(name, "own") for name in names}
        options = [_options_of(record) for record in self.records]
        owners = [{*record.methods, *record.context.blocks} for record in self.records]
        for key in dict.fromkeys(chain.from_iterable(options)):
            owner, name = key
            for of_context, has in zip(options, owners, strict=True):
                if owner in has:
                    of_context.setdefault(key, "own")
            levels = {of_context[key] for of_context in options if key in of_context}
            # A context without the block or method has no level of its own.
            filled[name] = "none" if len(levels) > 1 else next(iter(levels))
        rows = []
        for of_context, factors in zip(options, known, strict=True):
            # Of several blocks the first one with the option decides.
            own = {name: level for (_, name), level in reversed(of_context.items())}
            rows.append({**filled, **own, **factors})
        return rows

    @cached_property
    def varying(self) -> list[str]:
        """The factors that distinguish the contexts, in the order of their names and tables.

        A factor with the same values as an earlier one, under other names, is left out.
        """
        names = sorted(self.factors[0], key=_rank)
        kept = dict[str, tuple[int, ...]]()
        for name in names:
            is_told_apart = name in ASIDE and len({*zip(*kept.values(), strict=True)}) == len(self)
            column = [factors[name] for factors in self.factors]
            places = {level: place for place, level in enumerate(dict.fromkeys(column))}
            partition = tuple(places[level] for level in column)
            if len(places) > 1 and not is_told_apart and partition not in kept.values():
                kept[name] = partition
        # Several columns of a file that make up the task are shown in its place.
        columns = [name for name in self.records[0].context.factors if name in kept]
        joint = zip(*(kept[name] for name in columns if name != "task"), strict=True)
        if "task" in kept and len(columns) > 2 and len({*joint}) == len({*kept["task"]}):
            del kept["task"]
        return sorted(kept, key=lambda name: (name in ASIDE, _rank(name)))

    def __len__(self) -> int:
        """Returns the number of contexts."""
        return len(self.records)

    @property
    def names(self) -> list[str]:
        """The name of each context: the factors in which these contexts differ."""
        names = [", ".join(self.words(factors)) for factors in self.factors]
        return names if any(names) else [self.heading]

    def words(self, factors: Factors) -> list[str]:
        """Describes the levels of the varying factors: "SST-2", "4-shot", "template 2"."""
        return [word_of(name, factors[name]) for name in self.varying]

    @property
    def heading(self) -> str:
        """The levels that all contexts share, for titles: "mini, SST-2, 1-shot, 200 rows"."""
        shared = self._shared
        names = filter(shared.get, ("model", "task", "shots", "split"))
        shown = [word_of(name, shared[name]) for name in names]
        if (limit := shared.get("limit", "all")) != "all":
            shown.append(f"{limit} rows")
        return ", ".join(shown) or "scores"

    @cached_property
    def _shared(self) -> Factors:
        common = set[tuple[str, str]](self.factors[0].items())
        common.intersection_update(*(factors.items() for factors in self.factors))
        return {name: level for name, level in self.factors[0].items() if (name, level) in common}

    @property
    def options(self) -> str:
        """The options that all contexts share and that are no defaults, for notes; else ""."""
        shown = []
        for name, level in self._shared.items():
            if name not in OF_HEADING and level != UNCHANGED.get(name, "own"):
                shown.append(shorten(word_of(name, level), MAX_WORD, placeholder=" …"))
        return f"In all contexts: {', '.join(shown)}." if shown else ""

    @property
    def scope(self) -> str:
        """The numbers of levels of the varying factors: "2 tasks × shots 0, 1 × 2 seeds"."""
        counts = []
        for name in self.varying:
            levels, plural = self.levels(name), f"{factor_name(name).removesuffix('s')}s"
            # "3 shots" would be three demonstrations.
            listed = f"shots {', '.join(levels)}"
            counts.append(listed if name == "shots" else f"{len(levels):,} {plural}")
        return " × ".join(counts)

    def levels(self, name: str) -> list[str]:
        """The levels of a factor: tasks in the order of `TASKS`, numbers by size."""
        known = dict.fromkeys(factors[name] for factors in self.factors)
        return sorted(known, key=lambda level: _rank_level(name, level))

    def by(self, *names: str) -> "dict[tuple[str, ...], Frame]":
        """Groups the contexts by the levels of some factors."""
        groups = dict[tuple[str, ...], list[int]]()
        for place, factors in enumerate(self.factors):
            groups.setdefault(_levels_of(factors, names), []).append(place)

        def rank(levels: tuple[str, ...]) -> list[tuple[float, str]]:
            return [_rank_level(name, level) for name, level in zip(names, levels, strict=True)]

        return {levels: self._take(groups[levels]) for levels in sorted(groups, key=rank)}

    def where(self, **levels: str) -> "Frame":
        """Selects the contexts with these levels; a factor that no context has matches ""."""
        wanted, factors = tuple(levels.values()), self.factors
        return self._take([i for i, of in enumerate(factors) if _levels_of(of, levels) == wanted])

    def _take(self, places: Iterable[int]) -> "Frame":
        # A part keeps the levels that are filled in by contexts of other parts.
        rows = [(self.records[place], self.factors[place]) for place in places]
        return Frame([record for record, _ in rows], [factors for _, factors in rows])

    def matched(self, name: str) -> "Matched":
        """Selects the contexts that differ in one factor only, for a fair comparison of its levels.

        The levels and the combinations of the other factors are chosen so that every combination
        has every level. Many levels count more than many combinations (levels² x combinations),
        and a task is left out only if no combination has it with the others.
        """
        # Seeds are draws of demonstrations, which prompts without demonstrations lack.
        others = [other for other in self.varying if other not in (name, "seed")]
        levels_of = {key: frozenset(part.levels(name)) for key, part in self.by(*others).items()}
        several = [levels for levels in dict.fromkeys(levels_of.values()) if len(levels) > 1]
        if not several:
            return Matched(self, len(self.levels(name)) < 2)

        def rank(levels: frozenset[str]) -> tuple[int, int]:
            count = sum(levels <= of_part for of_part in levels_of.values())
            return len(levels) if name == "task" else 0, len(levels) ** 2 * count

        best = max(several, key=rank)
        kept = []
        for place, factors in enumerate(self.factors):
            if factors[name] in best and best <= levels_of[_levels_of(factors, others)]:
                kept.append(place)
        return Matched(self._take(kept), True)

    @cached_property
    def board(self) -> "Frame":
        """The contexts of headlines: the same combinations of factors on each task.

        All contexts if fewer than half of them can be matched.
        """
        matched = self.matched("task").frame if "task" in self.varying else self
        return matched if 2 * len(matched) >= len(self) else self

    # Tables and figures ask for these again and again.
    @cached_property
    def tasks(self) -> "dict[str, Frame]":
        """The contexts by task."""
        return {task: part for (task,), part in self.by("task").items()}

    @cached_property
    def methods(self) -> list[str]:
        """Methods that every context has, in the order of the table of methods."""
        return [name for name in self.some_methods if self.has(name)]

    @cached_property
    def some_methods(self) -> list[str]:
        """Methods that some context has, in the order of the table of methods."""
        known = set[str]().union(*(record.methods for record in self.records))
        return list(filter(known.__contains__, METHODS))

    def has(self, method: str) -> bool:
        """Checks whether every context has the method."""
        return all(method in record.methods for record in self.records)

    @cached_property
    def compared(self) -> list[str]:
        """Methods with a known gain over ICL: both have the answers to each row."""
        known = list(filter(self._is_judged, self.methods))
        return known[1:] if BASELINE in known else []

    def _is_judged(self, method: str) -> bool:
        return all(record.methods[method].right for record in self.records)

    def among(self, names: Sequence[str]) -> list[str]:
        """Returns the methods of these names that every context has."""
        return list(filter(names.__contains__, self.methods))

    @property
    def has_references(self) -> bool:
        """True if the gain of BC over ICL is known."""
        return CORRECTED in self.compared

    @property
    def draws(self) -> int:
        """The largest number of contexts of a task."""
        return max(map(len, self.tasks.values()))

    def values(self, method: str, metric: str = "accuracy") -> np.ndarray:
        """Returns a metric of one method, one value per context, [c]."""
        return np.array([record.methods[method].metrics[metric] for record in self.records])

    def average(self, method: str, metric: str = "accuracy") -> float:
        """Returns the mean over tasks of the mean over a task's contexts."""
        return float(np.mean([task.values(method, metric).mean() for task in self.tasks.values()]))

    def right(self, method: str) -> list[np.ndarray]:
        """Returns the labeled rows [n] of each context, 1.0 where the method is right."""
        packed = [(record.methods[method].right, sum(record.classes)) for record in self.records]
        return [_answers(text, rows) for text, rows in packed]

    def accuracy(self, method: str) -> Estimate:
        """Estimates the mean accuracy over tasks."""
        return over_tasks([task_accuracy(task, method) for task in self.tasks.values()])

    def gains(self, method: str) -> dict[str, Estimate]:
        """Estimates the gain over ICL on each task."""
        return {name: gain(task, method) for name, task in self.tasks.items()}

    def gain(self, method: str) -> Estimate:
        """Estimates the mean gain over ICL over tasks."""
        return over_tasks([*self.gains(method).values()])

    def changes(self, method: str) -> bool:
        """Checks whether the method turns any row right or wrong."""
        texts = [(r.methods[method].right, r.methods[BASELINE].right) for r in self.records]
        return any(after != before for after, before in texts)


class Matched(NamedTuple):
    """Contexts in which the levels of a factor can be compared.

    Attributes:
        frame: the contexts.
        is_fair: False if contexts with different levels differ in other factors, too.
    """

    frame: Frame
    is_fair: bool


def _levels_of(factors: Factors, names: Iterable[str]) -> tuple[str, ...]:
    return tuple([factors.get(name, "") for name in names])


def _rank(name: str) -> tuple[float, str]:
    """Ranks a factor for names and tables: `ORDER`, with other factors before the shots."""
    if name in ASIDE:
        return len(ORDER) + ASIDE.index(name), ""
    place = ORDER.index(name) if name in ORDER else ORDER.index("shots") - 0.5
    return place, name


def _rank_level(name: str, level: str) -> tuple[float, str]:
    if name == "task":
        return position(level), level
    try:
        return float(level), ""
    except ValueError:
        # Words before numbers: the default level comes first.
        return -np.inf, level


@lru_cache(maxsize=65536)
def _answers(packed: str, rows: int) -> np.ndarray:
    return unpack(packed, rows).astype(np.float64)


def factor_name(name: str) -> str:
    """Returns the name of a factor for readers.

    >>> factor_name("over_long")
    'over long'
    """
    return name.replace("_", " ")


def word_of(name: str, level: str) -> str:
    """Describes a level of a factor.

    >>> word_of("task", "sst2"), word_of("shots", "4"), word_of("label_words", "own")
    ('SST-2', '4-shot', 'own label words')
    """
    if name == "shots" and level.isdigit():
        return f"{level}-shot"
    if name == "split":
        return level.replace(" (", " split (") if " (" in level else f"{level} split"
    if name in ("task", "model"):
        return level_title(name, level)
    named = factor_name(name)
    return f"own {named}" if level == "own" else f"{named} {level}"


def level_title(name: str, level: str) -> str:
    """Returns a level as tables show it."""
    if name == "task":
        return task_title(level)
    return level or f"unnamed {name}"


def task_accuracy(frame: Frame, method: str) -> Estimate:
    """Estimates the accuracy on one task; a single context keeps the interval of its record."""
    if len(frame) > 1:
        return _mean_over_contexts(frame, method, "")
    metrics = frame.records[0].methods[method].metrics
    return Estimate(metrics["accuracy"], metrics["accuracy_low"], metrics["accuracy_high"])


def gain(frame: Frame, method: str) -> Estimate:
    """Estimates the accuracy on one task minus ICL's on the same rows, mean over contexts."""
    return _mean_over_contexts(frame, method, BASELINE)


# Tables, figures and sentences ask for the same number several times.
@lru_cache(maxsize=32768)
def _mean_over_contexts(frame: Frame, method: str, reference: str) -> Estimate:
    prompts, seeds = [name for name in frame.varying if name != "seed"], len(frame.by("seed"))
    ordered = Frame([part.records[0] for part in frame.by(*prompts, "seed").values()])
    contexts, added = ordered.right(method), OF_GAIN if reference else OF_ACCURACY
    if reference:
        pairs = zip(contexts, ordered.right(reference), strict=True)
        contexts = [after - before for after, before in pairs]
    if len(set(map(len, contexts))) == 1:
        outcomes, of_prompts = np.array(contexts), len(frame.by(*prompts))
        is_crossed = of_prompts > 1 and seeds >= FEWEST_SEEDS and of_prompts * seeds == len(frame)
        if reference and is_crossed:
            # Prompts share the draws of the seeds, so this error does not shrink with their number.
            return gain_over_prompts(outcomes.reshape(of_prompts, seeds, -1))
        return over_rows(outcomes, added)
    # Contexts with different numbers of rows share no rows.
    return over_tasks([over_rows(rows[None], added) for rows in contexts])


def gains_of_rows(record: Record, method: str = CORRECTED) -> np.ndarray | None:
    """Returns 1 for each labeled row that turns right, -1 for each that turns wrong, else 0, [n].

    None if the answers of the method or of icl are not known.
    """
    results = [record.methods.get(name) for name in (method, BASELINE)]
    known = [result.right for result in results if result and result.right]
    if len(known) < len(results):
        return None
    after, before = (_answers(right, sum(record.classes)) for right in known)
    gains: np.ndarray = after - before
    return gains


def learned_tasks(frame: Frame) -> list[str]:
    """Finds the tasks on which the better of icl and bc is clearly above chance.

    The mean over contexts is `LEARNED_MARGIN` points above 100 % / number of labels, and its 95 %
    interval is above that and above the share of the most frequent label. Each of the two methods
    passes by luck with probability 1/40. No task counts as learned without icl and bc.
    """
    tasks = frame.tasks if frame.has_references else {}
    return [name for name, task in tasks.items() if _is_learned(task)]


def _is_learned(task: Frame) -> bool:
    chance = 1 / len(task.records[0].label_names)
    means = [task.values(method).mean() for method in REFERENCES]
    better = int(np.argmax(means))
    # Rounded, so that 60 % of two labels counts in spite of the last bit.
    above = round(float(100 * (means[better] - chance)), 6)
    low = task_accuracy(task, REFERENCES[better]).low
    frequent = max(max(record.classes) / sum(record.classes) for record in task.records)
    return above >= LEARNED_MARGIN and low > max(chance, frequent)


def group_by(
    items: Iterable[Member], key: Callable[[Member], GroupKey]
) -> dict[GroupKey, list[Member]]:
    """Groups items by a key, in the order of the items.

    >>> group_by(["a", "bc", "d"], len)
    {1: ['a', 'd'], 2: ['bc']}
    """
    groups: dict[GroupKey, list[Member]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def split_studies(records: Iterable[Record]) -> list[Frame]:
    """Splits records into studies: contexts that are connected by a common model or task.

    Contexts of other models on other tasks cannot be compared. Studies of one context are joined.

    Raises:
        InputError: two records have equal factors, for instance after a change of the data.
    """
    whole = Frame(sort_records(records))
    _refuse_twins(whole)
    groups: list[tuple[set[str], list[Record]]] = []
    for factors, record in zip(whole.factors, whole.records, strict=True):
        keys, members = {f"model {factors['model']}", f"task {factors['task']}"}, [record]
        apart = []
        for group in groups:
            if keys & group[0]:
                keys, members = keys | group[0], [*group[1], *members]
            else:
                apart.append(group)
        groups = [*apart, (keys, members)]
    studies = [members for _, members in groups]
    single = list(chain.from_iterable(members for members in studies if len(members) == 1))
    studies = [members for members in studies if len(members) > 1] + [single] * bool(single)
    frames = [Frame(sort_records(members)) for members in studies]
    return sorted(frames, key=lambda frame: min(map(position, frame.tasks)))


def _refuse_twins(frame: Frame) -> None:
    seen = set[tuple[tuple[str, str], ...]]()
    for factors in frame.factors:
        key = tuple(sorted((name, level) for name, level in factors.items() if name != "id"))
        if key in seen:
            subject = ", ".join(filter(None, (factors["task"], f"seed {factors.get('seed', '')}")))
            where = f"workdir, {factors['model']} on {subject}"
            expected = "one record of each context"
            got = "two records with the same factors, perhaps from before and after a change of "
            raise InputError.at(where, expected, f"{got}the data", "keep them in separate workdirs")
        seen.add(key)


def position(task: str) -> int:
    """Returns the place of a task in `TASKS`; other tasks follow."""
    return [*TASKS, task].index(task)


def sort_records(records: Iterable[Record]) -> list[Record]:
    """Sorts contexts: tasks in the order of `TASKS`, seeds ascending."""

    def rank(record: Record) -> tuple[int, str, int]:
        task = record.context.factors.get("task", record.context.task)
        seed = record.context.seed
        return position(task), task, -1 if seed is None else seed

    return sorted(records, key=rank)


def task_title(task: str) -> str:
    """Returns a task's name as papers print it."""
    return TASKS[task].title if task in TASKS else task


def context_title(task: str, seed: int | None) -> str:
    """Returns the task and its seed, if it has one: "SST-2, seed 0"."""
    return ", ".join(filter(None, (task_title(task), "" if seed is None else f"seed {seed}")))

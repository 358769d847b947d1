"""What methods gain over ICL, each number with its interval, and which gains exceed noise."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from batch_calibration.artifacts.cells import Best, Cells, named, plain_csv, tested
from batch_calibration.artifacts.grouping import BASELINE, SettingRecords, title
from batch_calibration.metrics import OF_ACCURACY, OF_GAIN, Estimate, over_rows, over_tasks
from batch_calibration.store import Record, unpack

MARK = "*"
"""What stands behind a gain or a loss that exceeds noise."""
SUMMARY = 2
"""Rows at the end of a table of gains that sum up the others."""
WINS = "wins, ties, losses"
"""The name of what `verdicts` says."""
FEW = 200
"""Test rows; of fewer, an accuracy near one half is known to 7 points at best."""
Packed = tuple[tuple[str, int], ...]
"""Of each context which rows are right, as a record holds it, and how many these are."""


def seeds(group: SettingRecords) -> int:
    """The most draws of demonstrations that a task has."""
    return max(len(records) for records in group.records.values())


def note(group: SettingRecords) -> str:
    """The sentences below a table of gains: what its intervals hold, and which rows are few."""
    fewest, most = min(map(len, group.records.values())), seeds(group)
    draws = " to ".join(dict.fromkeys((str(fewest), str(most))))
    over = (
        f"over the draws of demonstrations ({draws} a task) and over the test rows, which are the "
        "same in all draws: more draws make a small test set no larger"
        if most > 1
        else "over the test rows alone"
        + (": one draw of demonstrations says nothing of others" if group.setting.shots else "")
    )
    return (
        f"A gain is paired: on the same rows, how many more are right than with {BASELINE}. In "
        f"brackets its 95 % interval {over}. {MARK} beyond noise: 0 is outside it; of 20 methods "
        f"that change nothing, about one is marked. '{WINS}' counts tasks whose interval is above "
        f"0, holds 0, is below 0.{_few(group)} Averages are over these tasks and say nothing of "
        "others."
    )


def _few(group: SettingRecords) -> str:
    """The tasks with few test rows, by name."""
    rows = {task: sum(records[0].classes) for task, records in group.records.items()}
    few = [f"{title(task)} ({n})" for task, n in rows.items() if n < FEW]
    return f" Few test rows, so wide intervals: {', '.join(few)}." if few else ""


def accuracy(group: SettingRecords, task: str, method: str) -> Estimate:
    """The accuracy on a task, mean over seeds; of one seed the interval of its record."""
    records = group.records[task]
    if len(records) == 1:
        found = records[0].methods[method]
        return Estimate(*(found[f"accuracy{end}"] for end in ("", "_low", "_high")))
    return _over(_packed(records, method))


def gain(group: SettingRecords, task: str, method: str) -> Estimate:
    """The accuracy on a task less ICL's on the same rows, mean over seeds."""
    return of(group.records[task], method)


def of(records: Sequence[Record], method: str) -> Estimate:
    """The accuracy in some contexts of one task less ICL's, mean over the contexts."""
    return _over(_packed(records, method), _packed(records, BASELINE))


def compared(group: SettingRecords, methods: Sequence[str]) -> list[str]:
    """Of these methods, those whose gain over ICL is known."""
    known = {name for name in group.methods if all(name in one.right for one in group.every)}
    return [name for name in methods if name != BASELINE and {name, BASELINE} <= known]


def gain_cells(group: SettingRecords, methods: Sequence[str]) -> Cells:
    """Header, one row a task, their average, and on how many tasks a method wins and loses."""
    rows: Cells = [["task", "rows", *methods]]
    found = {m: [gain(group, task, m) for task in group.records] for m in methods}
    for place, (task, records) in enumerate(group.records.items()):
        cells = [marked(found[method][place]) for method in methods]
        rows.append([named(task, records), tested(records), *cells])
    rows.append(["average", "", *(marked(over_tasks(found[method])) for method in methods)])
    return [*rows, [WINS, "", *(said(verdicts(found[method])) for method in methods)]]


def overview_cells(group: SettingRecords) -> Cells:
    """A row a method: accuracy and gain, averages over the tasks, and tasks gained and lost."""
    rows: Cells = [["method", "accuracy", "gain over icl", WINS]]
    methods = [BASELINE, *compared(group, group.methods)]
    means = {m: over_tasks([accuracy(group, task, m) for task in group.records]) for m in methods}
    best = max(round(100 * one.value, 1) for one in means.values())
    for name, one in means.items():
        cell = Best(one) if round(100 * one.value, 1) == best else str(one)
        each = [gain(group, task, name) for task in group.records]
        against = [marked(over_tasks(each)), said(verdicts(each))]
        rows.append([name, cell, *(against if name != BASELINE else ["", ""])])
    return rows


def overview_csv(group: SettingRecords) -> str:
    """One line per task and method, and of all tasks: accuracy and gain, 0 to 1, and their ends."""
    rows: Cells = [["task", "method", "metric", "value", "low", "high"]]
    methods = compared(group, group.methods)
    for metric, of, names in (
        ("accuracy", accuracy, [BASELINE, *methods]),
        ("gain", gain, methods),
    ):
        for name in names:
            each = {task: of(group, task, name) for task in group.records}
            each["average"] = over_tasks(list(each.values()))
            rows += [[task, name, metric, *(f"{x:.6g}" for x in one)] for task, one in each.items()]
    return plain_csv(rows)


def right(records: Iterable[Record], method: str) -> list[np.ndarray]:
    """Of each context the labeled rows [n], 1.0 where one is right."""
    return [_hits(*one) for one in _packed(records, method)]


def _packed(records: Iterable[Record], method: str) -> Packed:
    return tuple((record.right[method], sum(record.classes)) for record in records)


def _hits(text: str, rows: int) -> np.ndarray:
    return unpack(text, rows).astype(np.float64)


# Tables, figures and paragraphs ask for the same number several times.
@lru_cache(maxsize=4096)
def _over(after: Packed, before: Packed = ()) -> Estimate:
    """The mean over contexts of what is right, or of this less what was right before."""
    added = OF_GAIN if before else OF_ACCURACY
    seeds = [_hits(*one) for one in after]
    if before:
        seeds = [one - _hits(*other) for one, other in zip(seeds, before, strict=True)]
    if len({len(rows) for rows in seeds}) == 1:
        return over_rows(np.array(seeds), added)
    # Seeds that have unlike rows, as where images are unreadable, have no row in common.
    return over_tasks([over_rows(rows[None], added) for rows in seeds])


def marked(one: Estimate) -> str:
    """A gain with its interval, and the mark where it exceeds noise."""
    return one.points + MARK * abs(one.beyond_noise)


def verdicts(each: Iterable[Estimate]) -> tuple[int, int, int]:
    """How many are above noise, within it, below it."""
    signs = [one.beyond_noise for one in each]
    return signs.count(1), signs.count(0), signs.count(-1)


def said(counts: Sequence[int]) -> str:
    """The counts as a cell."""
    return ", ".join(map(str, counts))


def counted(each: Sequence[Estimate]) -> list[str]:
    """How many gain and lose, and how many of these by more than noise."""
    gained, lost = sum(one.value > 0 for one in each), sum(one.value < 0 for one in each)
    signs = [one.beyond_noise for one in each]
    return [f"{gained}, {lost}", f"{signs.count(1)}, {signs.count(-1)}"]

"""What methods gain over ICL, each with its interval; which gains exceed noise; tasks learned."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from batch_calibration.metrics import OF_ACCURACY, OF_GAIN, Estimate, over_rows, over_tasks
from batch_calibration.reporting.cells import LEARNED, Cell, estimate_cell
from batch_calibration.reporting.grouping import BASELINE, REFERENCES, SettingRecords, task_title
from batch_calibration.studies import Record, unpack

MARK = "*"  # stands behind a gain or a loss that exceeds noise
WINS = "wins, ties, losses"  # the name of what `count_verdicts` counts
MIN_TEST_ROWS = 200  # of fewer test rows, an accuracy near one half is known to 7 points at best
LEARNED_MARGIN = 10.0  # points above chance
# Of each context which rows are right, as a record holds it, and how many these are.
Packed = tuple[tuple[str, int], ...]


def max_seeds(group: SettingRecords) -> int:
    """The most draws of demonstrations that a task has."""
    return max(map(len, group.records.values()))


def note(group: SettingRecords) -> str:
    """The sentences below a table of gains: what its intervals hold, and which rows are few."""
    fewest, most = min(map(len, group.records.values())), max_seeds(group)
    draws = " to ".join(dict.fromkeys((str(fewest), str(most))))
    over = "over the test rows alone"
    if most > 1:
        over = (
            f"over the draws of demonstrations ({draws} a task) and over the test rows, which are "
            "the same in all draws: more draws make a small test set no larger"
        )
    elif group.setting.shots:
        over += ": one draw of demonstrations says nothing of others"
    rows = {task: sum(records[0].classes) for task, records in group.records.items()}
    small = [f"{task_title(task)} ({rows[task]})" for task in rows if rows[task] < MIN_TEST_ROWS]
    few_rows = f" Few test rows, so wide intervals: {', '.join(small)}." if small else ""
    return (
        f"A gain is paired: on the same rows, how many more are right than with {BASELINE}. In "
        f"brackets its 95 % interval {over}. {MARK} beyond noise: 0 is outside it; of 20 methods "
        f"that change nothing, about one is marked. '{WINS}' counts tasks whose interval is above "
        f"0, holds 0, is below 0.{few_rows} Averages are over these tasks and say nothing of "
        "others."
    )


def accuracy(group: SettingRecords, task: str, method: str) -> Estimate:
    """The accuracy on a task, mean over seeds; of one seed the interval of its record."""
    records = group.records[task]
    if len(records) == 1:
        metrics = records[0].methods[method]
        return Estimate(metrics["accuracy"], metrics["accuracy_low"], metrics["accuracy_high"])
    return _mean_over_contexts(_packed(records, method))


def mean_accuracy(group: SettingRecords, method: str) -> Estimate:
    """The accuracy of a method, mean over the tasks."""
    return over_tasks([accuracy(group, task, method) for task in group.records])


def gain(group: SettingRecords, task: str, method: str) -> Estimate:
    """The accuracy on a task less ICL's on the same rows, mean over seeds."""
    return gain_over_contexts(group.records[task], method)


def gain_by_task(group: SettingRecords, method: str) -> dict[str, Estimate]:
    """The gain over ICL on each task."""
    return {task: gain(group, task, method) for task in group.records}


def gain_over_contexts(records: Sequence[Record], method: str) -> Estimate:
    """The accuracy in some contexts of one task less ICL's, mean over the contexts."""
    return _mean_over_contexts(_packed(records, method), _packed(records, BASELINE))


def compared(group: SettingRecords, methods: Sequence[str]) -> list[str]:
    """Of these methods, those whose gain over ICL is known."""
    judged = group.judged - {BASELINE} if BASELINE in group.judged else frozenset()
    return list(filter(judged.__contains__, methods))


def right_rows(records: Iterable[Record], method: str) -> list[np.ndarray]:
    """Of each context the labeled rows [n], 1.0 where one is right."""
    return [_unpacked(*packed) for packed in _packed(records, method)]


def _packed(records: Iterable[Record], method: str) -> Packed:
    return tuple((record.right[method], sum(record.classes)) for record in records)


def _unpacked(text: str, rows: int) -> np.ndarray:
    return unpack(text, rows).astype(np.float64)


# Tables, figures and paragraphs ask for the same number several times.
@lru_cache(maxsize=4096)
def _mean_over_contexts(after: Packed, before: Packed = ()) -> Estimate:
    """The mean over contexts of what is right, or of this less what was right before."""
    added = OF_GAIN if before else OF_ACCURACY
    seeds = [_unpacked(*packed) for packed in after]  # [n] each
    for rows, packed in zip(seeds, before, strict=False):
        rows -= _unpacked(*packed)
    if len(set(map(len, seeds))) == 1:
        return over_rows(np.array(seeds), added)
    # Seeds that have unlike rows, as where images are unreadable, have no row in common.
    return over_tasks([over_rows(rows[None], added) for rows in seeds])


def gain_cell(gain: Estimate | None) -> Cell:
    """A gain with its interval, and the mark where it exceeds noise; a dash of an unknown one."""
    return estimate_cell(gain, MARK * abs(gain.beyond_noise)) if gain else Cell("-")


def verdicts(gains: Iterable[Estimate]) -> tuple[int, int, int]:
    """How many are above noise, within it, below it."""
    signs = [gain.beyond_noise for gain in gains]
    return signs.count(1), signs.count(0), signs.count(-1)


def count_verdicts(gains: Iterable[Estimate]) -> str:
    """The same as a cell."""
    return ", ".join(map(str, verdicts(gains)))


def count_signs(gains: Sequence[Estimate]) -> list[str]:
    """How many gain and lose, and how many of these by more than noise."""
    differences = np.array([gain.value for gain in gains])
    above, _, below = verdicts(gains)
    return [f"{(differences > 0).sum()}, {(differences < 0).sum()}", f"{above}, {below}"]


def learned_tasks(group: SettingRecords) -> list[str]:
    """Tasks where the better of icl and bc, mean over the seeds, is clearly above chance.

    `LEARNED_MARGIN` points above 100 % / number of labels, and its 95 % interval over seeds and
    rows above that and above the share of the most frequent label. Each of the two has one chance
    in 40 to pass by luck. Nothing is learned where icl or bc was not run.
    """
    if not compared(group, REFERENCES):
        return []
    return [task for task in group.records if _is_learned(group, task)]


def _is_learned(group: SettingRecords, task: str) -> bool:
    records = group.records[task]
    chance = 1 / len(records[0].label_names)
    means = [group.values(task, method).mean() for method in REFERENCES]
    better = int(np.argmax(means))
    # Rounded: 60 % of two labels is learned, whatever the last bit says.
    above = round(float(100 * (means[better] - chance)), 6)
    low = accuracy(group, task, REFERENCES[better]).low
    frequent = max(max(record.classes) / sum(record.classes) for record in records)
    return above >= LEARNED_MARGIN and low > max(chance, frequent)


def learned_note(group: SettingRecords) -> str:
    """The sentence under a table of marked tasks; nothing where none can be marked."""
    if not compared(group, REFERENCES):
        return ""
    return (
        f"{LEARNED} learned ({len(learned_tasks(group))} of {len(group.records)}): the better of "
        f"icl and bc, mean over seeds, is {LEARNED_MARGIN:.0f} points or more above chance (100 % "
        "/ number of labels), and its 95 % interval over seeds and rows excludes chance and the "
        "share of the most frequent label, which are below it."
    )

"""Says how much a model reads in its demonstrations: a table, a verdict, a paragraph."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.controls import (
    FLIPPED,
    GOLD,
    NEW,
    NEW_FLIPPED,
    NONE,
    Control,
    Point,
)
from batch_calibration.artifacts.grouping import BASELINE, CORRECTED, REFERENCES, joined, title
from batch_calibration.metrics import Estimate, over_tasks

COLORS = {
    NONE: "#7f7f7f", GOLD: "#1f77c4", "random": "#a87900", FLIPPED: "#d55e00",
    "training words": "#2e8fc7", NEW: "#00936b", NEW_FLIPPED: "#b3659a",
}  # fmt: skip
"""A color a condition, of enough contrast with light and dark pages; others have the library's."""
LITTLE = 0.1
"""What flipped labels cost a model that reads them is far more."""
UNKNOWN = "cannot be told, for seeds or rows are too few"
AGAINST = {GOLD: FLIPPED, NEW: NEW_FLIPPED}
"""Conditions, and the one that differs from each in that the labels are flipped."""
NOTE = (
    f"Accuracy against the rows' own labels, mean over seeds. '{NONE}': no demonstrations; "
    f"'{FLIPPED}': each is shown with the next label, so that a model that reads them falls below "
    "chance; 'words': drawn words in place of the label words, in demonstrations and in what is "
    "scored, which a model may prefer for what they mean: flipping the labels tells that from "
    "reading. In the verdict means over tasks and shots. In brackets 95 % intervals over the draws "
    f"of demonstrations and the test rows, {gains.MARK} where 0 is outside; the CSV has the "
    "interval of every number."
)
"""The sentences below the table."""
DIFFERENCES = (
    "'bc - icl': accuracy with bc less that with icl on the same prompts. 'icl' and 'bc': accuracy "
    "with the most shots less that with the fewest, of the same words. In points, with 95 % "
    f"intervals over the draws of demonstrations and the test rows; {gains.MARK} where 0 is "
    "outside."
)
"""The sentences below the table of differences."""
LIKELIER = (
    "A row is right where the answer is the likelier label of its text by the suite's grammar, "
    "not the label that was drawn for it. "
)
"""What stands before the note of the table against the likelier label."""


def accuracy_cells(control: Control) -> Cells:
    """Header, and a row for each task, number of shots and method: accuracy in %, differences."""
    conditions = control.conditions
    against = {a: b for a, b in AGAINST.items() if {a, b} <= {*conditions}}
    rows: Cells = [["task", "shots", "method", "chance", *conditions]]
    rows[0] += [f"{a} - flipped" for a in against]
    for task, shots, method in _rows(control):
        points = [Point(task, shots, name, method) for name in conditions]
        means = [control.accuracy(point) for point in points]
        cells = [f"{100 * one.value:.1f}" if one else "-" for one in means]
        differ = [
            control.difference([Point(task, shots, a, method)], b) for a, b in against.items()
        ]
        sure = [gains.marked(one) if one else "-" for one in differ]
        chance = f"{100 * control.chance(task):.1f}"
        rows.append([title(task), str(shots), method, chance, *cells, *sure])
    return rows


def difference_cells(control: Control) -> Cells:
    """Header; for each task, and all, gains of bc over icl, and what is gained by more shots."""
    rows: Cells = [["task", "difference", *control.conditions]]
    groups = [(title(task), [task]) for task in control.tasks]
    if len(groups) > 1:
        groups.append(("average", control.tasks))
    for name, tasks in groups:
        shots = sorted(set.intersection(*(set(control.shots(task)) for task in tasks)))
        for n in shots:
            each = [
                [control.gain(Point(task, n, condition, CORRECTED)) for task in tasks]
                for condition in control.conditions
            ]
            rows.append([name, f"bc - icl, {n} shot{'s' * (n > 1)}", *map(_over, each)])
        for method in REFERENCES:
            each = [
                [control.rise(task, condition, method) for task in tasks]
                for condition in control.conditions
            ]
            if any(any(one) for one in each):
                ends = (
                    f"{shots[-1]} - {shots[0]} shots" if len(shots) > 1 else "most - fewest shots"
                )
                rows.append([name, f"{method}, {ends}", *map(_over, each)])
    return rows


def _over(each: Sequence[Estimate | None]) -> str:
    """The mean over tasks with its interval; a dash where one of them was not asked."""
    known = [one for one in each if one]
    if len(known) < len(each):
        return "-"
    return gains.marked(over_tasks(known) if len(known) > 1 else known[0])


def estimate_cells(control: Control) -> Cells:
    """Header, and a row an accuracy and a difference: its value in % and its interval's ends."""
    rows: Cells = [["task", "shots", "method", "condition", "value", "low", "high"]]
    for task, shots, method in _rows(control):
        points = {name: Point(task, shots, name, method) for name in control.conditions}
        found = {name: control.accuracy(point) for name, point in points.items()}
        for one, other in AGAINST.items():
            at = [Point(task, shots, one, method)]
            found[f"{one} - flipped"] = control.difference(at, other)
        for name, estimate in found.items():
            if estimate:
                ends = (f"{100 * x:.4g}" for x in estimate)
                rows.append([task, str(shots), method, name, *ends])
    return rows


def _rows(control: Control) -> Iterator[tuple[str, int, str]]:
    for task in control.tasks:
        for shots in control.shots(task):
            for method in REFERENCES:
                yield task, shots, method


class Reading(NamedTuple):
    """What tells whether demonstrations are read, task by task, over all numbers of shots.

    Attributes:
        labels: accuracy with gold labels less that with flipped ones.
        words: the same with held-out words for labels.
        flipped: accuracy with flipped labels less chance.
    """

    labels: dict[str, Estimate]
    words: dict[str, Estimate]
    flipped: dict[str, Estimate]

    @property
    def verdict(self) -> str:
        """Yes, partly, no, or `UNKNOWN`; nothing where no labels were flipped.

        Yes: on every task both `labels` and `words`, or the one that is there, are above 0 beyond
        noise. Partly: one of them is, on average over the tasks. No: both averages are surely
        below `LITTLE`.
        """
        asked = [list(one.values()) for one in (self.labels, self.words) if one]
        if not asked:
            return ""
        if all(one.beyond_noise > 0 for each in asked for one in each):
            return "yes"
        means = [over_tasks(each) for each in asked]
        if any(one.beyond_noise > 0 for one in means):
            return "partly"
        return "no" if all(one.high < LITTLE for one in means) else UNKNOWN


def reading(control: Control, method: str = CORRECTED) -> Reading:
    """What a method's answers tell; bc's by default, for a bias hides what a model has read."""
    found = Reading({}, {}, {})
    for task in control.tasks:
        gold, new, flipped = (
            [Point(task, shots, name, method) for shots in control.shots(task) if shots]
            for name in (GOLD, NEW, FLIPPED)
        )
        for each, one in (
            (found.labels, control.difference(gold, FLIPPED)),
            (found.words, control.difference(new, NEW_FLIPPED)),
            (found.flipped, control.above_chance(flipped)),
        ):
            if one:
                each[task] = one
    return found


def verdict(control: Control) -> str:
    """Whether the model reads its demonstrations, and by how much; nothing if that is unknown."""
    found, plain = reading(control), reading(control, BASELINE)
    if not found.verdict:
        return ""
    said = [f"Reads its demonstrations: {found.verdict}."]
    if found.labels:
        said.append(
            "Accuracy with gold labels less that with flipped ones: "
            f"{_means(found.labels, plain.labels)}, above 0 beyond noise on "
            f"{_count(found.labels, 1)}; with flipped ones it is below chance beyond noise on "
            f"{_count(found.flipped, -1)}."
        )
    if found.words:
        said.append(
            "The same where held-out words stand for the labels: "
            f"{_means(found.words, plain.words)}, above 0 beyond noise on "
            f"{_count(found.words, 1)}."
        )
    return " ".join(said)


def paragraph(control: Control) -> str:
    """The same with what was asked, for a page; nothing where the verdict is unknown."""
    said = verdict(control)
    shots = {n for task in control.tasks for n in control.shots(task) if n}
    return said and (
        f"{control.heading} ({joined(map(title, control.tasks))}; shots per class: "
        f"{joined(map(str, sorted(shots)))}). {said} Means over tasks and shots; in brackets 95 % "
        f"intervals over draws of demonstrations and test rows, {gains.MARK} where 0 is outside."
    )


def _means(corrected: dict[str, Estimate], plain: dict[str, Estimate]) -> str:
    bc, icl = (gains.marked(over_tasks(list(each.values()))) for each in (corrected, plain))
    return f"{bc} points with bc, {icl} with icl"


def _count(each: dict[str, Estimate], sign: int) -> str:
    """On how many tasks a number is beyond noise on one side of 0 with bc."""
    sure = sum(one.beyond_noise == sign for one in each.values())
    return f"{sure or 'none'} of {len(each)} task{'s' * (len(each) > 1)}"

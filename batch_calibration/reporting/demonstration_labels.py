"""Says how much a model reads in its demonstrations: a table, a verdict, a paragraph."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, product
from typing import NamedTuple

from batch_calibration.diagnosis.findings import join_names
from batch_calibration.metrics import Estimate, over_tasks
from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.controls import (
    FLIPPED,
    GOLD,
    NEW,
    NEW_FLIPPED,
    NONE,
    Control,
    Point,
)
from batch_calibration.reporting.gains import MARK, gain_cell
from batch_calibration.reporting.grouping import BASELINE, CORRECTED, REFERENCES, task_title

# Flipped labels cost a model that does not read them less; one that reads them far more.
MAX_DROP_UNREAD = 0.1
UNKNOWN = "cannot be told, for seeds or rows are too few"
# Conditions, and the one that differs from each in that the labels are flipped.
FLIPS = {GOLD: FLIPPED, NEW: NEW_FLIPPED}
# The sentences below the table.
NOTE = (
    f"Accuracy against the rows' own labels, mean over seeds. '{NONE}': no demonstrations; "
    f"'{FLIPPED}': each is shown with the next label, so that a model that reads them falls below "
    "chance; 'words': drawn words in place of the label words, in demonstrations and in what is "
    "scored, which a model may prefer for what they mean: flipping the labels tells that from "
    "reading. In the verdict means over tasks and shots. In brackets 95 % intervals over the draws "
    f"of demonstrations and the test rows, {MARK} where 0 is outside; the CSV has the interval of "
    "every number."
)
# The sentences below the table of differences.
DIFFERENCES_NOTE = (
    "'bc - icl': accuracy with bc less that with icl on the same prompts. 'icl' and 'bc': accuracy "
    "with the most shots less that with the fewest, of the same words. In points, with 95 % "
    f"intervals over the draws of demonstrations and the test rows; {MARK} where 0 is outside."
)
# What stands before the note of the table against the likelier label.
LIKELIER_NOTE = (
    "A row is right where the answer is the likelier label of its text by the suite's grammar, "
    "not the label that was drawn for it. "
)


def accuracy_cells(control: Control) -> Cells:
    """Header, and a row for each task, number of shots and method: accuracy in %, differences."""
    conditions = control.conditions
    flips = [f"{gold} - flipped" for gold in FLIPS if {gold, FLIPS[gold]} <= {*conditions}]
    rows: Cells = [["task", "shots", "method", "chance", *conditions, *flips]]
    for (task, shots, method), estimates in _estimates(control).items():
        means = [estimates[condition] for condition in conditions]
        shares = [f"{100 * mean.value:.1f}" if mean else "-" for mean in means]
        row = [task_title(task), str(shots), method, f"{100 * control.chance(task):.1f}", *shares]
        rows.append([*row, *(gain_cell(estimates[name]) for name in flips)])
    return rows


def estimate_cells(control: Control) -> Cells:
    """Header, and a row an accuracy and a difference: its value in % and its interval's ends."""
    rows: Cells = [["task", "shots", "method", "condition", "value", "low", "high"]]
    for (task, shots, method), estimates in _estimates(control).items():
        for name, estimate in estimates.items():
            if estimate:
                ends = (f"{100 * end:.4g}" for end in estimate)
                rows.append([task, str(shots), method, name, *ends])
    return rows


def _estimates(control: Control) -> dict[tuple[str, int, str], dict[str, Estimate | None]]:
    """Accuracy under each condition, and less that with flipped labels; None of what lacks."""
    rows = {}
    for task in control.tasks:
        for shots, method in product(control.shots(task), REFERENCES):
            estimates = {}
            for condition in control.conditions:
                estimates[condition] = control.accuracy(Point(task, shots, condition, method))
            for gold, flipped in FLIPS.items():
                point = Point(task, shots, gold, method)
                estimates[f"{gold} - flipped"] = control.difference([point], flipped)
            rows[task, shots, method] = estimates
    return rows


def difference_cells(control: Control) -> Cells:
    """Header; for each task, and all, gains of bc over icl, and what is gained by more shots."""
    rows: Cells = [["task", "difference", *control.conditions]]
    groups = [(task_title(task), [task]) for task in control.tasks]
    if len(groups) > 1:
        groups.append(("average", control.tasks))
    for name, tasks in groups:
        shots = sorted(set.intersection(*(set(control.shots(task)) for task in tasks)))
        ends = f"{shots[-1]} - {shots[0]} shots" if len(shots) > 1 else "most - fewest shots"
        measures: dict[str, Callable[[str, str], Estimate | None]] = {}
        for count in shots:
            measures[f"bc - icl, {count} shot{'s' * (count > 1)}"] = partial(control.gain, count)
        for method in REFERENCES:
            measures[f"{method}, {ends}"] = partial(control.rise, method)
        for words, measure in measures.items():
            columns = []
            for condition in control.conditions:
                differences = [measure(task, condition) for task in tasks]
                columns.append(differences)
            # Of one number of shots there is no rise.
            if any(chain.from_iterable(columns)):
                rows.append([name, words, *map(_mean_cell, columns)])
    return rows


def _mean_cell(differences: Sequence[Estimate | None]) -> str:
    """The mean over tasks with its interval; a dash where one of them was not asked."""
    estimates = list(filter(None, differences))
    if len(estimates) < len(differences):
        return "-"
    return gain_cell(over_tasks(estimates) if len(estimates) > 1 else estimates[0])


class Reading(NamedTuple):
    """What tells whether demonstrations are read, task by task, over all numbers of shots."""

    labels: dict[str, Estimate]  # accuracy with gold labels less that with flipped ones
    words: dict[str, Estimate]  # the same with held-out words for labels
    flipped: dict[str, Estimate]  # accuracy with flipped labels less chance

    @property
    def verdict(self) -> str:
        """Yes, partly, no, or `UNKNOWN`; nothing where no labels were flipped.

        Yes: on every task both `labels` and `words`, or the one that is there, are above 0 beyond
        noise. Partly: one of them is, on average over the tasks. No: both averages are surely
        below `MAX_DROP_UNREAD`.
        """
        tests = [list(drops.values()) for drops in (self.labels, self.words) if drops]
        if not tests:
            return ""
        if all(drop.beyond_noise > 0 for drop in chain.from_iterable(tests)):
            return "yes"
        means = list(map(over_tasks, tests))
        if any(mean.beyond_noise > 0 for mean in means):
            return "partly"
        return "no" if all(mean.high < MAX_DROP_UNREAD for mean in means) else UNKNOWN


def read_control(control: Control, method: str = CORRECTED) -> Reading:
    """What a method's answers tell; bc's by default, for a bias hides what a model has read."""
    reading = Reading({}, {}, {})
    for task in control.tasks:
        points = [Point(task, shots, GOLD, method) for shots in control.shots(task) if shots]
        with_words = [point._replace(condition=NEW) for point in points]
        flipped = [point._replace(condition=FLIPPED) for point in points]
        if drop := control.difference(points, FLIPPED):
            reading.labels[task] = drop
        if drop := control.difference(with_words, NEW_FLIPPED):
            reading.words[task] = drop
        if mean := control.accuracy(*flipped):
            reading.flipped[task] = Estimate(*(end - control.chance(task) for end in mean))
    return reading


def verdict(control: Control) -> str:
    """Whether the model reads its demonstrations, and by how much; nothing if that is unknown."""
    corrected, plain = read_control(control), read_control(control, BASELINE)
    if not corrected.verdict:
        return ""
    sentences = [f"Reads its demonstrations: {corrected.verdict}."]
    if corrected.labels:
        sentences.append(
            "Accuracy with gold labels less that with flipped ones: "
            f"{_means(corrected.labels, plain.labels)}, above 0 beyond noise on "
            f"{_count_signs(corrected.labels, 1)}; with flipped ones it is below chance beyond "
            f"noise on {_count_signs(corrected.flipped, -1)}."
        )
    if corrected.words:
        sentences.append(
            "The same where held-out words stand for the labels: "
            f"{_means(corrected.words, plain.words)}, above 0 beyond noise on "
            f"{_count_signs(corrected.words, 1)}."
        )
    return " ".join(sentences)


def paragraph(control: Control) -> str:
    """The same with what was asked, for a page; nothing where the verdict is unknown."""
    sentences = verdict(control)
    if not sentences:
        return ""
    shots = sorted(filter(None, set().union(*map(control.shots, control.tasks))))
    return (
        f"{control.heading} ({join_names(map(task_title, control.tasks))}; shots per class: "
        f"{join_names(map(str, shots))}). {sentences} Means over tasks and shots; in brackets 95 % "
        f"intervals over draws of demonstrations and test rows, {MARK} where 0 is outside."
    )


def _means(corrected: dict[str, Estimate], plain: dict[str, Estimate]) -> str:
    bc, icl = (gain_cell(over_tasks(list(means.values()))) for means in (corrected, plain))
    return f"{bc} points with bc, {icl} with icl"


def _count_signs(estimates: dict[str, Estimate], sign: int) -> str:
    """On how many tasks a number is beyond noise on one side of 0 with bc."""
    count = sum(estimate.beyond_noise == sign for estimate in estimates.values())
    return f"{count or 'none'} of {len(estimates)} task{'s' * (len(estimates) > 1)}"

"""Says how much a model reads in its demonstrations: a table, a verdict, a paragraph."""

from collections.abc import Iterator
from typing import NamedTuple

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.controls import FLIPPED, GOLD, NEW, NONE, Control, Point
from batch_calibration.artifacts.grouping import BASELINE, CORRECTED, REFERENCES, joined, title
from batch_calibration.intervals import Estimate, over_tasks

NOTE = (
    f"Accuracy against the rows' own labels, mean over seeds. '{NONE}': no demonstrations; "
    f"'{FLIPPED}': each is shown with the next label, so that a model that reads them falls below "
    "chance; 'words': drawn words in place of the label words, in demonstrations and in what is "
    "scored. In the verdict means over tasks and shots. In brackets 95 % intervals over the draws "
    f"of demonstrations and the test rows, {gains.MARK} where 0 is outside; the CSV has the "
    "interval of every number."
)
LIKELIER = (
    "A row is right where the answer is the likelier label of its text by the suite's grammar, "
    "not the label that was drawn for it. "
)
"""What stands before the note of the table against the likelier label."""


def accuracy_cells(control: Control) -> Cells:
    """Header, and a row for each task, number of shots and method: accuracy in %, differences."""
    conditions = control.conditions
    against = [name for name in conditions if name.endswith("words")]
    rows: Cells = [["task", "shots", "method", "chance", *conditions, "gold - flipped"]]
    rows[0] += [f"{name} - chance" for name in against]
    for task, shots, method in _rows(control):
        points = {name: Point(task, shots, name, method) for name in conditions}
        means = [control.accuracy(point) for point in points.values()]
        cells = [f"{100 * one.value:.1f}" if one else "-" for one in means]
        above = [control.above_chance([points[name]]) for name in against]
        differ = [control.difference([Point(task, shots, GOLD, method)], FLIPPED), *above]
        sure = [gains.marked(one) if one else "-" for one in differ]
        rows.append(
            [title(task), str(shots), method, f"{100 * control.chance(task):.1f}", *cells, *sure]
        )
    return rows


def estimate_cells(control: Control) -> Cells:
    """Header, and a row an accuracy and a difference: its value in % and its interval's ends."""
    rows: Cells = [["task", "shots", "method", "condition", "value", "low", "high"]]
    for task, shots, method in _rows(control):
        points = {name: Point(task, shots, name, method) for name in control.conditions}
        found = {name: control.accuracy(point) for name, point in points.items()}
        gold = Point(task, shots, GOLD, method)
        found[f"{GOLD} - {FLIPPED}"] = control.difference([gold], FLIPPED)
        for name, one in found.items():
            if one:
                rows.append([task, str(shots), method, name, *(f"{100 * x:.4g}" for x in one)])
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
        words: accuracy with held-out words less chance.
        flipped: accuracy with flipped labels less chance.
    """

    labels: dict[str, Estimate]
    words: dict[str, Estimate]
    flipped: dict[str, Estimate]

    @property
    def verdict(self) -> str:
        """Yes, partly or no; nothing where neither labels nor words were changed.

        Yes: on every task both `labels` and `words`, or the one that is there, are above 0 beyond
        noise. No: neither is, on average over the tasks.
        """
        asked = [list(one.values()) for one in (self.labels, self.words) if one]
        if not asked:
            return ""
        if all(one.beyond_noise > 0 for each in asked for one in each):
            return "yes"
        return "partly" if any(over_tasks(each).beyond_noise > 0 for each in asked) else "no"


def reading(control: Control, method: str = CORRECTED) -> Reading:
    """What a method's answers tell; bc's by default, for a bias hides what a model has read."""
    found = Reading({}, {}, {})
    for task in control.tasks:
        points = [Point(task, shots, GOLD, method) for shots in control.shots(task) if shots]
        if labels := control.difference(points, FLIPPED):
            found.labels[task] = labels
        for name, of_task in ((NEW, found.words), (FLIPPED, found.flipped)):
            if above := control.above_chance([one._replace(condition=name) for one in points]):
                of_task[task] = above
    return found


def verdict(control: Control) -> str:
    """Whether the model reads its demonstrations, and by how much; nothing if that is unknown."""
    found, plain = reading(control), reading(control, BASELINE)
    if not found.verdict:
        return ""
    said = [f"Reads its demonstrations: {found.verdict}."]
    if found.labels:
        said.append(
            f"Accuracy with gold labels less that with flipped ones: "
            f"{_means(found.labels, plain.labels)}, above 0 beyond noise on "
            f"{_count(found.labels, 1)}; with flipped ones it is below chance beyond noise on "
            f"{_count(found.flipped, -1)}."
        )
    if found.words:
        said.append(
            f"Accuracy with held-out label words less chance: {_means(found.words, plain.words)}, "
            f"above 0 beyond noise on {_count(found.words, 1)}."
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

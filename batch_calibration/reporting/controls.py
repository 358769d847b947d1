"""Studies of demonstrations that show other labels or label words, and their tables."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, product, zip_longest
from typing import NamedTuple

import numpy as np

from batch_calibration.metrics import OF_ACCURACY, OF_GAIN, Estimate, over_rows, over_tasks
from batch_calibration.reporting import frame
from batch_calibration.reporting.cells import MARK, Cells, gain_cell
from batch_calibration.reporting.frame import BASELINE, CORRECTED, REFERENCES, Setting, task_title
from batch_calibration.scores import ScoreTable
from batch_calibration.scoring.embedded import suite
from batch_calibration.studies import Record, unpack

NONE, GOLD, FLIPPED = "none", "gold", "flipped"
NEW, NEW_FLIPPED = "held-out words", "held-out words, flipped"
# What demonstrations show, in the order of the columns; others come behind.
SHOWN = (NONE, GOLD, "random", FLIPPED, "training words", NEW, NEW_FLIPPED)
# Flipped labels cost a model that does not read them less; one that reads them far more.
MAX_DROP_UNREAD = 0.1
CANNOT_TELL = "cannot be told, for seeds or rows are too few"
# Conditions, and the one that differs from each in that the labels are flipped.
FLIPS = {GOLD: FLIPPED, NEW: NEW_FLIPPED}
# The sentences below the table.
CONTROL_NOTE = (
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
# The sentences before the note of the table against the likelier label.
LIKELIER_NOTE = (
    "A row is right where the answer is the more probable label of its text by the suite's "
    "grammar, not the label that was drawn for it. "
)
# A setting without its shots, and choices of the prompt that are not the task's own.
Fixed = tuple[Setting, tuple[str, ...]]
# Which rows of a record a method answers rightly, [n]; None where that is not known.
Hits = Callable[[Record, str], np.ndarray | None]


class Point(NamedTuple):
    """One accuracy of the study."""

    task: str
    shots: int
    condition: str
    method: str


class Control(NamedTuple):
    """Answers of one model under each condition."""

    setting: Setting  # what is held, without its shots
    # Those of the prompt that are not the task's own and do not vary, in words.
    choices: tuple[str, ...]
    # Of every accuracy: seed -> which test rows are right, [n].
    hits: dict[Point, dict[int | None, np.ndarray]]
    labels: dict[str, int]  # task -> how many labels it has

    @property
    def tasks(self) -> list[str]:
        """The tasks, in the order of the records."""
        return list(self.labels)

    @property
    def conditions(self) -> list[str]:
        """The conditions that there are, `NONE` where a task was asked without demonstrations."""
        present = {point.condition for point in self.hits}
        return [*filter(present.__contains__, SHOWN), *sorted(present.difference(SHOWN))]

    @property
    def heading(self) -> str:
        """The study in words."""
        return f"Demonstration labels: {', '.join([str(self.setting), *self.choices])}"

    @property
    def slug(self) -> str:
        """The study as part of a file name."""
        return "-".join([self.setting.slug, *self.choices, "demonstration-labels"]).replace(
            " ", "-"
        )

    def chance(self, task: str) -> float:
        """Accuracy of one who guesses."""
        return 1 / self.labels[task]

    def shots(self, task: str) -> list[int]:
        """The numbers of demonstrations."""
        return sorted({p.shots for p in self.hits if p.task == task and p.condition != NONE})

    def accuracy(self, *points: Point) -> Estimate | None:
        """The mean over seeds, of several points over these; None where it was not asked for."""
        return self._mean(points)

    def difference(self, points: Sequence[Point], condition: str) -> Estimate | None:
        """Accuracy at some points less that under another condition, on the same rows."""
        return self._mean(points, [point._replace(condition=condition) for point in points])

    def gain(self, shots: int, task: str, condition: str) -> Estimate | None:
        """Accuracy with bc less that with icl on the same prompts."""
        point = Point(task, shots, condition, CORRECTED)
        return self._mean([point], [point._replace(method=BASELINE)])

    def rise(self, method: str, task: str, condition: str) -> Estimate | None:
        """Accuracy with the most shots less that with the fewest; None where there is one number.

        Of each seed the drawn words are the same.
        """
        shots = self.shots(task)
        if len(shots) < 2 or condition == NONE:
            return None
        point = Point(task, shots[-1], condition, method)
        return self._mean([point], [point._replace(shots=shots[0])])

    def _mean(self, points: Sequence[Point], references: Sequence[Point] = ()) -> Estimate | None:
        samples = []
        for point, reference in zip_longest(points, references):
            hits = self._hits_at(point)
            if reference:
                less = self._hits_at(reference)
                # A seed without its counterpart is left out: the difference is paired.
                hits = {seed: hits[seed] - less[seed] for seed in hits if seed in less}
            samples.append(hits)
        by_seed = []
        for seed in dict.fromkeys(chain.from_iterable(samples)):
            # Points of one seed share drawn words and rows.
            points_of_seed = [hits[seed] for hits in samples if seed in hits]
            by_seed.append(np.mean(points_of_seed, axis=0))
        return over_rows(by_seed, OF_GAIN if references else OF_ACCURACY) if by_seed else None

    def _hits_at(self, point: Point) -> dict[int | None, np.ndarray]:
        # Without demonstrations there is one point, whatever the shots beside it.
        return self.hits.get(point._replace(shots=0) if point.condition == NONE else point, {})


def right_by_data(record: Record, method: str) -> np.ndarray | None:
    """By the labels that the data give the rows."""
    if method not in record.methods:
        return None
    return unpack(record.methods[method].right, sum(record.classes)).astype(np.float64)


def right_by_likelier_label(load: Callable[[Record], ScoreTable | None]) -> Hits:
    """By the more probable label of the text of each row, of the embedded suite alone."""

    def hits(record: Record, method: str) -> np.ndarray | None:
        task, split = record.context.task, record.context.served or record.context.split
        is_of_suite = split in suite.split_names(task)
        has_bias = (method in record.methods and record.methods[method].bias) or method == BASELINE
        table = load(record) if is_of_suite and has_bias else None
        if table is None:
            return None
        block = table.blocks["test"]
        if suite.read_rows(task, split).ids[: len(block.row_ids)] != tuple(block.row_ids):
            return None
        scores = np.asarray(record.scores_of(table), np.float64)
        answers = (scores - np.array(record.bias.get(method, 0.0))).argmax(axis=1)  # [n]
        truth = suite.likelier(task, split)[: len(answers)]
        return np.asarray(answers == np.array(truth), np.float64)

    return hits


def find_controls(records: Iterable[Record], hits: Hits = right_by_data) -> list[Control]:
    """Studies of records that differ in what demonstrations show, one for each setting.

    The usual records are the condition `GOLD`.
    """
    pairs = []
    for setting, record in frame.with_settings(records):
        if setting.shots is not None:
            options = record.context.options
            names = filter(options.__contains__, frame.VARIED)
            choices = tuple(f"{name} {options[name]}" for name in names)
            pairs.append(((setting._replace(shots=None), choices), record))
    # Means are over the seeds, shots and tasks that were asked otherwise too.
    varied = [pair for pair in pairs if frame.axis_name(pair[1]) == frame.CONTROL]
    keys = {_key(fixed, record) for fixed, record in varied}
    tasks = {key[:2] for key in keys}
    studies: dict[Fixed, Control] = {}
    for fixed, record in pairs:
        task, name = record.context.task, condition_name(record)
        if _key(fixed, record) not in keys and (name != NONE or (fixed, task) not in tasks):
            continue
        control = studies.setdefault(fixed, Control(*fixed, {}, {}))
        for method in REFERENCES:
            right = hits(record, method)
            if right is not None:
                control.labels[task] = len(record.label_names)
                point = Point(task, record.context.shots or 0, name, method)
                control.hits.setdefault(point, {})[record.context.seed] = right
    return [control for control in studies.values() if control.hits]


def _key(fixed: Fixed, record: Record) -> tuple[Fixed, str, int | None, int | None]:
    return fixed, record.context.task, record.context.shots, record.context.seed


def condition_name(record: Record) -> str:
    """The condition of a record: its demonstrations' labels, in words."""
    labels, word_pool = (record.context.options.get(name, "") for name in frame.CONTROLS)
    if not labels and not word_pool:
        return GOLD if record.context.shots else NONE
    of_pool = f"{word_pool} words".replace("_", "-") if word_pool else ""
    return ", ".join(filter(None, (of_pool, str(labels))))


def condition_cells(control: Control) -> Cells:
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


def read_flips(control: Control, method: str = CORRECTED) -> dict[str, dict[str, Estimate]]:
    """Changes by flipped labels, task by task, over all numbers of shots.

    "labels" is accuracy with gold labels less that with flipped ones, "words" the same with
    held-out words for labels, "chance" accuracy with flipped labels less chance. The answers are
    bc's by default, for a bias hides what a model has read.
    """
    flips: dict[str, dict[str, Estimate]] = {"labels": {}, "words": {}, "chance": {}}
    for task in control.tasks:
        points = [Point(task, shots, GOLD, method) for shots in control.shots(task) if shots]
        with_words = [point._replace(condition=NEW) for point in points]
        flipped = [point._replace(condition=FLIPPED) for point in points]
        if drop := control.difference(points, FLIPPED):
            flips["labels"][task] = drop
        if drop := control.difference(with_words, NEW_FLIPPED):
            flips["words"][task] = drop
        if mean := control.accuracy(*flipped):
            flips["chance"][task] = Estimate(*(end - control.chance(task) for end in mean))
    return flips


def judge_reading(control: Control) -> str:
    """Yes, partly, no, or `CANNOT_TELL`: are demonstrations read? "" without flipped labels.

    Yes: on every task accuracy drops beyond noise with flipped labels and with flipped held-out
    words, or with the one that was asked. Partly: one of them drops on average over the tasks. No:
    both averages are surely below `MAX_DROP_UNREAD`.
    """
    flips = read_flips(control)
    tests = [list(flips[kind].values()) for kind in ("labels", "words") if flips[kind]]
    if not tests:
        return ""
    if all(drop.beyond_noise > 0 for drop in chain.from_iterable(tests)):
        return "yes"
    means = list(map(over_tasks, tests))
    if any(mean.beyond_noise > 0 for mean in means):
        return "partly"
    return "no" if all(mean.high < MAX_DROP_UNREAD for mean in means) else CANNOT_TELL

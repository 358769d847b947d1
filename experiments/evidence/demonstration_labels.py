"""Tests whether a model reads its demonstrations, by changing their labels and label words."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, product, zip_longest
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.files import csv_text, file_name, write_whole
from batch_calibration.metrics import OF_ACCURACY, OF_GAIN, Estimate, over_rows, over_tasks
from batch_calibration.reporting import frame, palette, writing
from batch_calibration.reporting.cells import MARK, Cells, gain_cell
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.frame import BASELINE, CORRECTED, REFERENCES, task_title
from batch_calibration.reporting.items import Drawing, Table
from batch_calibration.scores import ScoreTable
from batch_calibration.scoring.embedded import suite
from batch_calibration.studies import Record, Store
from batch_calibration.studies.records import unpack

NONE, GOLD, FLIPPED = "none", "gold", "flipped"
NEW, NEW_FLIPPED = "held-out words", "held-out words, flipped"
CONDITIONS = (
    NONE, GOLD, "random", FLIPPED, "training words", "training words, random",
    "training words, flipped", NEW, "held-out words, random", NEW_FLIPPED,
)  # fmt: skip
"""The conditions in the order of the columns."""
# Condition -> the same condition with flipped labels.
FLIPS = {GOLD: FLIPPED, NEW: NEW_FLIPPED}
MAX_DROP_UNREAD = 0.1  # largest drop by flipped labels for the verdict that a model ignores them
CANNOT_TELL = "unknown, because seeds or rows are too few"
NOTE = (
    "Accuracy against the rows' own labels, mean over seeds. 'none': no demonstrations. 'flipped': "
    "each demonstration has the next label, so a model that reads them falls below chance. "
    "'words': drawn words replace the label words in demonstrations and in the scored labels. A "
    "model may prefer some of these words for their meaning; flipped labels separate this effect "
    "from reading. The verdict uses means over tasks and shots. In brackets: 95 % intervals over "
    f"the draws of demonstrations and the test rows, {MARK} if they exclude 0; the CSV has the "
    "interval of every number."
)
DIFFERENCES_NOTE = (
    "'bc - icl': accuracy with bc minus accuracy with icl on the same prompts. Lines of 'icl' and "
    "'bc': accuracy with the most shots minus accuracy with the fewest, with the same words. In "
    "points, with 95 % intervals over the draws of demonstrations and the test rows; "
    f"{MARK} if the interval excludes 0."
)
LIKELIER = "-likelier"  # the end of the slug of tables by the more probable label
LIKELIER_NOTE = (
    "A row is right if the answer is the more probable label of its text under the suite's "
    "grammar, instead of the label that was drawn for it. "
)
VARIED = ("task", "shots", "seed", "id", *frame.LABELS)
"""Factors that vary in a study."""
UNNAMED = ("data", "scorer")
"""Fixed factors that are not in the heading of the figure."""
# Factors that a study holds fixed, and their levels: the model first, then by name.
Fixed = tuple[tuple[str, str], ...]
# Returns 1 for each row of a record that a method answers rightly, else 0, [n]; or None.
Hits = Callable[[Record, str], np.ndarray | None]


class Point(NamedTuple):
    """The task, prompt and method of one accuracy."""

    task: str
    shots: int  # 0 without demonstrations
    condition: str
    method: str


class Study(NamedTuple):
    """Right answers of one model under each condition."""

    fixed: Fixed
    labels: dict[str, int]  # task -> number of labels
    right: dict[Point, dict[int | None, np.ndarray]]  # by seed: 1 for each right row, else 0, [n]

    @property
    def heading(self) -> str:
        """The heading of the study's tables."""
        return f"Demonstration labels: {', '.join(self.words)}"

    @property
    def slug(self) -> str:
        """The beginning of the names of the study's files."""
        return file_name("-".join(self.words).replace(" ", "-"))

    @property
    def words(self) -> list[str]:
        """The levels of the fixed factors: "mini", "validation split"."""
        return [frame.word_of(name, level) for name, level in self.fixed]

    @property
    def conditions(self) -> list[str]:
        """The conditions with results, in the order of the columns."""
        return list(filter({point.condition for point in self.right}.__contains__, CONDITIONS))

    def shots(self, task: str) -> list[int]:
        """Returns the numbers of shots of a task."""
        return sorted({p.shots for p in self.right if p.task == task and p.condition != NONE})

    def mean(self, points: Iterable[Point], minus: Iterable[Point] = ()) -> Estimate | None:
        """Returns the mean accuracy (or difference) over points and seeds, or None if unknown."""
        by_seed: dict[int | None, list[np.ndarray]] = {}
        for point, reference in zip_longest(points, minus):
            less = self.right.get(reference, {})
            for seed, rows in self.right.get(point, {}).items():
                # The difference is paired, so a seed needs results on both sides.
                if reference is None or seed in less:
                    by_seed.setdefault(seed, []).append(rows - less.get(seed, 0.0))
        # Points of one seed share drawn words and rows.
        draws = [np.mean(rows, axis=0) for rows in by_seed.values()]
        return over_rows(draws, OF_GAIN if minus else OF_ACCURACY) if draws else None


def run(workdir: str | Path) -> None:
    """Writes the tables and figures of each study of a workdir, and prints the tables.

    Raises:
        InputError: the workdir has no records with changed demonstration labels or label words.
    """
    store = Store(workdir)
    records, folder = store.records(), store.workdir / "demonstration_labels"
    studies = find_studies(records)
    if not studies:
        remedy = "score configs/demo_labels.py into it, then run batch-calibration calibrate"
        raise InputError.at(
            workdir, f"contexts with other {' or '.join(frame.LABELS)}", "none", remedy
        )
    tables = list(chain.from_iterable(map(tables_of, studies)))
    judged = find_studies(records, right_by_likelier_label(store.table_of))
    tables += [_table(study, LIKELIER, f"{LIKELIER_NOTE}{NOTE}") for study in judged]
    for table in tables:
        writing.write_table(table, folder / table.slug)
    for study in judged:
        # The CSV of the other table comes with its figure.
        csv = csv_text(estimate_cells(study))
        write_whole(folder / f"{study.slug}{LIKELIER}.csv", csv.encode())
    for study in studies:
        drawing = Drawing("", study.slug, partial(draw, study))
        writing.write_figure(drawing, folder / drawing.slug)
    writing.print_tables(tables)
    print(f"these tables and their figures are in {folder}")


def right_by_data(record: Record, method: str) -> np.ndarray | None:
    """Reads right answers from the record, which compares them with the labels of the data."""
    if method not in record.methods:
        return None
    return unpack(record.methods[method].right, sum(record.classes)).astype(np.float64)


def right_by_likelier_label(load: Callable[[Record], ScoreTable | None]) -> Hits:
    """Returns a judge by the more probable label of each text; only for the embedded suite."""

    def hits(record: Record, method: str) -> np.ndarray | None:
        task, split = record.context.task, record.context.served or record.context.split
        is_of_suite = split in suite.split_names(task)
        result = record.methods.get(method)
        has_bias = result is not None and (result.bias or method == BASELINE)
        table = load(record) if is_of_suite and has_bias else None
        if result is None or table is None:
            return None
        ids = table.blocks["test"].row_ids
        if suite.read_rows(task, split).ids[: len(ids)] != tuple(ids):
            return None
        scores = np.asarray(record.scores_of(table), np.float64)
        answers = (scores - np.array(result.bias or 0.0)).argmax(axis=1)  # [n]
        return np.asarray(answers == np.array(suite.likelier(task, split)[: len(ids)]), np.float64)

    return hits


def find_studies(records: Iterable[Record], hits: Hits = right_by_data) -> list[Study]:
    """Finds the studies among records, one for each combination of fixed factors.

    Unchanged records are the condition `GOLD`. They count only for tasks, seeds and shots that
    have changed records, too, so that all means are over the same draws.
    """
    groups = frame.group_by(frame.sort_records(records), _fixed)
    studies: dict[Fixed, Study] = {}
    for (fixed, task), group in groups.items():
        others = [record for record in group if condition(record) not in (NONE, GOLD)]
        draws = {(record.context.shots, record.context.seed) for record in others}
        for record, method in product(group if draws else (), REFERENCES):
            shots, seed, name = record.context.shots, record.context.seed, condition(record)
            right = hits(record, method) if name == NONE or (shots, seed) in draws else None
            if right is not None:
                study = studies.setdefault(fixed, Study(fixed, {}, {}))
                study.labels[task] = len(record.label_names)
                study.right.setdefault(Point(task, shots or 0, name, method), {})[seed] = right
    return list(studies.values())


def _fixed(record: Record) -> tuple[Fixed, str]:
    """Returns the fixed factors of a record, and its task."""
    factors, fixed = frame.factors_of(record), list[tuple[str, str]]()
    for name in sorted(factors, key=lambda name: (name != "model", name)):
        if name not in VARIED and (factors[name] or name == "model"):
            fixed.append((name, factors[name]))
    return tuple(fixed), factors["task"]


def condition(record: Record) -> str:
    """Names the condition of a record: the labels and words of its demonstrations."""
    labels, pool = (str(record.context.options.get(name, "")) for name in frame.LABELS)
    if not labels and not pool:
        return GOLD if record.context.shots else NONE
    return ", ".join(filter(None, (pool and f"{pool.replace('_', '-')} words", labels)))


def tables_of(study: Study) -> list[Table]:
    """Makes the table of accuracies, with the verdict in its note, and the table of differences."""
    slug, heading = f"{study.slug}-differences", f"{study.heading}; differences"
    rows = difference_cells(study)
    differences = Table("", slug, heading, rows, DIFFERENCES_NOTE, unit="points", keys=2)
    return [_table(study, "", f"{verdict(study)} {NOTE}".strip()), differences]


def _table(study: Study, truth: str, note: str) -> Table:
    heading = f"{study.heading}{truth and '; the more probable label is right'}"
    return Table("", f"{study.slug}{truth}", heading, condition_cells(study), note, keys=3)


def _estimates(study: Study) -> dict[tuple[str, int, str], dict[str, Estimate | None]]:
    """Estimates each accuracy and its drop with flipped labels, by task, shots and method."""
    rows = {}
    for task in study.labels:
        for shots, method in product(study.shots(task), REFERENCES):
            points = {name: _point(task, shots, name, method) for name in study.conditions}
            estimates = {name: study.mean([point]) for name, point in points.items()}
            for name, flipped in FLIPS.items():
                if {name, flipped} <= points.keys():
                    fall = study.mean([points[name]], [points[flipped]])
                    estimates[f"{name} - flipped"] = fall
            rows[task, shots, method] = estimates
    return rows


def _point(task: str, shots: int, name: str, method: str) -> Point:
    # The condition without demonstrations has 0 shots in every row of the table.
    return Point(task, 0 if name == NONE else shots, name, method)


def condition_cells(study: Study) -> Cells:
    """Makes a header and a row for each task, number of shots and method."""
    rows: Cells = []
    for (task, shots, method), estimates in _estimates(study).items():
        rows = rows or [["task", "shots", "method", "chance", *estimates]]
        row = [task_title(task), str(shots), method, f"{100 / study.labels[task]:.1f}"]
        for name, estimate in estimates.items():
            if estimate and name in CONDITIONS:
                row.append(f"{100 * estimate.value:.1f}")
            else:
                row.append(gain_cell(estimate))
        rows.append(row)
    return rows


def estimate_cells(study: Study) -> Cells:
    """Makes a header and a row for each estimate: value in % and the ends of its interval."""
    rows: Cells = [["task", "shots", "method", "condition", "value", "low", "high"]]
    for (task, shots, method), estimates in _estimates(study).items():
        for name, estimate in estimates.items():
            if estimate:
                ends = [f"{100 * end:.4g}" for end in estimate]
                rows.append([task, str(shots), method, name, *ends])
    return rows


def difference_cells(study: Study) -> Cells:
    """Makes a header and rows for each task and the average: gains by bc, and by more shots."""
    rows: Cells = [["task", "difference", *study.conditions]]
    groups = {task_title(task): [task] for task in study.labels}
    if len(groups) > 1:
        groups["average"] = list(study.labels)
    for title, tasks in groups.items():
        shots = sorted(set.intersection(*(set(study.shots(task)) for task in tasks)))
        # Name of a difference -> (shots, method) of both sides.
        sides = {}
        for count in shots:
            name = f"bc - icl, {count} shot{'s' * (count > 1)}"
            sides[name] = (count, CORRECTED), (count, BASELINE)
        for method in REFERENCES if len(shots) > 1 else ():
            name = f"{method}, {shots[-1]} - {shots[0]} shots"
            sides[name] = (shots[-1], method), (shots[0], method)
        for name, pair in sides.items():
            means = [_mean_difference(study, tasks, shown, pair) for shown in study.conditions]
            rows.append([title, name, *means])
    return rows


def _mean_difference(
    study: Study, tasks: Sequence[str], shown: str, sides: Iterable[tuple[int, str]]
) -> str:
    """Formats the mean difference over tasks, or a dash if a task has no result."""
    estimates = []
    for task in tasks:
        after, before = (_point(task, shots, shown, method) for shots, method in sides)
        estimates.append(study.mean([after], [before]) if after != before else None)
    known = list(filter(None, estimates))
    return gain_cell(over_tasks(known) if len(known) == len(tasks) else None)


def read_flips(study: Study, method: str = CORRECTED) -> dict[str, dict[str, Estimate]]:
    """Estimates the effect of flipped labels for each task, over all numbers of shots.

    "labels" is accuracy with gold labels minus accuracy with flipped labels. "words" is the same
    difference with held-out label words. "chance" is accuracy with flipped labels minus chance. The
    default method is bc, because a bias can hide the effect of the demonstrations.
    """
    flips: dict[str, dict[str, Estimate]] = {"labels": {}, "words": {}, "chance": {}}
    for task, count in study.labels.items():
        for kind, (name, other) in zip(flips, FLIPS.items(), strict=False):
            points = [Point(task, shots, name, method) for shots in study.shots(task) if shots]
            flipped = [point._replace(condition=other) for point in points]
            if drop := study.mean(points, flipped):
                flips[kind][task] = drop
            if other == FLIPPED and (mean := study.mean(flipped)):
                flips["chance"][task] = Estimate(*(end - 1 / count for end in mean))
    return flips


def judge(study: Study) -> str:
    """Decides whether the model reads demonstrations; returns "" without flipped labels.

    "yes": on every task, accuracy drops beyond noise with flipped labels, and with flipped held-out
    words if these were scored. "partly": the mean drop over tasks of one of them is beyond noise.
    "no": the intervals of all mean drops are below `MAX_DROP_UNREAD`. Otherwise `CANNOT_TELL`.
    """
    flips = read_flips(study)
    tests = [list(flips[kind].values()) for kind in ("labels", "words") if flips[kind]]
    if not tests:
        return ""
    if all(drop.beyond_noise > 0 for drop in chain.from_iterable(tests)):
        return "yes"
    means = list(map(over_tasks, tests))
    if any(mean.beyond_noise > 0 for mean in means):
        return "partly"
    return "no" if all(mean.high < MAX_DROP_UNREAD for mean in means) else CANNOT_TELL


def verdict(study: Study) -> str:
    """Writes the verdict and its numbers; returns "" without flipped labels."""
    answer = judge(study)
    if not answer:
        return ""
    corrected, plain = read_flips(study), read_flips(study, BASELINE)

    def means(kind: str) -> str:
        bc, icl = (gain_cell(over_tasks(list(f[kind].values()))) for f in (corrected, plain))
        return f"{bc} points with bc, {icl} with icl"

    def beyond(kind: str, sign: int) -> str:
        estimates = corrected[kind].values()
        count = sum(estimate.beyond_noise == sign for estimate in estimates)
        return f"beyond noise on {count} of {len(estimates)} task{'s' * (len(estimates) > 1)}"

    sentences = [f"Reads its demonstrations: {answer}."]
    if corrected["labels"]:
        sentences.append(
            f"Drop of accuracy with flipped labels: {means('labels')}, above 0 "
            f"{beyond('labels', 1)}; with flipped labels it is below chance {beyond('chance', -1)}."
        )
    if corrected["words"]:
        sentences.append(
            f"Drop with held-out words as label words: {means('words')}, above 0 "
            f"{beyond('words', 1)}."
        )
    return " ".join(sentences)


@style.styled
def draw(study: Study) -> style.Drawn:
    """Draws the mean over tasks and shots of each condition with 95 % intervals, and each task."""
    width = 0.4 + 0.65 * len(study.conditions)
    figure, (axes,) = style.panels(1, (width, 2.6), dpi=200)
    chance = 100 * float(np.mean([1 / count for count in study.labels.values()]))
    axes.axhline(chance, color=style.INK, ls=":", lw=1.0, zorder=0)
    axes.annotate("chance", (len(study.conditions) - 0.4, chance), (0, 2), ha="right",
                  **style.ASIDE)  # fmt: skip
    rows = estimate_cells(study)
    for method, side in zip(REFERENCES, (-0.17, 0.17), strict=True):
        look: Any = {"color": palette.color(method), "is_hollow": method == BASELINE}
        for place, name in enumerate(study.conditions):
            estimates = []
            for task in study.labels:
                shots = [0] if name == NONE else study.shots(task)
                estimate = study.mean([Point(task, count, name, method) for count in shots])
                estimates += [estimate] if estimate else []
            if not estimates:
                continue
            mean, low, high = (100 * end for end in over_tasks(estimates))
            values = [100 * estimate.value for estimate in estimates]
            aside = [place + 1.7 * side] * len(values)
            style.dots(axes, aside, values, size=2.5, alpha=0.6, **look)
            axes.vlines(place + side, low, high, colors=palette.color(method), lw=1.6)
            style.dots(axes, [place + side], [mean], size=6.0, name="" if place else method, **look)
            ends = [f"{end:.4g}" for end in (mean, low, high)]
            rows.append(["average", "all", method, name, *ends])
    style.label(axes, "", "labels of the demonstrations", style.ACCURACY)
    names = [fill(name, 11) for name in study.conditions]
    axes.set_xticks(range(len(names)), names)
    note = f"Small dots: tasks, mean over shots. Large dots: their mean. {style.INTERVALS}"
    # The names of the files distinguish studies by the rest.
    named = [frame.word_of(*factor) for factor in study.fixed if factor[0] not in UNNAMED]
    heading = f"Accuracy by the labels of the demonstrations: {', '.join(named)}"
    return style.finish(figure, heading, note, rows)

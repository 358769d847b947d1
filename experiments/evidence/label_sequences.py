"""Measures how the label sequence of the demonstrations changes answers, with each correction.

A model scores the rows after every possible label sequence of four demonstrations. This factorial
design separates two causes of bias: the number of demonstrations of a label, and the label of the
last demonstration.
"""

import itertools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from batch_calibration.cli.progress import ProgressBar
from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from batch_calibration.methods import METHODS, compare, get_method
from batch_calibration.metrics import OF_GAIN, over_rows, over_tasks
from batch_calibration.reporting.cells import Cells, gain_cell, markdown
from batch_calibration.scores import ScoreTable
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.data.texts import RowReader
from batch_calibration.scoring.embedded.label_words import POOLS
from batch_calibration.scoring.tasks.base import Row, Rows
from batch_calibration.settings import Cell, Settings
from batch_calibration.studies import Store, csv_text
from batch_calibration.studies.scoring import ScoringProgress, run_scoring

DEMONSTRATIONS = 4
SEQUENCES = tuple(itertools.product((0, 1), repeat=DEMONSTRATIONS))  # 2^4 = 16
WORDS = ("own", *POOLS)
ALL = "mean of tasks"
SHOWN = np.array(SEQUENCES)  # [c, 4]
MIXES = {"2 + 2": (2,), "3 + 1": (1, 3), "4 + 0": (0, 4)}
"""Mix of the labels -> numbers of demonstrations with the second label."""
NEAR = ("last", "nearest")
NOTE = (
    "Biases in nats of log p(second label) - log p(first). 'common': mean absolute bias with "
    "balanced demonstrations. 'majority': the bias added if all demonstrations have the second "
    "label. 'recency': the bias added if the last one has it. Accuracy in % after two "
    "demonstrations of each label (2 + 2), three of one (3 + 1), and four of one (4 + 0). "
    "'answered': share in % of answers with the majority label, after 3 + 1 / 4 + 0 (about 50 "
    "without bias). 'last' and 'nearest': errors in % after 2 + 2 if the last demonstration, or "
    "the one that shares most words with the row, has the wrong label / the right label. Equal "
    "numbers mean that the model does not copy this label."
)
CHANGE = (
    "In points, with 95 % intervals over draws of demonstrations and words and over test rows; * "
    "if the interval excludes 0. 'copied': errors if the demonstration's label is wrong, minus "
    "errors if it is right, after 2 + 2. Other columns: accuracy minus icl's on the same prompts."
)


class Asked(NamedTuple):
    """Scores of one task's rows with one kind of label words, before and after each correction.

    Attributes:
        scores: method -> [s c n 2]: draws, sequences, rows, labels.
        truth: [n], right labels.
        nearest: [s c n], label of the demonstration that shares most words with the row.
    """

    scores: dict[str, np.ndarray]
    truth: np.ndarray
    nearest: np.ndarray


def fit(sequences: Sequence[Sequence[int]], means: Sequence[float]) -> tuple[float, float, float]:
    """Fits common, majority and recency bias by least squares, in the unit of the means.

    The model is `common + majority * balance + recency * last`. `balance` goes from -1 (all
    demonstrations have the first label) to 1 (all have the second). `last` is -1 or 1 by the label
    of the last demonstration.
    """
    design = [(1, 2 * np.mean(labels) - 1, 2 * labels[-1] - 1) for labels in sequences]  # [c, 3]
    common, majority, recency = np.linalg.lstsq(np.array(design), np.array(means), rcond=None)[0]
    return float(common), float(majority), float(recency)


def run(settings: Settings, workdir: Path) -> str:
    """Scores every missing context, writes the tables, and returns them as Markdown."""
    with ProgressBar("scoring", "examples") as bar:
        asked = ask(
            settings, workdir, lambda status: bar.update(ScoringProgress(*status[:3])), print
        )
    return write(measure_all(asked), workdir)


def ask(
    settings: Settings,
    workdir: Path,
    progress: Callable[[ScoringProgress], None] | None = None,
    notify: Callable[[str], None] | None = None,
) -> dict[tuple[str, str], Asked]:
    """Scores each task with each kind of label words, and corrects the scores.

    The workdir keeps the scores, as in any study. Of the settings, `seeds` is the number of draws
    of demonstrations and words, `limit` is the number of test rows, and `methods` names the
    corrections.

    Returns:
        (task, kind of words) -> scores.

    Raises:
        InputError: a task does not have two labels, a method needs labeled rows, there are too few
            training rows, or `run_scoring` raises.
    """
    settings = settings.replace(labeled_per_class=0)  # no method here needs a labeled set
    names = _methods(settings)
    reader, data_settings = RowReader(), settings.data
    rows = dict[str, tuple[Rows, Rows]]()
    for name in settings.tasks:
        task = load_task(name)
        if len(task.label_names) != 2:
            raise InputError(
                key="tasks",
                expected=f"tasks with two labels, but {name} has {len(task.label_names)}",
                remedy="give tasks such as sst2",
            )
        # The rows to score.
        test = reader.texts(
            task,
            data_settings.data,
            data_settings.split,
            data_settings.limit,
            data_settings.limit_rows,
        )
        rows[name] = test, reader.texts(task, data_settings.data, data_settings.train_split)
    cells = dict[tuple[str, str], list[Cell]]()
    for task_name, word_kind in itertools.product(settings.tasks, WORDS):
        of_key = cells[task_name, word_kind] = []
        for seed, sequence in itertools.product(range(settings.seeds), SEQUENCES):
            chosen = _choose(rows[task_name][1], seed, sequence)
            of_key.append(_cell(settings, task_name, word_kind, seed, chosen))
    all_cells = [*itertools.chain.from_iterable(cells.values())]
    store = Store(workdir, create=True)
    ids = iter(run_scoring(settings, all_cells, store, progress=progress, notify=notify).ids)
    tables = {table.id: table for table in store.tables()[0]}
    answers = dict[tuple[str, str], Asked]()
    for key, of_key in cells.items():
        # The ids are in the order of the cells.
        answers[key] = _asked([tables[next(ids)] for _ in of_key], of_key, names, *rows[key[0]])
    return answers


def _methods(settings: Settings) -> list[str]:
    chosen = [*(settings.calibration.methods or ("cc", "dc", "pc", "bc")), "icl"]
    for name in chosen:
        if "labeled" in get_method(name).probe.blocks:
            raise InputError(
                f"{name} needs a labeled set, which this program does not score; leave it out.",
                key="methods",
            )
    return [name for name in METHODS if name in chosen]


def _choose(rows: Rows, seed: int, sequence: Sequence[int]) -> tuple[int, ...]:
    """Draws training rows with these labels, no row twice."""
    # The seed gives every kind of words the same rows.
    rng, chosen = random.Random(f"{seed}/{sequence}"), list[int]()
    labels = np.array(rows.labels)
    for label in sequence:
        # A prompt must not repeat a row.
        pool = np.setdiff1d(np.flatnonzero(labels == label), chosen).tolist()
        if not pool:
            raise InputError.at(
                rows.where,
                f"at least {DEMONSTRATIONS} training rows of each label",
                f"{rows.labels.count(label)} of label {label}",
                "give more rows",
            )
        chosen.append(rng.choice(pool))
    return tuple(chosen)


def _cell(
    settings: Settings, task: str, word_kind: str, seed: int, chosen: tuple[int, ...]
) -> Cell:
    return settings.cell(
        task, seed, selection="explicit", shots=DEMONSTRATIONS, demonstrations=chosen,
        label_words=word_kind,
    )  # fmt: skip


def _asked(
    tables: Sequence[ScoreTable], cells: Sequence[Cell], names: Sequence[str], test: Rows,
    train: Rows,
) -> Asked:  # fmt: skip
    needed = {"test"}.union(*(METHODS[name].probe.blocks for name in names))
    if lacking := sorted(needed - set(tables[0].blocks)):
        raise InputError(
            f"one of {', '.join(names)} needs the rows {', '.join(lacking)}, which task "
            f"{tables[0].context['task']} does not have; name other methods.",
            key="methods",
        )
    blocks = {}
    for name in needed:  # [s * c, n, 2]
        blocks[name] = (np.stack([table.blocks[name].log_probs for table in tables]),)
    corrected = compare(blocks, methods=names, key=jax.random.key(0))
    shape = (-1, len(SEQUENCES), len(test.rows))  # [s, c, n], the order of the cells
    near_labels, train_labels = [], np.array(train.labels)
    for cell in cells:
        chosen = np.array(cell.prompt.demonstrations, int)
        nearest = _nearest(test.rows, [train.rows[i] for i in chosen])  # [n], which of the four
        near_labels.append(train_labels[chosen[nearest]])
    scores = {}
    for name, correction in corrected.items():
        scores[name] = np.asarray(correction.scores).reshape(*shape, 2)
    return Asked(scores, np.array(test.labels), np.array(near_labels).reshape(shape))


def _nearest(rows: Sequence[Row], shown: Sequence[Row]) -> np.ndarray:
    """Finds for each row the index of the demonstration with most shared words; ties: the last."""
    shares = np.empty((len(rows), len(shown)))  # Jaccard's; two rows without words share nothing
    for (i, row_words), (j, shown_words) in itertools.product(
        enumerate(map(_words, rows)), enumerate(map(_words, shown))
    ):
        shares[i, j] = len(row_words & shown_words) / max(len(row_words | shown_words), 1)
    # argmax returns the first of equal values, so the order is reversed to get the last.
    return len(shown) - 1 - shares[:, ::-1].argmax(axis=1)


def _words(row: Row) -> set[str]:
    return set(re.findall(r"\w+", " ".join(map(str, row.values())).lower()))


class Measured(NamedTuple):
    """Effect of label sequences on the answers of one method, on one task with one kind of words.

    Attributes:
        biases: common, majority and recency bias in nats, or None for methods with scores on
            another scale.
        shares: name -> contribution of each row in each draw [s n]; the mean is the share.
    """

    biases: tuple[float, float, float] | None
    shares: dict[str, np.ndarray]


def measure(answered: Asked, method: str) -> Measured:
    """Fits the biases of the scores, and counts answers by label sequence.

    >>> scores = np.zeros((1, 16, 3, 2)) + SHOWN[None, :, None, -1:] * np.array([0.0, 2.0])
    >>> asked = Asked({"icl": scores}, np.array([0, 1, 1]), np.zeros((1, 16, 3), int))
    >>> found = measure(asked, "icl")
    >>> [round(x, 6) for x in found.biases]
    [1.0, 0.0, 1.0]
    >>> [float(found.shares[name].mean()) for name in ("last wrong", "last right")]
    [1.0, 0.0]
    """
    scores, truth = answered.scores[method], answered.truth
    answers = scores.argmax(axis=-1)  # [s, c, n]
    last = np.broadcast_to(SHOWN[None, :, -1, None], answers.shape)
    wrong, ones = answers != truth, SHOWN.sum(axis=1)  # ones: [c], count of the second label
    # [1, c, 1], True if the second label has the majority
    most = ones[None, :, None] > DEMONSTRATIONS / 2
    shares = dict[str, np.ndarray]()
    for name, counts in MIXES.items():
        is_counted = np.broadcast_to(np.isin(ones, counts)[None, :, None], answers.shape)
        shares[name] = _share(is_counted, ~wrong)
        shares[f"{name} answered"] = _share(is_counted, answers == most)  # True is label 1
    # Only balanced sequences: after the others, a majority label would look like a copy.
    half = np.broadcast_to(ones[None, :, None] == DEMONSTRATIONS / 2, answers.shape)
    for name, label in zip(NEAR, (last, answered.nearest), strict=True):
        shares[f"{name} wrong"] = _share(half & (label != truth), wrong)
        shares[f"{name} right"] = _share(half & (label == truth), wrong)
    if method != "icl" and not METHODS[method].keeps_bias:
        return Measured(None, shares)
    means = (scores[..., 1] - scores[..., 0]).mean(axis=-1, dtype=np.float64)  # [s, c], nats
    common, majority, recency = np.array([fit(SEQUENCES, draw) for draw in means]).T  # [s] each
    biases = float(np.abs(common).mean()), float(majority.mean()), float(recency.mean())
    return Measured(biases, shares)


def _share(is_counted: np.ndarray, event: np.ndarray) -> np.ndarray:
    """Computes each row's contribution [s n] to the share of an event among counted [s c n]."""
    count = is_counted.sum(axis=1)  # [s, n]
    # Divided by the mean count over rows, not each row's own count, so that the mean of the result
    # is the share.
    return np.asarray((is_counted & event).sum(axis=1) / max(count.mean(), 1e-9))


Found = Mapping[tuple[str, str], Mapping[str, Measured]]
"""(task, kind of words) -> method -> measurements."""


def measure_all(answered_by_key: Mapping[tuple[str, str], Asked]) -> Found:
    """Measures all methods on all tasks with all kinds of words."""
    measured = dict[tuple[str, str], dict[str, Measured]]()
    for key, scored in answered_by_key.items():
        measured[key] = {}
        for name in scored.scores:
            measured[key][name] = measure(scored, name)
    return measured


def write(measured: Found, workdir: Path) -> str:
    """Writes both tables as CSV and Markdown, and returns the Markdown."""
    sections = []
    for name, cells, note in (
        ("label_biases", bias_cells(measured), NOTE),
        ("label_biases_changes", change_cells(measured), CHANGE),
    ):
        write_whole(workdir / f"{name}.csv", csv_text(cells).encode())
        sections.append(markdown(cells, note))
    text = "\n".join(sections)
    write_whole(workdir / "label_biases.md", text.encode())
    return text


def bias_cells(measured: Found) -> Cells:
    """Formats a header, and a row per task (or their mean), kind of label words and method."""
    header = ["task", "label words", "method", "common", "majority", "recency", *MIXES]
    rows: Cells = [[*header, "answered", "last", "nearest"]]
    for task, word_kind, method, measures in _rows(measured):
        shares = [_percent(measures, name) for name in MIXES]
        shares.append(_percents(measures, "3 + 1 answered", "4 + 0 answered"))
        shares += [_percents(measures, f"{name} wrong", f"{name} right") for name in NEAR]
        rows.append([task, word_kind, method, *_mean_biases(measures), *shares])
    return rows


def _mean_biases(measures: Sequence[Measured]) -> list[str]:
    """Formats the mean of each bias over tasks, in nats; `-` if the method keeps no bias."""
    task_biases = [measured.biases for measured in measures if measured.biases is not None]
    if not task_biases:
        return ["-"] * 3
    # + 0.0 turns a rounded -0 into 0.
    common, majority, recency = np.mean(task_biases, axis=0).round(2) + 0.0
    return [f"{common:.2f}", f"{majority:+.2f}", f"{recency:+.2f}"]


def change_cells(measured: Found) -> Cells:
    """Formats a header, and the copied errors and gains over icl for each row of `bias_cells`."""
    copied = [f"copied, {name}" for name in NEAR]
    rows: Cells = [["task", "label words", "method", *copied, *MIXES]]
    for task, word_kind, method, measures in _rows(measured):
        # The same tasks in the same order, so that each is paired with icl on the same prompts.
        plain = _of_task(measured, task, word_kind, "icl")
        changes = [_less(measures, f"{name} wrong", measures, f"{name} right") for name in NEAR]
        if method == "icl":
            changes += [""] * len(MIXES)
        else:
            changes += [_less(measures, name, plain, name) for name in MIXES]
        rows.append([task, word_kind, method, *changes])
    return rows


def _percent(measures: Sequence[Measured], name: str) -> str:
    return f"{100 * np.mean([measured.shares[name].mean() for measured in measures]):.1f}"


def _percents(measures: Sequence[Measured], name: str, other_name: str) -> str:
    return f"{_percent(measures, name)} / {_percent(measures, other_name)}"


def _less(
    measures: Sequence[Measured], name: str, minus: Sequence[Measured], minus_name: str
) -> str:
    """Formats the mean difference of two shares over tasks, with its interval."""
    estimates = []
    for measured, measured_minus in zip(measures, minus, strict=True):  # paired by task
        difference = measured.shares[name] - measured_minus.shares[minus_name]
        estimates.append(over_rows(difference, OF_GAIN))
    return gain_cell(over_tasks(estimates) if len(estimates) > 1 else estimates[0])


def _of_task(measured_all: Found, task: str, word_kind: str, method: str) -> list[Measured]:
    """Selects the measurements of a method on a task (or on all) with one kind of words."""
    measures = []
    for (measured_task, measured_kind), by_method in measured_all.items():
        if measured_kind == word_kind and task in (measured_task, ALL):
            measures.append(by_method[method])
    return measures


def _rows(measured: Found) -> list[tuple[str, str, str, list[Measured]]]:
    """Lists task, kind of words, method and measurements (of every task for the mean of tasks)."""
    tasks = list(dict.fromkeys(task for task, _ in measured))
    methods = next(iter(measured.values()))
    if len(tasks) > 1:  # the mean of a single task would repeat it
        tasks.insert(0, ALL)
    rows = []
    for task, word_kind, method in itertools.product(tasks, WORDS, methods):
        rows.append((task, word_kind, method, _of_task(measured, task, word_kind, method)))
    return rows

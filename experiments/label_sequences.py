"""Asks a model after every sequence of labels that four demonstrations can have.

Of a factorial design the share of each cause can be told: how many demonstrations have a label,
and which one stands last.
"""

import itertools
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, compare, get_method
from batch_calibration.scores import ScoreTable
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.data.texts import RowReader
from batch_calibration.scoring.embedded.label_words import POOLS
from batch_calibration.scoring.tasks.base import Row, Rows
from batch_calibration.settings import Cell, Settings
from batch_calibration.studies import Store
from batch_calibration.studies.scoring import ScoringProgress, run_scoring

DEMONSTRATIONS = 4
SEQUENCES = tuple(itertools.product((0, 1), repeat=DEMONSTRATIONS))  # 2^4 = 16
WORDS = ("own", *POOLS)


class Asked(NamedTuple):
    """What a model and corrections of its scores say of one task's rows with one kind of words.

    Attributes:
        scores: method -> [s c n 2]: draws, sequences, rows, labels.
        truth: [n].
        nearest: [s c n], the label of the demonstration that shares most words with the row.
    """

    scores: dict[str, np.ndarray]
    truth: np.ndarray
    nearest: np.ndarray


def fit(sequences: Sequence[Sequence[int]], means: Sequence[float]) -> tuple[float, float, float]:
    """Common, majority and recency bias, by least squares, in the unit of the means.

    `common + majority * balance + recency * last`, where `balance` is -1 to 1 for demonstrations
    all of the first label to all of the second, and `last` is -1 or 1.
    """
    design = [(1, 2 * np.mean(labels) - 1, 2 * labels[-1] - 1) for labels in sequences]  # [c, 3]
    common, majority, recency = np.linalg.lstsq(np.array(design), np.array(means), rcond=None)[0]
    return float(common), float(majority), float(recency)


def ask(
    settings: Settings,
    workdir: Path,
    progress: Callable[[ScoringProgress], None] | None = None,
    notify: Callable[[str], None] | None = None,
) -> dict[tuple[str, str], Asked]:
    """(task, words) -> what comes of each; scores are kept in the workdir, as of any study.

    `seeds` is how many draws there are of the demonstrations' texts and of the words, `limit` how
    many test rows are asked about, `methods` which corrections are compared.

    Raises:
        InputError: a task without two labels, a method that needs labeled rows, too few training
            rows, and what `run_scoring` raises.
    """
    settings = settings.replace(labeled_per_class=0)  # no method here reads one
    names = _methods(settings)
    reader, data_settings = RowReader(), settings.data
    rows = dict[str, tuple[Rows, Rows]]()
    for name in settings.tasks:
        task = load_task(name)
        if len(task.label_names) != 2:
            raise InputError(
                key="tasks",
                expected=f"tasks with two labels, {name} has {len(task.label_names)}",
                remedy="give such as sst2",
            )
        # The rows that are asked about.
        test = reader.texts(task, data_settings.data, data_settings.split, data_settings.limit)
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
        # The ids stand in the order of the cells.
        task_tables = [tables[next(ids)] for _ in of_key]
        answers[key] = _asked(task_tables, of_key, names, *rows[key[0]])
    return answers


def _methods(settings: Settings) -> list[str]:
    chosen = [*(settings.calibration.methods or ("cc", "dc", "pc", "bc")), "icl"]
    for name in chosen:
        if "labeled" in get_method(name).probe.blocks:
            raise InputError(
                f"{name} learns from a labeled set, and none is asked about here; leave it out.",
                key="methods",
            )
    return [name for name in METHODS if name in chosen]


def _choose(rows: Rows, seed: int, sequence: Sequence[int]) -> tuple[int, ...]:
    """Training rows with these labels, without a row twice."""
    # The same rows for every kind of words.
    rng, chosen = random.Random(f"{seed}/{sequence}"), list[int]()
    labels = np.array(rows.labels)
    for label in sequence:
        # No row twice in a prompt.
        pool = np.setdiff1d(np.flatnonzero(labels == label), chosen).tolist()
        if not pool:
            raise InputError(
                where=rows.where, expected=f"{DEMONSTRATIONS} rows or more of each label to show",
                got=f"{rows.labels.count(label)} of label {label}", remedy="give more rows",
            )  # fmt: skip
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
            f"one of {', '.join(names)} learns from {', '.join(lacking)}, which "
            f"{tables[0].context['task']} has not; name others.",
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
    """Of each row the number of the demonstration that shares most words, of equals the last."""
    shares = np.empty((len(rows), len(shown)))  # Jaccard's; two rows without words share nothing
    for (i, row_words), (j, shown_words) in itertools.product(
        enumerate(map(_words, rows)), enumerate(map(_words, shown))
    ):
        shares[i, j] = len(row_words & shown_words) / max(len(row_words | shown_words), 1)
    # Of equals the last: argmax finds the first, so the order is reversed.
    return len(shown) - 1 - shares[:, ::-1].argmax(axis=1)


def _words(row: Row) -> set[str]:
    return set(re.findall(r"\w+", " ".join(map(str, row.values())).lower()))

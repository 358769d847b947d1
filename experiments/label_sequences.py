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

from batch_calibration.data import RowReader, load_task
from batch_calibration.embedded.label_words import POOLS
from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, compare, get_method
from batch_calibration.scores import ScoreTable
from batch_calibration.settings import Cell, Settings
from batch_calibration.store import Store
from batch_calibration.study.scoring import ScoringProgress, run_scoring
from batch_calibration.tasks.base import Row, Rows

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

    Args:
        sequences: labels of demonstrations.
        means: after each of them the mean over rows of log p(second label) - log p(first).
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
                where="config.tasks",
                expected=f"tasks with two labels, {name} has {len(task.label_names)}",
                remedy="give such as sst2",
            )
        # The rows that are asked about.
        test = reader.texts(task, data_settings.data, data_settings.split, data_settings.limit)
        rows[name] = test, reader.texts(task, data_settings.data, data_settings.train_split)
    # In the order that the slices below count on: all cells of one (task, words) together.
    cells = [
        _cell(settings, task, word_kind, seed, _choose(rows[task][1], seed, sequence))
        for task, word_kind in itertools.product(settings.tasks, WORDS)
        for seed, sequence in itertools.product(range(settings.seeds), SEQUENCES)
    ]
    store = Store(workdir, create=True)
    ids = run_scoring(settings, cells, store, progress=progress, notify=notify).ids
    tables = {table.id: table for table in store.tables()[0]}
    size, asked_by_key = settings.seeds * len(SEQUENCES), dict[tuple[str, str], Asked]()
    for position, key in enumerate(itertools.product(settings.tasks, WORDS)):
        cell_slice = slice(position * size, (position + 1) * size)
        task_tables = [tables[table_id] for table_id in ids[cell_slice]]
        asked_by_key[key] = _asked(task_tables, cells[cell_slice], names, *rows[key[0]])
    return asked_by_key


def _methods(settings: Settings) -> list[str]:
    chosen = [*(settings.calibration.methods or ("cc", "dc", "pc", "bc")), "icl"]
    for name in chosen:
        if "labeled" in get_method(name).probe.blocks:
            raise InputError(
                f"config.methods: {name} learns from a labeled set, and none is asked about here; "
                "leave it out."
            )
    return [name for name in METHODS if name in chosen]


def _choose(rows: Rows, seed: int, sequence: Sequence[int]) -> tuple[int, ...]:
    """Training rows with these labels, without a row twice."""
    # The same rows for every kind of words.
    rng, chosen = random.Random(f"{seed}/{sequence}"), list[int]()
    for label in sequence:
        # No row twice in a prompt.
        pool = [i for i, y in enumerate(rows.labels) if y == label and i not in chosen]
        if not pool:
            raise InputError(
                where=rows.where,
                expected=f"{DEMONSTRATIONS} rows or more of each label to show",
                got=f"{rows.labels.count(label)} of label {label}",
                remedy="give more rows",
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
    needed = {"test", *(block for name in names for block in METHODS[name].probe.blocks)}
    if lacking := sorted(needed - set(tables[0].blocks)):
        raise InputError(
            f"config.methods: one of {', '.join(names)} learns from {', '.join(lacking)}, which "
            f"{tables[0].context['task']} has not; name others."
        )
    blocks = {  # [s * c, n, 2]
        name: (np.stack([table.blocks[name].log_probs for table in tables]),) for name in needed
    }
    corrected = compare(blocks, methods=names, key=jax.random.key(0))
    shape = (-1, len(SEQUENCES), len(test.rows))  # [s, c, n], the order of the cells
    near_labels = []
    for cell in cells:
        chosen = [int(i) for i in cell.prompt.demonstrations]
        nearest = _nearest(test.rows, [train.rows[i] for i in chosen])  # [n], which of the four
        near_labels.append(np.array([train.labels[i] for i in chosen])[nearest])
    return Asked(
        {
            name: np.asarray(correction.scores).reshape(*shape, 2)
            for name, correction in corrected.items()
        },
        np.array(test.labels),
        np.array(near_labels).reshape(shape),
    )


def _nearest(rows: Sequence[Row], shown: Sequence[Row]) -> np.ndarray:
    """Of each row the number of the demonstration that shares most words, of equals the last."""
    shown_words = [_words(row) for row in shown]
    shares = [  # Jaccard's; two rows without words share nothing
        [len(row_words & word_set) / max(len(row_words | word_set), 1) for word_set in shown_words]
        for row_words in map(_words, rows)
    ]
    # Of equals the last: argmax finds the first, so the order is reversed.
    return len(shown_words) - 1 - np.array(shares)[:, ::-1].argmax(axis=1)


def _words(row: Row) -> set[str]:
    return set(re.findall(r"\w+", " ".join(map(str, row.values())).lower()))

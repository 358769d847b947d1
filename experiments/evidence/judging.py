"""Predicts labels with all methods on all contexts, with one program per method and shape."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import signature
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration.base import weights_of
from batch_calibration.calibration.objective import one_hot
from batch_calibration.calibration.prototypes import MOST_PERMUTED
from batch_calibration.methods import METHODS, Evidence, Method, find_skipped
from batch_calibration.methods.run import pad_context, pad_rows
from batch_calibration.metrics import predict
from batch_calibration.scores import ScoreTable
from batch_calibration.typing import Key

KNOWN = " + true shares"
"""Suffix of the name of a method that gets the true label shares of the test rows."""


class Answers(NamedTuple):
    """Predictions of methods.

    Attributes:
        by_method: method -> predicted labels [n] of each table, or None for tables left out.
        skipped: method -> reason, for methods that fit no table.
        seconds: method -> duration in parallel with other methods, including compilation.
    """

    by_method: dict[str, list[np.ndarray | None]]
    skipped: dict[str, str]
    seconds: dict[str, float]


def answers(
    tables: Sequence[ScoreTable],
    methods: Sequence[str],
    *,
    knowing: Sequence[str] = (),
    seed: int = 0,
) -> Answers:
    """Predicts the labels of the test rows of each table with each method.

    Args:
        tables: score tables; a method is left out of tables that lack one of its probes.
        methods: names from `METHODS`.
        knowing: methods that also run with the true label shares as their option `target_prior`, as
            an upper bound.
        seed: seed of methods with a random start.
    """
    skipped = [find_skipped(table, methods) for table in tables]  # by table: name -> reason
    key = jax.random.key(seed)
    informed = [name for name in knowing if name in methods and takes_shares(name)]
    work = []
    for index, reasons_of_table in enumerate(skipped):
        usable = [name for name in methods if name not in reasons_of_table]
        work += [(index, name) for name in usable]
        work += [(index, name + KNOWN) for name in usable if name in informed]
    # Sequential methods take seconds and run first.
    work.sort(key=lambda pair: not _method(pair[1]).looped)
    slow_count = sum(_method(name).looped for _, name in work)
    answers_by_method: dict[str, list[np.ndarray | None]] = {}
    seconds: dict[str, float] = {}

    def answer_timed(pair: tuple[int, str]) -> tuple[np.ndarray, float]:
        index, name = pair
        test = tables[index].blocks["test"]
        blocks = {block: Evidence(*tables[index].blocks[block][:2]) for block in _read(name)}
        start = time.perf_counter()
        learned, rows = pad_context(_method(name), blocks, test.log_probs)
        gold = pad_rows(Evidence(test.log_probs, test.labels))
        # `np.asarray` waits for the result.
        predictions = np.asarray(_answers(learned, rows, gold, key, name=name))
        return predictions[: len(test.labels)], time.perf_counter() - start

    # With more labels than PC tries all permutations for, parallel runs of PC on a CPU have
    # deadlocked, so a single thread runs them.
    alone = any(len(table.label_names) > MOST_PERMUTED for table in tables)
    with ThreadPoolExecutor(1 if alone else os.cpu_count()) as pool:
        done = [*pool.map(answer_timed, work[:slow_count])]
        done += map(answer_timed, work[slow_count:])
    for (index, name), (guess, spent) in zip(work, done, strict=True):
        answers_by_method.setdefault(name, [None] * len(tables))[index] = guess
        seconds[name] = seconds.get(name, 0.0) + spent
    reasons, ordered = dict[str, str](), dict[str, list[np.ndarray | None]]()
    for method in methods:
        if all(method in reasons_of_table for reasons_of_table in skipped):
            reasons[method] = skipped[0][method]
        for name in (method, method + KNOWN):
            if name in answers_by_method:
                ordered[name] = answers_by_method[name]
    return Answers(ordered, reasons, seconds)


def _method(name: str) -> Method:
    return METHODS[name.removesuffix(KNOWN)]


def takes_shares(name: str) -> bool:
    """Returns True if a method can use given label shares."""
    return "target_prior" in signature(METHODS[name].make).parameters


def _read(name: str) -> tuple[str, ...]:
    return ("test", *_method(name).probe.blocks)


@partial(jax.jit, static_argnames="name")
def _answers(
    learned: Evidence, rows: jax.Array, gold: Evidence, key: Key, *, name: str
) -> jax.Array:
    """Predicts the labels [n] of one context."""
    shares = {"target_prior": _shares(gold)} if name.endswith(KNOWN) else {}
    chosen = _method(name).make(**shares)
    return predict(chosen.apply(chosen.fit(*learned, key=key), rows))


def _shares(rows: Evidence) -> jax.Array:
    """Computes the share of each label among the rows."""
    labels = jnp.asarray(rows.labels)
    # [n, k]; padding has weight 0
    gold = one_hot(rows.log_probs, labels) * weights_of(rows.log_probs, rows.weight)[:, None]
    return jnp.sum(gold, axis=0) / jnp.sum(gold)

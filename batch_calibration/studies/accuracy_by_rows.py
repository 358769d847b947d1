"""Measures accuracy as a function of the number of probe rows, or of stream rows seen so far."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration import metrics
from batch_calibration.calibration.base import predict
from batch_calibration.methods import METHODS, Evidence, Options, correct
from batch_calibration.studies.records import ByRows
from batch_calibration.typing import Key, Labels, Rows, Weight

Pairs = tuple[tuple[str, object], ...]
"""Options of one method as a hashable tuple, so that `jax.jit` can take them as static."""


def accuracy_by_size(
    test: Evidence,
    sizes: Sequence[int],
    methods: Collection[str],
    *,
    draws: int,
    seed: int,
    options: Mapping[str, Options] | None = None,
) -> dict[str, ByRows]:
    """Measures the accuracy of each method as a function of the number of probe rows.

    A method learns from a random subset of the n test rows and then predicts all n rows.

    Source: Zhou et al. 2024, Fig. 9.

    Args:
        test: log_probs [m k], labels [m], weight [m]: n rows, then padding with weight 0.
        sizes: numbers of probe rows; sizes of n or more are left out, and n is added.
        methods: names of methods; methods without a curve over probe sizes are left out.
        draws: number of random draws of rows for each size; the size n has one.
        seed: seeds the draws and the methods with a random start.
        options: method -> keyword arguments of its `make`.

    Returns:
        Method -> accuracy by number of probe rows, one value per draw.
    """
    log_probs, labels, present = test
    rows = len(log_probs) if present is None else int(np.sum(np.asarray(present)))
    used_sizes = [size for size in dict.fromkeys(sizes) if size < rows]
    # The second number makes these draws differ from other studies' draws with the same seed.
    random = np.random.default_rng([seed, 5])
    # A probe is a weight of 1 on its rows. All sizes thus share one shape and one compiled program.
    weights = np.zeros((len(used_sizes) * draws + 1, len(log_probs)), np.float32)
    for draw in range(len(used_sizes) * draws):
        # Each size has `draws` consecutive rows of weights.
        weights[draw, random.choice(rows, used_sizes[draw // draws], replace=False)] = 1
    weights[-1] = 1 if present is None else present  # The last probe holds all rows.
    by_method = {}
    for name in methods:
        if METHODS[name].over_probe_sizes:
            key, pairs = jax.random.key(seed), _option_pairs(options, name)
            accuracies = _accuracy_by_weight(name, log_probs, labels, weights, key, options=pairs)
            by_size = np.split(np.asarray(accuracies), np.arange(1, len(used_sizes) + 1) * draws)
            accuracy = tuple(tuple(of_draws.tolist()) for of_draws in by_size)
            by_method[name] = ByRows((*used_sizes, rows), accuracy)
    return by_method


@partial(jax.jit, static_argnames=("name", "options"))
def _accuracy_by_weight(
    name: str, log_probs: Rows, labels: Labels, weights: jax.Array, key: Key, *, options: Pairs
) -> jax.Array:
    """Returns the accuracies [p] of a method that learns from the rows with weight 1 [p n]."""

    def measure(weight: Weight) -> jax.Array:
        blocks = {"test": Evidence(log_probs, None, weight)}
        rows = jnp.asarray(log_probs)
        # With the key of the main comparison, a random start gives the same result on all rows.
        scores = correct(METHODS[name], blocks, rows, key=key, **dict(options)).scores  # type: ignore
        return metrics.accuracy(scores, labels)

    # `map` runs the probes in sequence: 100 starts of PC for all probes at once exceed the memory.
    accuracies: jax.Array = jax.lax.map(measure, jnp.asarray(weights))
    return accuracies


def seen_counts(rows: int) -> tuple[int, ...]:
    """Returns the numbers of rows seen at which accuracy is measured: 10, 20, 50, 100 ... and all.

    >>> seen_counts(130)
    (10, 20, 50, 100, 130)
    """
    round_counts = np.outer(10 ** np.arange(1, 10), (1, 2, 5)).ravel()
    return (*round_counts[round_counts < rows].tolist(), rows)


def accuracy_over_stream(
    test: Evidence,
    orders: int,
    methods: Collection[str],
    *,
    seed: int,
    options: Mapping[str, Options] | None = None,
) -> dict[str, ByRows]:
    """Measures the accuracy of each method along a stream of the test rows.

    A value is the accuracy on the rows between two successive numbers of rows seen.

    Args:
        test: log_probs [m k], labels [m], weight [m]: n rows, then padding with weight 0.
        orders: number of orders of the n rows.
        methods: names of methods; methods without a curve over streams are left out.
        seed: seeds the orders and the methods with a random start.
        options: method -> keyword arguments of its `make`.

    Returns:
        Method -> accuracy by number of rows seen, one value per order.
    """
    assert test.labels is not None
    log_probs, labels = np.asarray(test.log_probs), np.asarray(test.labels)
    rows = len(log_probs) if test.weight is None else int(np.asarray(test.weight).sum())
    random = np.random.default_rng([seed, 7])
    # The orders are rotations of one random order with evenly spaced starts. Each row is thus at
    # each position about equally often, and segments differ only in the rows seen before them.
    starts = np.arange(orders)[:, None] * rows // orders
    order = random.permutation(rows)[(starts + np.arange(rows)) % rows]  # [o n]
    counts = seen_counts(rows)
    # Methods learn from rows without a gold label, but these rows do not count for accuracy. A
    # segment without any gold label in one of the orders is left out.
    judged = np.add.reduceat(labels[order] >= 0, (0, *counts[:-1]), axis=1)  # [orders, stretches]
    has_value = (judged > 0).all(axis=0)
    seen = tuple(np.array(counts)[has_value].tolist())
    by_method = {}
    for name in methods:
        if METHODS[name].over_stream:
            rows_in_order, gold, key = log_probs[order], labels[order], jax.random.key(seed)
            pairs = _option_pairs(options, name)
            is_right = _right_in_order(name, rows_in_order, gold, key, options=pairs)
            right = np.add.reduceat(np.asarray(is_right), (0, *counts[:-1]), axis=1)
            shares = right[:, has_value] / judged[:, has_value]
            by_method[name] = ByRows(seen, tuple(map(tuple, shares.T.tolist())))
    return by_method


@partial(jax.jit, static_argnames=("name", "options"))
def _right_in_order(
    name: str, log_probs: jax.Array, labels: jax.Array, key: Key, *, options: Pairs
) -> jax.Array:
    """Returns 1 for each row [o n] that a method predicts correctly while it follows the order."""

    def judge(stream: tuple[Rows, Labels]) -> jax.Array:
        rows, gold = stream
        blocks = {"test": Evidence(rows)}
        scores = correct(METHODS[name], blocks, rows, key=key, **dict(options)).scores  # type: ignore
        return (predict(scores) == gold).astype(jnp.int32)

    is_right: jax.Array = jax.lax.map(judge, (log_probs, labels))
    return is_right


def _option_pairs(options: Mapping[str, Options] | None, name: str) -> Pairs:
    return tuple((options or {}).get(name, {}).items())

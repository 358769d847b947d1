"""Accuracy by rows: learned from (probe sizes), and seen so far (streams)."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration import metrics
from batch_calibration.calibration.base import predict
from batch_calibration.methods import METHODS, Evidence, Options, correct
from batch_calibration.studies import ByRows
from batch_calibration.typing import Key, Labels, Rows, Weight

Pairs = tuple[tuple[str, object], ...]
"""Options of one method, as a tuple: a compiled program can be kept under it."""


def accuracy_by_size(
    test: Evidence,
    sizes: Sequence[int],
    methods: Collection[str],
    *,
    draws: int,
    seed: int,
    options: Mapping[str, Options] | None = None,
) -> dict[str, ByRows]:
    """Measures the accuracy on all n rows of methods that learn from m of them, by method.

    Source: Zhou et al. 2024, Fig. 9.

    Args:
        test: log_probs [m k], labels [m], weight [m]; the n rows that are there come first.
        sizes: m; those not below n are left out, n is added.
        methods: the names of the methods; those that are not drawn over probe sizes are left out.
        draws: random draws of rows for each size, but one for n.
        seed: of the draws, and of methods that start at random.
        options: method -> what its `make` takes.
    """
    log_probs, labels, present = test
    rows = len(log_probs) if present is None else int(np.sum(np.asarray(present)))
    used_sizes = [size for size in dict.fromkeys(sizes) if size < rows]
    # The second number keeps these draws apart from those of other studies with one seed.
    random = np.random.default_rng([seed, 5])
    # A probe of m rows is the weight 1 on m rows: one shape, so one program for all sizes.
    weights = np.zeros((len(used_sizes) * draws + 1, len(log_probs)), np.float32)
    for draw in range(len(used_sizes) * draws):
        # `draws` rows of weights for each size
        weights[draw, random.choice(rows, used_sizes[draw // draws], replace=False)] = 1
    weights[-1] = 1 if present is None else present  # the last probe is all rows
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
    """Accuracy [p] of a method that learns from the rows that each of weights[p n] keeps."""

    def measure(weight: Weight) -> jax.Array:
        blocks = {"test": Evidence(log_probs, None, weight)}
        rows = jnp.asarray(log_probs)
        # The comparison's key: of all rows a method that starts at random finds the same here.
        scores = correct(METHODS[name], blocks, rows, key=key, **dict(options)).scores  # type: ignore
        return metrics.accuracy(scores, labels)

    # One at a time: 100 starts of PC for every size and draw at once would not fit.
    accuracies: jax.Array = jax.lax.map(measure, jnp.asarray(weights))
    return accuracies


def seen_counts(rows: int) -> tuple[int, ...]:
    """Numbers of rows seen: 10, 20, 50, 100 ... and all of them.

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
    """Measures the accuracy of the methods drawn over a stream, as test rows come in sequence.

    A value is the share of right predictions among the rows between two numbers of rows seen.

    Args:
        test: log_probs [m k], labels [m], weight [m]; the n rows that are there come first.
        orders: how many orders of the n rows.
        methods: the names of the methods; those that are not drawn over a stream are left out.
        seed: of the orders, and of methods that start at random.
        options: method -> what its `make` takes.
    """
    assert test.labels is not None
    log_probs, labels = np.asarray(test.log_probs), np.asarray(test.labels)
    rows = len(log_probs) if test.weight is None else int(np.asarray(test.weight).sum())
    random = np.random.default_rng([seed, 7])
    # One random order begun at as many places, evenly apart: each row comes at each place about
    # equally often, so that stretches of the stream differ by what has been seen before alone.
    starts = np.arange(orders)[:, None] * rows // orders
    order = random.permutation(rows)[(starts + np.arange(rows)) % rows]  # [o n]
    counts = seen_counts(rows)
    # Rows without a gold label are seen, and not judged; a stretch of such rows has no value.
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
    """Which rows [o n] a method that learns from them in their order predicts rightly."""

    def judge(stream: tuple[Rows, Labels]) -> jax.Array:
        rows, gold = stream
        blocks = {"test": Evidence(rows)}
        scores = correct(METHODS[name], blocks, rows, key=key, **dict(options)).scores  # type: ignore
        return (predict(scores) == gold).astype(jnp.int32)

    is_right: jax.Array = jax.lax.map(judge, (log_probs, labels))
    return is_right


def _option_pairs(options: Mapping[str, Options] | None, name: str) -> Pairs:
    return tuple((options or {}).get(name, {}).items())

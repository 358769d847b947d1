"""Accuracy by rows seen: methods that correct each row as it comes, in random orders."""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration.base import predict
from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, Evidence, Options, correct
from batch_calibration.store import OverStream
from batch_calibration.typing import Key, Labels, Rows


def check_orders(orders: int) -> None:
    """Refuses a number of orders below 0."""
    if orders < 0:
        raise InputError(
            where="stream_orders",
            expected="a whole number from 0 on",
            got=orders,
            remedy="0 leaves the curve of rows seen out",
        )


def points(rows: int) -> tuple[int, ...]:
    """Numbers of rows seen: 10, 20, 50, 100 ... and all of them.

    >>> points(130)
    (10, 20, 50, 100, 130)
    """
    several = (digit * 10**power for power in range(1, 10) for digit in (1, 2, 5))
    return (*(number for number in several if number < rows), rows)


def accuracy_over_stream(
    test: Evidence, orders: int, *, seed: int, options: Mapping[str, Options] | None = None
) -> OverStream:
    """Accuracy of the methods drawn over a stream, as the test rows come one after the other.

    A value is the share of right predictions among the rows between two numbers of rows seen. The
    orders are one random order begun at as many places, evenly apart: each row comes at each place
    about equally often, so that parts of the stream differ by what has been seen before alone.

    Args:
        test: log_probs [m k], labels [m], weight [m]; the n rows that are there come first.
        orders: how many orders of the n rows.
        seed: of the orders, and of methods that start at random.
        options: method -> what its `make` takes.
    """
    log_probs, labels, present = (None if part is None else np.asarray(part) for part in test)
    assert log_probs is not None and labels is not None
    rows = len(log_probs) if present is None else int(present.sum())
    random = np.random.default_rng([seed, 7])
    begin = np.arange(orders)[:, None] * rows // orders
    order = random.permutation(rows)[(begin + np.arange(rows)) % rows]
    seen = points(rows)
    # Rows without a gold label are seen, and not judged; a part of such rows alone has no value.
    known = np.add.reduceat(labels[order] >= 0, (0, *seen[:-1]), axis=1)
    whole = (known > 0).all(axis=0)
    found = {}
    for name, method in METHODS.items():
        if method.over_stream:
            mine = tuple((options or {}).get(name, {}).items())
            right = np.asarray(
                _right(name, log_probs[order], labels[order], jax.random.key(seed), options=mine)
            )
            parts = np.add.reduceat(right, (0, *seen[:-1]), axis=1)[:, whole] / known[:, whole]
            found[name] = tuple(tuple(of.tolist()) for of in parts.T)
    return OverStream(tuple(np.array(seen)[whole].tolist()), found)


@partial(jax.jit, static_argnames=("name", "options"))
def _right(
    name: str,
    log_probs: jax.Array,
    labels: jax.Array,
    key: Key,
    *,
    options: tuple[tuple[str, object], ...],
) -> jax.Array:
    """Which rows [o n] a method that learns from them in their order predicts rightly."""

    def one(stream: tuple[Rows, Labels]) -> jax.Array:
        rows, gold = stream
        evidence, chosen = {"test": Evidence(rows)}, dict(options)
        scores = correct(METHODS[name], evidence, rows, key=key, **chosen).scores  # type: ignore
        right: jax.Array = (predict(scores) == gold).astype(jnp.int32)
        return right

    right: jax.Array = jax.lax.map(one, (log_probs, labels))
    return right

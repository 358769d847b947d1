"""Accuracy by probe size: methods that learn from a few random rows of a batch."""

from collections.abc import Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, Evidence, Options, correct
from batch_calibration.metrics import table as metrics
from batch_calibration.store import ProbeSizes
from batch_calibration.typing import Key, Labels, Rows, Weight


def check_sizes(sizes: Sequence[int], draws: int) -> None:
    """Refuses a probe size below 1, and no draws."""
    if draws < 1:
        raise InputError(where="draws", expected="1 or more for each probe size", got=draws)
    if any(size < 1 for size in sizes):
        raise InputError(where="probe sizes", expected="1 or more rows", got=min(sizes))


def accuracy_by_size(
    test: Evidence,
    sizes: Sequence[int],
    *,
    draws: int,
    seed: int,
    options: Mapping[str, Options] | None = None,
) -> ProbeSizes:
    """Accuracy on all n rows of the methods drawn over probe sizes that learn from m of them.

    Source: Zhou et al. 2024, Fig. 9.

    Args:
        test: log_probs [m k], labels [m], weight [m]; the n rows that are there come first.
        sizes: m; those not below n are left out, n is added.
        draws: random draws of rows for each size, but one for n.
        seed: of the draws, and of methods that start at random.
        options: method -> what its `make` takes.
    """
    log_probs, labels, present = test
    rows = len(log_probs) if present is None else int(np.sum(np.asarray(present)))
    kept = [size for size in dict.fromkeys(sizes) if size < rows]
    random = np.random.default_rng([seed, 5])
    weights = np.zeros((len(kept) * draws + 1, len(log_probs)), np.float32)
    for row in range(len(kept) * draws):
        weights[row, random.choice(rows, kept[row // draws], replace=False)] = 1
    weights[-1] = 1 if present is None else present
    found = {}
    for name, method in METHODS.items():
        most = method.most_labels or log_probs.shape[-1]
        if method.over_probe_sizes and log_probs.shape[-1] <= most:
            mine = tuple((options or {}).get(name, {}).items())
            reached = _by_weight(
                name, log_probs, labels, weights, jax.random.key(seed), options=mine
            )
            parts = np.split(np.asarray(reached), np.arange(1, len(kept) + 1) * draws)
            found[name] = tuple(tuple(part.tolist()) for part in parts)
    return ProbeSizes((*kept, rows), found)


@partial(jax.jit, static_argnames=("name", "options"))
def _by_weight(
    name: str,
    log_probs: Rows,
    labels: Labels,
    weights: jax.Array,
    key: Key,
    *,
    options: tuple[tuple[str, object], ...],
) -> jax.Array:
    """Accuracy [p] of a method that learns from the rows that each of weights[p n] keeps."""

    def one(weight: Weight) -> jax.Array:
        evidence = {"test": Evidence(log_probs, None, weight)}
        rows, chosen = jnp.asarray(log_probs), dict(options)
        # The comparison's key: of all rows a method that starts at random finds the same here.
        scores = correct(METHODS[name], evidence, rows, key=key, **chosen).scores  # type: ignore
        return metrics.accuracy(scores, labels)

    # One at a time: 100 starts of PC for every size and draw at once would not fit.
    reached: jax.Array = jax.lax.map(one, jnp.asarray(weights))
    return reached

"""How often each method is right on labeled rows that it did not learn from."""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration.base import predict
from batch_calibration.methods import METHODS, Evidence, Method, gather, no_log_probs

Shares = tuple[float, ...]
FOLDS = 8
LEAST_LABELED = 16
"""Labeled rows below which nothing is measured."""


def measure(
    blocks: Mapping[str, Evidence], default: str, options: Mapping[str, Shares]
) -> dict[str, np.ndarray]:
    """Method -> whether each labeled row is predicted right by what the other rows teach.

    Rows are held out in `FOLDS` parts, the labels spread evenly over them. A method is left out if
    its blocks are not there, if it draws at random, depends on the order of rows or corrects only
    the rows that it learned from, or if it is a published variant of another.

    Args:
        blocks: "test" and "labeled", whose labels are all known, and others that are there.
        default: a method that is measured in any case.
        options: of `default`.
    """
    rows = np.asarray(blocks["test"].log_probs)
    names = [name for name, method in METHODS.items() if _measurable(method, blocks, rows)]
    # `default` comes last where it is none of them, as in the order of the sentences.
    hits = {}
    for name in dict.fromkeys([*names, default]):
        hits[name] = _hits(name, blocks, options if name == default else {})
    return hits


def _measurable(method: Method, blocks: Mapping[str, Evidence], rows: np.ndarray) -> bool:
    return (
        method.group != "variant"
        and set(method.probe.blocks) <= set(blocks)
        and not (method.needs_key or method.in_order or method.own_rows)
        # None stands for any number of labels
        and rows.shape[-1] <= (method.most_labels or rows.shape[-1])
        and not (method.needs_log_probs and no_log_probs(rows))
    )


def _hits(name: str, blocks: Mapping[str, Evidence], options: Mapping[str, Shares]) -> np.ndarray:
    gold = np.asarray(blocks["labeled"].labels)
    # Rows sorted by label are dealt out one by one, so that each fold has its share of labels.
    fold_of_row = np.empty(len(gold), int)
    fold_of_row[gold.argsort(kind="stable")] = np.arange(len(gold)) % FOLDS
    # [folds, m], 0 for rows held out
    weights = (fold_of_row != np.arange(FOLDS)[:, None]).astype(np.float32)
    # Only what the method reads: others would compile a program of their own.
    read = {block: blocks[block] for block in ("test", *METHODS[name].probe.blocks, "labeled")}
    # [folds, m]
    guesses = np.asarray(_held_out(weights, read, name=name, options=tuple(options.items())))
    # Each row is judged by the fold that held it out.
    return np.asarray(guesses[fold_of_row, np.arange(len(gold))] == gold)


@partial(jax.jit, static_argnames=("name", "options"))
def _held_out(
    weights: jax.Array, blocks: dict[str, Evidence], *, name: str,
    options: tuple[tuple[str, Shares], ...]  # hashable, as static arguments must be
) -> jax.Array:  # fmt: skip
    """Predictions [folds, m] for all labeled rows by what those of positive weight teach."""
    method, labeled = METHODS[name], blocks["labeled"]
    fit, apply = method.make(**dict(options))

    def of_fold(weight: jax.Array) -> jax.Array:
        # Rows held out weigh 0, so that all folds have one shape and share one compiled program.
        learned = {**blocks, "labeled": labeled._replace(weight=weight)}
        return predict(apply(fit(*gather(method, learned)), jnp.asarray(labeled.log_probs)))

    return jax.vmap(of_fold)(weights)


def ahead(hits: Mapping[str, np.ndarray], default: str) -> tuple[str, float, float]:
    """The method whose lead over `default` exceeds its standard error by most, or `default`.

    Returns:
        Its name, its lead in accuracy, and the standard error of that, paired by row.

    >>> ahead({"a": np.arange(9) < 3, "b": np.arange(9) < 8}, "a")[0]
    'b'
    """
    # By how much a lead exceeds its standard error; the default's own is 0.
    best, lead, error, most = default, 0.0, 0.0, 0.0
    for name, hit in hits.items():
        gains = hit.astype(float) - hits[default]
        mean, noise = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))
        if mean - noise > most:
            best, lead, error, most = name, mean, noise, mean - noise
    return best, lead, error

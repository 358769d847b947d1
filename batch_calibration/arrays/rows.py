"""Rows of scores with their labels and weights, as metrics and pure functions read them."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial, wraps
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.alignment import UNKNOWN, column_numbers, has_index, in_row_order
from batch_calibration.arrays.frames import is_frame, names_of
from batch_calibration.arrays.numbers import read_floats, read_numbers, read_whole_numbers
from batch_calibration.errors import InputError
from batch_calibration.typing import Container

SCORES_OR_LABELS = "scores [n, k] in nats, or the whole numbers [n] of predicted labels"
EACH_ANSWER = "give one row of scores, or one column index, per input"
MAX_PREDICTED_LABELS = 1000  # scores are made of them, a column for each

Result = TypeVar("Result")


def read_rows(
    scores: Container,
    labels: Container = None,
    weight: Container = None,
    *,
    columns: Sequence[Hashable] | None = None,
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """Rows [m, k], their labels [m] and their weights [m] for a pure function, traced or not.

    Weights of True and False are 1 and 0. Labels and weights that have an index are brought into
    the order of the scores, or of the labels where the scores have none (`in_row_order`); labels
    beside a frame may be names of its columns (`column_numbers`), whose order `columns` may give.

    Raises:
        InputError: no numbers; another shape, which would be broadcast in silence; an index that
            does not tell which rows belong together; a label without a column.
    """
    labels = in_row_order(labels, "labels", scores)
    weight = in_row_order(in_row_order(weight, "weight", scores), "weight", labels, "labels")
    rows = read_floats(scores, columns=columns if is_frame(scores) else None)
    if rows.ndim == 1:
        raise InputError(
            where="scores", expected="an array [n, k], one column per label",
            got=f"shape {rows.shape}, as predicted labels have",
            remedy="give the scores that the labels are predicted from",
        )  # fmt: skip
    if rows.ndim != 2:
        raise InputError(
            where="scores", expected="one context, an array [n, k]", got=f"shape {rows.shape}",
            remedy="map over the others by jax.vmap",
        )  # fmt: skip
    gold = None
    if labels is not None:
        labels = column_numbers(labels, columns or names_of(scores))
        numbers = read_whole_numbers(labels, "labels", rows.shape[1])
        refuse_without_column(numbers, "labels", rows.shape[1])
        gold = jnp.asarray(numbers, jnp.int32)  # of unsigned ones, too
    # A mask is a weight, though truth values are no scores.
    if has_index(weight):
        weight = weight.to_numpy()
    if isinstance(weight, jax.Array | np.ndarray) and jnp.issubdtype(weight.dtype, jnp.bool_):
        weight = jnp.asarray(weight, jnp.float32)
    weights = None if weight is None else read_floats(weight, "weight")
    for name, per_row in (("labels", gold), ("weight", weights)):
        if per_row is not None and per_row.shape != rows.shape[:1]:
            raise InputError(
                where=name, expected=f"one per row of the scores, shape {rows.shape[:1]}",
                got=per_row.shape, remedy="give as many as rows",
            )  # fmt: skip
    return rows, gold, weights


def refuse_without_column(labels: Container, where: str, k: int) -> None:
    """Refuse labels [..., m] that are no column of k and not -1; what jax traces cannot be seen."""
    if isinstance(labels, jax.core.Tracer):
        return
    numbers = np.asarray(labels)
    is_outside = (numbers < UNKNOWN) | (numbers >= k)
    if is_outside.any():
        first = np.argwhere(is_outside)[0]
        raise InputError(
            where=where, expected=f"indices from 0 to {k - 1}, or -1 for unknown",
            got=f"{int(numbers[tuple(first)])} in row {int(first[-1])}",
            remedy="name a column of the scores",
        )  # fmt: skip


def refuse_unordered(
    rows: jax.Array, labels: jax.Array | None = None, weights: jax.Array | None = None
) -> None:
    """Refuse rows [..., k] whose largest score is NaN or infinite: nothing tells what they favor.

    Rows without a label or a weight do not count, and what jax traces cannot be seen.
    """
    if any(isinstance(array, jax.core.Tracer) for array in (rows, labels, weights)):
        return
    largest = np.asarray(rows).max(axis=-1, initial=-np.inf)
    is_bad = ~np.isfinite(largest)
    if labels is not None:
        is_bad &= np.asarray(labels) > UNKNOWN
    if weights is not None:
        is_bad &= np.asarray(weights) > 0
    if is_bad.any():
        index = tuple(np.argwhere(is_bad)[0])
        score = "NaN" if np.isnan(largest[index]) else f"{largest[index]:+g}"
        raise InputError(
            where="scores", expected="rows whose largest score is a finite number",
            got=f"{score} in row {index[-1] if index else 0}",
            remedy="re-score that row or drop it; in metrics its label may be -1, for unknown",
        )  # fmt: skip


def reads_rows(
    function: Callable[..., Result], *, takes_predictions: bool = False
) -> Callable[..., Result]:
    """A metric of scores, labels and weight that reads them by `read_labeled` first.

    Its numbers are Python's, unless arrays of jax came, traced or not.
    """

    @wraps(function)
    def read_and_call(
        scores: Container, labels: Container, weight: Container = None, **options: object
    ) -> Result:
        rows = read_labeled(scores, labels, weight, are_answers=takes_predictions)
        return plain(function(*rows, **options), scores, labels, weight)

    if takes_predictions:  # read by `bootstrap_interval`
        read_and_call.takes_predictions = True  # type: ignore[attr-defined]
    return read_and_call


takes_predictions = partial(reads_rows, takes_predictions=True)
"""Like `reads_rows`, for a function that takes predicted labels [n] for scores [n, k] too."""


def read_labeled(
    scores: Container, labels: Container, weight: Container = None, *, are_answers: bool = False
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """What `read_rows` reads, where labels are needed and each row that counts favors one.

    With `are_answers` scores may be predicted labels [m].
    """
    if labels is None:
        read_whole_numbers(labels, "labels")
    if are_answers:
        # Before predictions become an array, which has no index.
        labels = in_row_order(labels, "labels", scores)
        weight = in_row_order(weight, "weight", scores)
        scores = scores_of_predictions(scores, labels)
    rows = read_rows(scores, labels, weight)
    refuse_unordered(*rows)
    return rows


def plain(result: Result, *sources: object) -> Result:
    """Scalars as Python's floats, unless arrays of jax are among what came or jax traces them."""
    if any(isinstance(source, jax.Array) for source in sources):
        return result

    def number(leaf: Container) -> Container:
        return leaf if isinstance(leaf, jax.core.Tracer) else float(leaf)

    numbers: Result = jax.tree.map(number, result)
    return numbers


def scores_of_predictions(source: object, labels: object) -> object:
    """Scores as they came; of predicted labels [n], scores [n, k] that predict them.

    >>> scores_of_predictions([1, 0], [0, 0]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if is_frame(source):
        return source
    array = read_numbers(source, "scores", SCORES_OR_LABELS, EACH_ANSWER)
    if array.ndim != 1 or array.size == 0:
        return array
    if isinstance(array, jax.core.Tracer) or isinstance(labels, jax.core.Tracer):
        raise InputError(
            "scores: predicted labels that jax.jit or jax.vmap traces do not say how many labels "
            "there are: give the scores [n, k] they are predicted from."
        )
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise InputError(
            where="scores", expected=SCORES_OR_LABELS,
            got=f"{type(source).__name__} [n] of {array.dtype}", remedy=EACH_ANSWER,
        )  # fmt: skip
    predicted = np.asarray(array)
    gold = np.asarray(read_whole_numbers(labels, "labels"))
    if predicted.min() < 0:
        row = int(predicted.argmin())
        raise InputError(
            where="scores", expected="predicted labels from 0 on",
            got=f"{predicted[row]} in row {row}",
            remedy="leave rows without a prediction out, or count them as wrong by a label of "
                "their own",
        )  # fmt: skip
    k = 1 + max(predicted.max(), gold.max(initial=0))  # `gold` may be empty
    if k > MAX_PREDICTED_LABELS:
        raise InputError(
            where="scores", expected=f"predicted labels below {MAX_PREDICTED_LABELS:,}",
            got=f"{k - 1:,}",
            remedy="give column indices",
        )  # fmt: skip
    # One at the predicted label, zero elsewhere: the argmax is the prediction.
    return np.eye(k, dtype=np.float32)[predicted]

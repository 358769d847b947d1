"""What may come as an array: the one place where scores, labels and weights are read."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.errors import InputError
from batch_calibration.typing import AnyArray

LARGEST = 1e6
"""Scores lie within so many nats of 0; what is farther out, such as float32's least number, is a
sentinel, and one of them decides the mean of its label."""

SCORES = "real numbers in an array [n, k], log-probabilities in nats"
EACH_SCORE = "give one row per input, one column per label"

Result = TypeVar("Result")


def numbers(given: object, where: str, expected: str, remedy: str) -> AnyArray:
    """An array of whole or real numbers as it came, jax's own or numpy's; a sentence otherwise.

    Lists, frames and tensors are read by numpy's protocols; arrays of jax, traced ones too, are
    left alone. Truth values, complex numbers, dates, texts, records, ragged lists and arrays with
    masked entries are no numbers.

    Args:
        given: what came.
        where: what to call it in the sentence.
        expected: what ought to have come.
        remedy: what to do.

    Raises:
        InputError: it is no array of numbers.

    >>> numbers([[-1, -2.5]], "scores", SCORES, EACH_SCORE).tolist()
    [[-1.0, -2.5]]
    """
    array: object = given
    found = ""
    if isinstance(given, np.ma.MaskedArray) and (masked := int(np.ma.getmaskarray(given).sum())):
        found = f" with {masked} masked entries"
    elif not isinstance(given, jax.Array):
        try:
            array = np.asarray(given)
            if array.dtype == object:
                array = np.asarray(array.tolist())
        except (TypeError, ValueError, RuntimeError) as error:
            found = f" ({str(error).splitlines()[0]})"
    if not found and isinstance(array, jax.Array | np.ndarray):
        kind = array.dtype
        if jnp.issubdtype(kind, jnp.integer) or jnp.issubdtype(kind, jnp.floating):
            return array
        found = f" of {kind}"
    raise InputError(
        f"{where}: expected {expected}; got {type(given).__name__}{found} that is no such array: "
        f"{remedy}."
    )


def whole_numbers(given: object, where: str, labels: int | str = "k") -> AnyArray:
    """An array of whole numbers of 32 bits as it came, or a sentence; it may be empty."""
    last = labels - 1 if isinstance(labels, int) else f"{labels} - 1"
    expected = "an array of whole numbers, the column of the right label"
    remedy = f"give indices from 0 to {last}, or -1 for unknown"
    array = numbers(given, where, expected, remedy)
    fits = array.size == 0 or jnp.issubdtype(array.dtype, jnp.integer)
    if fits and isinstance(array, np.ndarray):
        fits = bool((array.astype(np.int32) == array).all())
    if not fits:
        raise InputError(
            f"{where}: expected {expected}; got {type(given).__name__} of {array.dtype} that is no "
            f"such array: {remedy}."
        )
    return array


def real(given: object, where: str = "scores") -> jax.Array:
    """Scores for a pure function, float32 or wider; the values are not looked at."""
    array = numbers(given, where, SCORES, EACH_SCORE)
    if array.size == 0:
        raise InputError(
            f"{where}: expected at least one number; got shape {array.shape}: give the scores of "
            "at least one input."
        )
    wide = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize >= 4
    return jnp.asarray(array, None if wide else jnp.float32)


def read_rows(
    scores: ArrayLike, labels: ArrayLike | None = None, weight: ArrayLike | None = None
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """Rows [m, k], their labels [m] and their weights [m] for a pure function, traced or not.

    Weights of True and False are 1 and 0.

    Raises:
        InputError: no numbers; another shape, which would be broadcast in silence.
    """
    rows = real(scores)
    if rows.ndim != 2:
        raise InputError(
            f"scores: expected one context, an array [n, k]; got shape {rows.shape}: map over the "
            "others by jax.vmap."
        )
    gold = None if labels is None else jnp.asarray(whole_numbers(labels, "labels", rows.shape[1]))
    if isinstance(weight, jax.Array | np.ndarray) and jnp.issubdtype(weight.dtype, jnp.bool_):
        weight = jnp.asarray(weight, jnp.float32)
    weights = None if weight is None else real(weight, "weight")
    for name, one in (("labels", gold), ("weight", weights)):
        if one is not None and one.shape != rows.shape[:1]:
            raise InputError(
                f"{name}: expected one per row of the scores, shape {rows.shape[:1]}; got "
                f"{one.shape}: give as many as rows."
            )
    return rows, gold, weights


def of_rows(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function of scores, labels and weight that reads them by `read_rows` first."""

    @wraps(function)
    def reading(
        scores: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None, **options: object
    ) -> Result:
        return function(*read_rows(scores, labels, weight), **options)

    return reading

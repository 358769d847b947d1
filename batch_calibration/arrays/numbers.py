"""What may come as an array: the one place where scores, labels and weights are read."""

from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays.frames import FRAMES, is_frame, matrix, package, tensor_values
from batch_calibration.errors import InputError
from batch_calibration.typing import AnyArray, Key

SCORES = "real numbers in an array [n, k], log-probabilities in nats"
EACH_SCORE = "give one row per input, one column per label"

SCORES_OR_LABELS = "scores [n, k] in nats, or the whole numbers [n] of predicted labels"
EACH_ANSWER = "give one row of scores, or one column index, per input"
MAX_PREDICTED_LABELS = 1000  # scores are made of them, a column for each

Result = TypeVar("Result")


def read_numbers(source: object, where: str, expected: str, remedy: str) -> AnyArray:
    """An array of whole or real numbers as it came, jax's own or numpy's; a sentence otherwise.

    Lists and tensors are read by numpy's protocols, those of torch whatever their device and
    gradient; arrays of jax, traced ones too, are left alone. Truth values, complex numbers, dates,
    texts, records, ragged lists and arrays with masked entries are no numbers.

    Args:
        source: what came.
        where: what to call it in the sentence.
        expected: what ought to have come.
        remedy: what to do.

    Raises:
        InputError: it is no array of numbers.

    >>> read_numbers([[-1, -2.5]], "scores", SCORES, EACH_SCORE).tolist()
    [[-1.0, -2.5]]
    """
    array: object = source
    what_came = ""
    mask = (
        np.ma.getmaskarray(source) if isinstance(source, np.ma.MaskedArray) else np.zeros(0, bool)
    )
    # The mask of a structured array has its fields; the array is refused below.
    if mask.dtype == bool and mask.any():
        what_came = f" with {int(mask.sum())} masked entries"
    elif not isinstance(source, jax.Array):
        try:
            is_tensor = not isinstance(source, np.ndarray) and package(source) == "torch"
            array = tensor_values(source) if is_tensor else np.asarray(source)
            # Such as a list of arrays of jax; what is no array of numbers stays of objects.
            if array.dtype == object:
                array = np.asarray(array.tolist())
        except (TypeError, ValueError, RuntimeError) as error:
            what_came = f" ({str(error).splitlines()[0]})"
    if not what_came and isinstance(array, jax.Array | np.ndarray):
        dtype = array.dtype
        # numpy counts spans of time among the integers.
        is_whole = jnp.issubdtype(dtype, jnp.integer) and dtype.kind != "m"
        if is_whole or jnp.issubdtype(dtype, jnp.floating):
            return array
        what_came = f" of {dtype}"
    raise InputError(
        where=where,
        expected=expected,
        got=f"{type(source).__name__}{what_came} that is no such array",
        remedy=remedy,
    )  # fmt: skip


def read_scores(
    source: object, where: str = "scores", columns: Iterable[Hashable] | None = None
) -> AnyArray:
    """An array of scores as it came, of any shape, or the columns of a frame that hold scores.

    Args:
        source: what came.
        where: what to call it in the sentence.
        columns: of a frame, the names of the columns to read (see `frames.matrix`).

    Raises:
        InputError: it is no array of numbers; a frame with other columns than scores.
    """
    if package(source) in FRAMES:
        source = matrix(source, where, columns)
    elif columns is not None:
        raise InputError(
            where="columns",
            expected=f"none, for {where} came as {type(source).__name__}, whose columns "
            "have no names",
            remedy="leave columns= out, or give a data frame",
        )
    return read_numbers(source, where, SCORES, EACH_SCORE)


def read_whole_numbers(source: object, where: str, labels: int | str = "k") -> AnyArray:
    """An array of whole numbers of 32 bits as it came, or a sentence; it may be empty."""
    last = labels - 1 if isinstance(labels, int) else f"{labels} - 1"
    expected = "an array of whole numbers, the column of the right label"
    remedy = f"give indices from 0 to {last}, or -1 for unknown"
    array = read_numbers(source, where, expected, remedy)
    fits = array.size == 0 or jnp.issubdtype(array.dtype, jnp.integer)
    # 2**40 would be another label in 32 bits.
    if fits and isinstance(array, np.ndarray):
        fits = bool((array.astype(np.int32) == array).all())
    if not fits:
        raise InputError(
            where=where, expected=expected,
            got=f"{type(source).__name__} of {array.dtype} that is no such array", remedy=remedy,
        )  # fmt: skip
    return array


def read_floats(source: object, where: str = "scores") -> jax.Array:
    """Scores for a pure function, float32 or wider; the values are not looked at."""
    array = read_scores(source, where)
    if array.size == 0:
        raise InputError(
            where=where, expected="at least one number", got=f"shape {array.shape}",
            remedy="give the scores of at least one input",
        )  # fmt: skip
    # Half precision and whole numbers become float32; what is wider stays as jax has it.
    is_wide = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize >= 4
    return jnp.asarray(array, None if is_wide else jnp.float32)


def read_rows(
    scores: object, labels: object = None, weight: object = None
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """Rows [m, k], their labels [m] and their weights [m] for a pure function, traced or not.

    Weights of True and False are 1 and 0.

    Raises:
        InputError: no numbers; another shape, which would be broadcast in silence.
    """
    rows = read_floats(scores)
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
    gold = (
        None if labels is None else jnp.asarray(read_whole_numbers(labels, "labels", rows.shape[1]))
    )
    # A mask is a weight, though truth values are no scores.
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


def _read_labeled_rows(
    scores: object, labels: object, weight: object
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """What `read_rows` reads, where labels are needed: None is no array of them."""
    return read_rows(scores, read_whole_numbers(labels, "labels"), weight)


def reads_rows(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function of scores, labels and weight that reads them by `read_rows` first."""

    @wraps(function)
    def read_and_call(
        scores: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None, **options: object
    ) -> Result:
        return function(*_read_labeled_rows(scores, labels, weight), **options)

    return read_and_call


def takes_predictions(function: Callable[..., Result]) -> Callable[..., Result]:
    """Like `reads_rows`, for a function that takes predicted labels [n] for scores [n, k] too."""

    @wraps(function)
    def read_and_call(
        scores: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None, **options: object
    ) -> Result:
        return function(
            *_read_labeled_rows(scores_of_predictions(scores, labels), labels, weight), **options
        )

    # Read by `bootstrap_interval`.
    read_and_call.takes_predictions = True  # type: ignore[attr-defined]
    return read_and_call


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


def check_key(key: int | Key, where: str = "key") -> Key:
    """The `jax.random` key that a key or an int seed stands for.

    Raises:
        InputError: neither a key nor an int of 32 bits.
    """
    # jax.random.key drops the bits beyond: 2**40 would be the seed 0.
    if isinstance(key, int | np.integer) and -(2**31) <= key < 2**32:
        return jax.random.key(int(key))
    try:
        if key is None or isinstance(key, int):
            raise TypeError
        jax.random.split(key)  # raises unless it is one key
    except (TypeError, ValueError) as error:
        raise InputError(
            where=where, expected="one jax.random key or an int seed of at most 32 bits",
            got=f"{key!r}", remedy=f"give one such as {where}=0",
        ) from error  # fmt: skip
    return key

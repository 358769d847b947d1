"""What may come as an array: the one place where scores, labels and weights are read."""

from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays.frames import is_frame, matrix, package, tensor_values
from batch_calibration.errors import InputError
from batch_calibration.typing import AnyArray, Key

LARGEST = 1e6
"""Scores lie within so many nats of 0; what is farther out, such as float32's least number, is a
sentinel, and one of them decides the mean of its label."""

SCORES = "real numbers in an array [n, k], log-probabilities in nats"
EACH_SCORE = "give one row per input, one column per label"

SCORES_OR_LABELS = "scores [n, k] in nats, or the whole numbers [n] of predicted labels"
EACH_ANSWER = "give one row of scores, or one column index, per input"
MOST_ANSWERS = 1000

Result = TypeVar("Result")


def numbers(given: object, where: str, expected: str, remedy: str) -> AnyArray:
    """An array of whole or real numbers as it came, jax's own or numpy's; a sentence otherwise.

    Lists and tensors are read by numpy's protocols, those of torch whatever their device and
    gradient; arrays of jax, traced ones too, are left alone. Truth values, complex numbers, dates,
    texts, records, ragged lists and arrays with masked entries are no numbers.

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
    mask = np.ma.getmaskarray(given) if isinstance(given, np.ma.MaskedArray) else np.zeros(0, bool)
    # The mask of a structured array has its fields; the array is refused below.
    if mask.dtype == bool and mask.any():
        found = f" with {int(mask.sum())} masked entries"
    elif not isinstance(given, jax.Array):
        try:
            array = tensor_values(given) if package(given) == "torch" else np.asarray(given)
            if array.dtype == object:
                array = np.asarray(array.tolist())
        except (TypeError, ValueError, RuntimeError) as error:
            found = f" ({str(error).splitlines()[0]})"
    if not found and isinstance(array, jax.Array | np.ndarray):
        kind = array.dtype
        # numpy counts spans of time among the integers.
        whole = jnp.issubdtype(kind, jnp.integer) and kind.kind != "m"
        if whole or jnp.issubdtype(kind, jnp.floating):
            return array
        found = f" of {kind}"
    raise InputError(
        where=where, expected=expected, got=f"{type(given).__name__}{found} that is no such array",
        remedy=remedy,
    )  # fmt: skip


def read_scores(
    given: object, where: str = "scores", columns: Iterable[Hashable] | None = None
) -> AnyArray:
    """An array of scores as it came, of any shape, or the columns of a frame that hold scores.

    Args:
        given: what came.
        where: what to call it in the sentence.
        columns: of a frame, the names of the columns to read (see `frames.matrix`).

    Raises:
        InputError: it is no array of numbers; a frame with other columns than scores.
    """
    if is_frame(given):
        given = matrix(given, where, columns)
    elif columns is not None:
        raise InputError(
            where="columns",
            expected=f"none, for {where} came as {type(given).__name__}, whose columns "
            "have no names",
            remedy="leave columns= out, or give a data frame",
        )
    return numbers(given, where, SCORES, EACH_SCORE)


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
            where=where, expected=expected,
            got=f"{type(given).__name__} of {array.dtype} that is no such array", remedy=remedy,
        )  # fmt: skip
    return array


def real(given: object, where: str = "scores") -> jax.Array:
    """Scores for a pure function, float32 or wider; the values are not looked at."""
    array = read_scores(given, where)
    if array.size == 0:
        raise InputError(
            where=where, expected="at least one number", got=f"shape {array.shape}",
            remedy="give the scores of at least one input",
        )  # fmt: skip
    wide = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize >= 4
    return jnp.asarray(array, None if wide else jnp.float32)


def read_rows(
    scores: object, labels: object = None, weight: object = None
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """Rows [m, k], their labels [m] and their weights [m] for a pure function, traced or not.

    Weights of True and False are 1 and 0.

    Raises:
        InputError: no numbers; another shape, which would be broadcast in silence.
    """
    rows = real(scores)
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
    gold = None if labels is None else jnp.asarray(whole_numbers(labels, "labels", rows.shape[1]))
    if isinstance(weight, jax.Array | np.ndarray) and jnp.issubdtype(weight.dtype, jnp.bool_):
        weight = jnp.asarray(weight, jnp.float32)
    weights = None if weight is None else real(weight, "weight")
    for name, one in (("labels", gold), ("weight", weights)):
        if one is not None and one.shape != rows.shape[:1]:
            raise InputError(
                where=name, expected=f"one per row of the scores, shape {rows.shape[:1]}",
                got=one.shape, remedy="give as many as rows",
            )  # fmt: skip
    return rows, gold, weights


def _judged(
    scores: object, labels: object, weight: object
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """What `read_rows` reads, where labels are needed: None is no array of them."""
    return read_rows(scores, whole_numbers(labels, "labels"), weight)


def of_rows(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function of scores, labels and weight that reads them by `read_rows` first."""

    @wraps(function)
    def reading(
        scores: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None, **options: object
    ) -> Result:
        return function(*_judged(scores, labels, weight), **options)

    return reading


def of_answers(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function as of `of_rows` that takes predicted labels [n] in place of scores [n, k] too."""

    @wraps(function)
    def reading(
        scores: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None, **options: object
    ) -> Result:
        return function(*_judged(as_scores(scores, labels), labels, weight), **options)

    reading.of_answers = True  # type: ignore[attr-defined]
    return reading


def as_scores(given: object, labels: object) -> object:
    """Scores as they came; of predicted labels [n], scores [n, k] that predict them.

    >>> as_scores([1, 0], [0, 0]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if is_frame(given):
        return given
    array = numbers(given, "scores", SCORES_OR_LABELS, EACH_ANSWER)
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
            got=f"{type(given).__name__} [n] of {array.dtype}", remedy=EACH_ANSWER,
        )  # fmt: skip
    answers, gold = np.asarray(array), np.asarray(whole_numbers(labels, "labels"))
    if answers.min() < 0:
        row = int(answers.argmin())
        raise InputError(
            where="scores",
            expected="predicted labels from 0 on",
            got=f"{answers[row]} in row {row}",
            remedy="leave rows without a prediction out, or count them as wrong by a label of "
            "their own",
        )
    k = 1 + max(answers.max(), gold.max(initial=0))
    if k > MOST_ANSWERS:
        raise InputError(
            where="scores", expected=f"predicted labels below {MOST_ANSWERS:,}", got=f"{k - 1:,}",
            remedy="give column indices",
        )  # fmt: skip
    return np.eye(k, dtype=np.float32)[answers]


def looks_like_probs(scores: np.ndarray) -> bool:
    """Whether numbers can be probabilities and no log-probabilities: in [0, 1], sums at most 1.

    >>> looks_like_probs(np.array([[0.9, 0.1]])), looks_like_probs(np.array([[-0.1, -2.3]]))
    (True, False)
    """
    finite = np.where(np.isfinite(scores), scores, 0.0)
    inside = (finite >= 0).all() and (finite > 0).any()
    return bool(inside and (finite.sum(axis=-1) <= 1 + 1e-3).all())


def nats(scores: np.ndarray, where: str, from_probs: bool | None = None) -> np.ndarray:
    """Log-probabilities of what came, minus infinity where a probability is 0.

    Args:
        scores: of any shape, real numbers.
        where: what to call them in the sentence.
        from_probs: whether they are probabilities; None refuses what looks like them.

    >>> nats(np.array([[1.0, 0.0]]), "scores", from_probs=True).tolist()
    [[0.0, -inf]]
    """
    if from_probs:
        if not (np.isnan(scores) | ((scores >= 0) & (scores <= 1))).all():
            raise InputError(
                where=where,
                expected="probabilities from 0 to 1",
                got=f"{np.nanmin(scores):g} to {np.nanmax(scores):g}",
                remedy="leave from_probs=True (--from-probs) out if they are log-probabilities",
            )
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(scores))
    if from_probs is None and looks_like_probs(scores):
        raise InputError(
            where=where,
            expected="log-probabilities in nats",
            got="numbers from 0 to 1 whose rows sum to at most 1, which are probabilities",
            remedy="say from_probs=True (--from-probs), or from_probs=False (--no-from-probs) "
            "if they are scores of another kind",
        )
    return scores


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
        jax.random.split(key)
    except (TypeError, ValueError) as error:
        raise InputError(
            where=where,
            expected="one jax.random key or an int seed of at most 32 bits",
            got=f"{key!r}",
            remedy=f"give one such as {where}=0",
        ) from error
    return key

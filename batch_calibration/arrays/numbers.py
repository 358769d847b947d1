"""Reads arrays of scores, labels and weights: numbers are taken, all else is an InputError.

`read_numbers` is the one reader. The others are its doors: scores (`read_scores`), scores of a pure
function (`read_floats`), labels (`read_whole_numbers`), rows with both (`read_rows`), and the rows
of a metric (`read_labeled`).
"""

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.alignment import (
    UNKNOWN,
    column_numbers,
    has_index,
    in_row_order,
    is_text,
)
from batch_calibration.arrays.frames import is_frame, matrix, names_of, package, tensor_values
from batch_calibration.arrays.score_scale import find_scale
from batch_calibration.errors import InputError, shown
from batch_calibration.typing import AnyArray, Container, Key

SCORES = "real numbers in an array [n, k], log-probabilities in nats"
EACH_SCORE = "give one row per input, one column per label"
SCORES_OR_LABELS = "scores [n, k] in nats, or the whole numbers [n] of predicted labels"
EACH_ANSWER = "give one row of scores, or one column index, per input"
MIN_ROWS_OF_KIND = 5  # below these, logits such as 1 and 0 are like probabilities by chance
MAX_PREDICTED_LABELS = 1000  # scores are made of them, a column for each

USUAL: tuple[tuple[str, tuple[object, ...], Callable[..., AbstractContextManager[None]]], ...] = (
    ("jax_enable_x64", (False,), jax.enable_x64),
    ("jax_numpy_rank_promotion", ("allow",), jax.numpy_rank_promotion),
    ("jax_debug_nans", (False,), jax.debug_nans),
    ("jax_transfer_guard", ("allow", None), jax.transfer_guard),
)
"""Settings of JAX that an environment may change: the name, what is usual, and what sets it."""

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def usual_jax(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorates a function that users call: its numbers do not depend on JAX's environment.

    64 bits, broadcasting or transfers refused, and NaN as an error are for a user's own code. The
    traceback of an InputError ends here: the sentence says more than the frames that it came by.

    Raises:
        InputError: `JAX_PLATFORMS` names a platform that is not there.
    """

    @wraps(function)
    def call(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        with ExitStack() as stack:
            for name, usual, setting in USUAL:
                if getattr(jax.config, name) not in usual:
                    stack.enter_context(setting(usual[0]))
            try:
                return function(*args, **options)
            except InputError as error:
                raise error.with_traceback(None) from None
            # AssertionError where a plugin of JAX is not installed, such as that of "cuda".
            except (RuntimeError, AssertionError) as error:
                if _has_devices():
                    raise
                expected = "a platform that JAX has here"
                got = repr(os.environ.get("JAX_PLATFORMS", ""))
                remedy = "unset it, say JAX_PLATFORMS=cpu, or install the platform's JAX"
                raise InputError.at("JAX_PLATFORMS", expected, got, remedy) from error

    return call


def _has_devices() -> bool:
    try:
        return bool(jax.devices())
    except (RuntimeError, AssertionError):
        return False


def read_numbers(
    source: object, where: str, expected: str = SCORES, remedy: str = EACH_SCORE
) -> AnyArray:
    """An array of whole or real numbers, as it is: jax's own or numpy's.

    Lists and tensors are read by numpy's protocols, torch tensors from any device and with any
    gradient; jax arrays, traced or not, stay as they are.

    Raises:
        InputError: truth values, complex numbers, dates, texts, records, ragged lists, or an array
            with masked entries.

    >>> read_numbers([[-1, -2.5]], "scores").tolist()
    [[-1.0, -2.5]]
    """
    array: object = source
    problem = ""
    masked = np.ma.getmaskarray(source) if isinstance(source, np.ma.MaskedArray) else np.False_
    # The mask of a structured array has its fields; the array is refused below.
    if masked.dtype == bool and masked.any():
        problem = f" with {int(masked.sum())} masked entries"
    elif not isinstance(source, jax.Array):
        try:
            is_tensor = not isinstance(source, np.ndarray) and package(source) == "torch"
            array = tensor_values(source) if is_tensor else np.asarray(source)
            # For example a list of jax arrays; what is no array of numbers keeps the type object.
            if array.dtype == object:
                array = np.asarray(array.tolist())
        except (TypeError, ValueError, RuntimeError) as error:
            problem = f" ({str(error).splitlines()[0]})"
    if not problem and isinstance(array, jax.Array | np.ndarray):
        # numpy counts spans of time among the integers.
        is_whole = jnp.issubdtype(array.dtype, jnp.integer) and array.dtype.kind != "m"
        if is_whole or jnp.issubdtype(array.dtype, jnp.floating):
            return array
        problem = f" of {array.dtype}"
    got = f"{type(source).__name__}{problem} that is not one"
    raise InputError.at(where, expected, got, remedy)


def read_scores(
    source: object, where: str = "scores", columns: Iterable[Hashable] | None = None
) -> AnyArray:
    """An array of scores, of any shape; from a frame, the `columns` that hold scores."""
    if is_frame(source):
        source = matrix(source, where, columns)
    elif columns is not None:
        expected = f"none, for {where} came as {type(source).__name__}, whose columns have no names"
        raise InputError.at("columns", expected, remedy="leave columns= out, or give a data frame")
    return read_numbers(source, where)


def read_floats(
    source: object, where: str = "scores", columns: Iterable[Hashable] | None = None
) -> jax.Array:
    """Scores of a pure function as float32 or wider; their values are not checked."""
    array = read_scores(source, where, columns)
    if array.size == 0:
        expected = "at least one number"
        raise InputError.at(where, expected, f"shape {array.shape}", "give scores of some inputs")
    # Half precision and whole numbers become float32; wider types stay as jax has them.
    is_wide = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize >= 4
    return jnp.asarray(array, None if is_wide else jnp.float32)


def read_whole_numbers(source: object, where: str, labels: int | str = "k") -> AnyArray:
    """An array of whole numbers of 32 bits, such as labels; it may be empty."""
    last = labels - 1 if isinstance(labels, int) else f"{labels} - 1"
    expected = "an array of whole numbers, the column of the right label"
    remedy = f"give indices from 0 to {last}, or -1 for unknown"
    array = read_numbers(source, where, expected, remedy)
    fits = array.size == 0 or jnp.issubdtype(array.dtype, jnp.integer)
    # 2**40 would be another label in 32 bits.
    if fits and isinstance(array, np.ndarray):
        fits = bool((array.astype(np.int32) == array).all())
    if not fits:
        got = f"{type(source).__name__} of {array.dtype} that is not one"
        raise InputError.at(where, expected, got, remedy)
    return array


def check_key(key: int | Key, where: str = "key") -> Key:
    """The `jax.random` key that a key or an int seed stands for."""
    # jax.random.key drops the bits beyond: 2**40 would be the seed 0.
    if isinstance(key, int | np.integer) and -(2**31) <= key < 2**32:
        return jax.random.key(int(key))
    try:
        if key is None or isinstance(key, int):
            raise TypeError
        jax.random.split(key)  # raises unless it is one key
    except (TypeError, ValueError) as error:
        expected = "a jax.random key or an int seed of 32 bits"
        raise InputError.at(where, expected, f"{key!r}", f"give {where}=0") from error
    return key


# Rows with their labels and weights


def read_rows(
    scores: Container,
    labels: Container = None,
    weight: Container = None,
    *,
    columns: Sequence[Hashable] | None = None,
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """Rows [m, k], their labels [m] and their weights [m] for a pure function, traced or not.

    Weights True and False are 1 and 0. Labels and weights with an index are sorted like the scores,
    or like the labels if the scores have none (`in_row_order`). With a frame of scores, labels may
    be names of its columns (`column_numbers`), whose order `columns` may give.

    Raises:
        InputError: no numbers; another shape, which jax would broadcast without a word; indexes
            that do not match; a label without a column.
    """
    labels = in_row_order(labels, "labels", scores)
    weight = in_row_order(in_row_order(weight, "weight", scores), "weight", labels, "labels")
    rows = read_floats(scores, columns=columns if is_frame(scores) else None)
    if rows.ndim == 1:
        expected = "an array [n, k]"
        raise InputError.at("scores", expected, f"shape {rows.shape}", "give scores, not labels")
    if rows.ndim != 2:
        remedy = "map over the others by jax.vmap"
        raise InputError.at("scores", "one context [n, k]", f"shape {rows.shape}", remedy)
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
            expected = f"one per row of the scores, shape {rows.shape[:1]}"
            raise InputError.at(name, expected, per_row.shape, "give as many as rows")
    return rows, gold, weights


def refuse_without_column(labels: Container, where: str, k: int) -> None:
    """Refuse labels [..., m] that are no column of k and not -1; traced labels are not checked."""
    if isinstance(labels, jax.core.Tracer):
        return
    numbers = np.asarray(labels)
    is_outside = (numbers < UNKNOWN) | (numbers >= k)
    if is_outside.any():
        first = np.argwhere(is_outside)[0]
        expected = f"0 to {k - 1}, or -1 (unknown)"
        got = f"{int(numbers[tuple(first)])} in row {int(first[-1])}"
        raise InputError.at(where, expected, got, "name a column of the scores")


def refuse_unordered(
    rows: jax.Array, labels: jax.Array | None = None, weights: jax.Array | None = None
) -> None:
    """Refuse rows [..., k] whose largest score is NaN or infinite: they favor no label.

    Rows without a label or a weight do not count, and traced arrays are not checked.
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
        got = f"{score} in row {index[-1] if index else 0}"
        remedy = "re-score that row or drop it; in metrics its label may be -1, for unknown"
        raise InputError.at("scores", "rows whose largest score is a finite number", got, remedy)


def reads_rows(
    function: Callable[..., Result], *, takes_predictions: bool = False
) -> Callable[..., Result]:
    """Decorates a metric of scores, labels and weight: `read_labeled` reads them first.

    The metric returns Python's numbers, unless a jax array is among its arguments, and NaN where no
    row that counts has a known label.
    """

    @wraps(function)
    @usual_jax
    def read_and_call(
        scores: Container, labels: Container, weight: Container = None, **options: object
    ) -> Result:
        rows = read_labeled(scores, labels, weight, are_answers=takes_predictions)
        _, gold, weights = rows
        return to_python(_known(function(*rows, **options), gold, weights), scores, labels, weight)

    if takes_predictions:  # read by `bootstrap_interval`
        read_and_call.takes_predictions = True  # type: ignore[attr-defined]
    return read_and_call


def _known(result: Result, labels: jax.Array | None, weights: jax.Array | None) -> Result:
    """The metric of rows with labels and weights [n]; NaN where no row that counts has a label."""
    assert labels is not None, "read_labeled requires them"
    is_known = jnp.any((labels >= 0) if weights is None else (labels >= 0) & (weights > 0))
    if not isinstance(is_known, jax.core.Tracer) and is_known:
        return result

    def nan_if_unknown(number: Container) -> Container:
        is_array = isinstance(number, jax.Array)
        return jnp.where(is_known, number, jnp.nan) if is_array else float("nan")

    found: Result = jax.tree.map(nan_if_unknown, result)
    return found


takes_predictions = partial(reads_rows, takes_predictions=True)
"""Like `reads_rows`, for a function that also takes predicted labels [n] in place of scores."""


def read_labeled(
    scores: Container, labels: Container, weight: Container = None, *, are_answers: bool = False
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """Like `read_rows`, but labels are required and each row that counts must favor a label.

    With `are_answers`, scores may be predicted labels [m].
    """
    if labels is None:
        read_whole_numbers(labels, "labels")
    if are_answers:
        # Before predictions become an array, which has no index.
        labels = in_row_order(labels, "labels", scores)
        weight = in_row_order(weight, "weight", scores)
        if names := _texts(scores):
            known = _texts(labels)
            if not known:
                expected = "names, as the predicted labels are"
                raise InputError.at("labels", expected, type(labels).__name__, "name them")
            _refuse_other_names(set(map(str, names)), set(map(str, known)))
            names = list(dict.fromkeys([*names, *known]))
            scores, labels = column_numbers(scores, names), column_numbers(labels, names)
        scores = scores_of_predictions(scores, labels)
    rows = read_rows(scores, labels, weight)
    is_known = not isinstance(rows[0], jax.core.Tracer) and len(rows[0]) >= MIN_ROWS_OF_KIND
    if is_known and not are_answers:
        kind, evidence = find_scale(np.asarray(rows[0]))
        if kind in ("probabilities", "percentages", "losses"):
            expected = "log-probabilities, or scores like them"
            remedy = "give the logarithms of probabilities, or the negatives of losses"
            raise InputError.at("scores", expected, evidence, remedy)
    refuse_unordered(*rows)
    return rows


def _texts(values: object) -> list[str]:
    """The names in a series or an array of predicted or right labels, as `predict` gives them."""
    kind = str(getattr(values, "dtype", "")).lower()
    is_named = not is_frame(values) and kind.startswith(("<u", "str", "object", "categor"))
    return list(filter(is_text, values)) if is_named else []  # type: ignore[call-overload]


def _plain(name: str) -> str:
    return name.strip().casefold()


def _refuse_other_names(predicted: set[str], right: set[str]) -> None:
    """Refuse names of labels that are written otherwise in predictions than in right labels."""
    unseen, unpredicted = predicted - right, right - predicted
    plain = [set(map(_plain, unseen)), set(map(_plain, unpredicted))]
    # One label may always be predicted, and another always right.
    is_other = unseen == predicted and min(map(len, plain)) > 1
    if is_other or plain[0] & plain[1]:
        expected = f"the names of the right labels, {shown(sorted(right))}"
        raise InputError.at("scores", expected, shown(sorted(predicted)), "write them alike")


def to_python(result: Result, *sources: object) -> Result:
    """Scalars as Python's floats, unless a source is a jax array or jax traces them."""
    if any(isinstance(source, jax.Array) for source in sources):
        return result

    def number(leaf: Container) -> Container:
        return leaf if isinstance(leaf, jax.core.Tracer) else float(leaf)

    numbers: Result = jax.tree.map(number, result)
    return numbers


def scores_of_predictions(source: object, labels: object) -> object:
    """Scores unchanged; predicted labels [n] as scores [n, k] that predict them.

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
        got = f"{type(source).__name__} [n] of {array.dtype}"
        raise InputError.at("scores", SCORES_OR_LABELS, got, EACH_ANSWER)
    predicted = np.asarray(array)
    gold = np.asarray(read_whole_numbers(labels, "labels"))
    if predicted.min() < 0:
        row = int(predicted.argmin())
        got = f"{predicted[row]} in row {row}"
        remedy = "leave rows without a prediction out, or count them as wrong by a label "
        remedy += "of their own"
        raise InputError.at("scores", "predicted labels from 0 on", got, remedy)
    k = 1 + max(predicted.max(), gold.max(initial=0))  # `gold` may be empty
    if k > MAX_PREDICTED_LABELS:
        expected = f"predicted labels below {MAX_PREDICTED_LABELS:,}"
        raise InputError.at("scores", expected, f"{k - 1:,}", "give column indices")
    # One at the predicted label, zero elsewhere: the argmax is the prediction.
    return np.eye(k, dtype=np.float32)[predicted]

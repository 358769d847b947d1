"""Reads arrays of scores, labels and weights; input without numbers raises InputError.

`read_numbers` reads every array. The other functions call it for one purpose: scores
(`read_scores`), scores for a pure function (`read_floats`), labels (`read_whole_numbers`), rows
with labels and weights (`read_rows`), and the rows of a metric (`read_labeled`).
"""

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.alignment import UNKNOWN, column_numbers, has_index, in_row_order
from batch_calibration.arrays.frames import is_frame, matrix, names_of, package, tensor_values
from batch_calibration.arrays.score_scale import find_scale
from batch_calibration.errors import InputError, shown
from batch_calibration.typing import AnyArray, Container, Key

SCORES = "real numbers in an array [n, k], log-probabilities in nats"
EACH_SCORE = "give one row per input, one column per label"
SCORES_OR_LABELS = "scores [n, k] in nats, or the whole numbers [n] of predicted labels"
EACH_ANSWER = "give one row of scores, or one column index, per input"
MIN_ROWS_OF_KIND = 5  # in fewer rows, logits such as 1 and 0 resemble probabilities by chance
MAX_PREDICTED_LABELS = 1000  # each label becomes a column of scores
LEAST_KNOWN = 10  # known labels per column from which labels without 0 or the last one are doubted

USUAL: tuple[tuple[str, tuple[object, ...], Callable[..., AbstractContextManager[None]]], ...] = (
    ("jax_enable_x64", (False,), jax.enable_x64),
    ("jax_numpy_rank_promotion", ("allow",), jax.numpy_rank_promotion),
    ("jax_debug_nans", (False,), jax.debug_nans),
    ("jax_transfer_guard", ("allow", None), jax.transfer_guard),
)
"""JAX settings that an environment may change: name, default values, and context manager."""

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def usual_jax(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorates a public function so that JAX's settings do not change its results.

    Inside the function, numbers have 32 bits, and the checks for NaN, rank promotion and transfers
    are off. The traceback of an InputError ends here, because its message is clear without frames.

    Raises:
        InputError: `JAX_PLATFORMS` names a platform that JAX cannot use.
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
            # JAX raises AssertionError if a platform's plugin, such as "cuda", is not installed.
            except (RuntimeError, AssertionError) as error:
                if _has_devices():
                    raise
                expected = "a platform that is available to JAX"
                got = repr(os.environ.get("JAX_PLATFORMS", ""))
                remedy = "unset it, set JAX_PLATFORMS=cpu, or install JAX for this platform"
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
    """Reads an array of integers or floats as a numpy array; jax arrays stay jax arrays.

    Lists and tensors are converted by numpy's protocols. Torch tensors may be on any device and may
    require a gradient. jax arrays, traced or not, are returned unchanged.

    Raises:
        InputError: booleans, complex numbers, dates, strings, records, ragged lists, or an array
            with masked entries.

    >>> read_numbers([[-1, -2.5]], "scores").tolist()
    [[-1.0, -2.5]]
    """
    array: object = source
    problem = ""
    masked = np.ma.getmaskarray(source) if isinstance(source, np.ma.MaskedArray) else np.False_
    # The mask of a structured array has fields, too; the array itself is refused below.
    if masked.dtype == bool and masked.any():
        problem = f" with {int(masked.sum())} masked entries"
    elif not isinstance(source, jax.Array):
        try:
            is_tensor = not isinstance(source, np.ndarray) and package(source) == "torch"
            array = tensor_values(source) if is_tensor else np.asarray(source)
            # For example a list of jax arrays. Input without numbers keeps dtype object.
            if array.dtype == object:
                array = np.asarray(array.tolist())
        except (TypeError, ValueError, RuntimeError) as error:
            problem = f" ({str(error).splitlines()[0]})"
    if not problem and isinstance(array, jax.Array | np.ndarray):
        # numpy counts timedelta64 among the integers.
        is_whole = jnp.issubdtype(array.dtype, jnp.integer) and array.dtype.kind != "m"
        if is_whole or jnp.issubdtype(array.dtype, jnp.floating):
            return array
        problem = f" of {array.dtype}"
    got = f"{type(source).__name__}{problem}"
    raise InputError.at(where, expected, got, remedy)


def read_scores(
    source: object, where: str = "scores", columns: Iterable[Hashable] | None = None
) -> AnyArray:
    """Reads an array of scores of any shape, or the score columns of a frame."""
    if is_frame(source):
        source = matrix(source, where, columns)
    elif columns is not None:
        expected = f"none, because {where} of type {type(source).__name__} have no column names"
        raise InputError.at("columns", expected, remedy="leave columns= out, or give a data frame")
    return read_numbers(source, where)


def read_floats(
    source: object, where: str = "scores", columns: Iterable[Hashable] | None = None
) -> jax.Array:
    """Reads scores for a pure function as float32 or wider, without a check of their values."""
    array = read_scores(source, where, columns)
    if array.size == 0:
        expected = "at least one number"
        raise InputError.at(where, expected, f"shape {array.shape}", "give scores of some inputs")
    # Half precision and integers become float32; wider floats keep their type.
    is_wide = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize >= 4
    return jnp.asarray(array, None if is_wide else jnp.float32)


def read_whole_numbers(source: object, where: str, labels: int | str = "k") -> AnyArray:
    """Reads an array of 32-bit integers, such as labels; it may be empty."""
    last = labels - 1 if isinstance(labels, int) else f"{labels} - 1"
    expected = "an array of whole numbers, the column of the right label"
    remedy = f"give indices from 0 to {last}, or -1 for unknown"
    array = read_numbers(source, where, expected, remedy)
    fits = array.size == 0 or jnp.issubdtype(array.dtype, jnp.integer)
    # In 32 bits, 2**40 would become a different label.
    if fits and isinstance(array, np.ndarray):
        fits = bool((array.astype(np.int32) == array).all())
    if not fits:
        got = f"{type(source).__name__} of {array.dtype}"
        raise InputError.at(where, expected, got, remedy)
    return array


def check_key(key: int | Key, where: str = "key") -> Key:
    """Converts an int seed to a `jax.random` key; a key is returned unchanged."""
    # jax.random.key drops higher bits: 2**40 would be the seed 0.
    if isinstance(key, int | np.integer) and -(2**31) <= key < 2**32:
        return jax.random.key(int(key))
    try:
        if key is None or isinstance(key, int):
            raise TypeError
        jax.random.split(key)  # fails unless `key` is a single key
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
    """Reads rows [m, k], labels [m] and weights [m] for a pure function, traced or not.

    Boolean weights become 1 and 0. Labels and weights with an index are sorted like the scores, or
    like the labels if the scores have no index (`in_row_order`). Labels may be names of the score
    columns (`column_numbers`); `columns` selects these columns and gives their order.

    Raises:
        InputError: input without numbers; another shape, which jax would broadcast silently;
            indexes that do not match; a label without a column.
    """
    labels = in_row_order(labels, "labels", scores)
    weight = in_row_order(in_row_order(weight, "weight", scores), "weight", labels, "labels")
    rows = read_floats(scores, columns=columns if is_frame(scores) else None)
    if rows.ndim == 1:
        expected = "an array [n, k]"
        raise InputError.at("scores", expected, f"shape {rows.shape}", "give scores, not labels")
    if rows.ndim != 2:
        remedy = "map over other axes with jax.vmap"
        raise InputError.at("scores", "one context [n, k]", f"shape {rows.shape}", remedy)
    gold = None
    if labels is not None:
        labels = column_numbers(labels, columns or names_of(scores))
        numbers = read_whole_numbers(labels, "labels", rows.shape[1])
        refuse_without_column(numbers, "labels", rows.shape[1])
        gold = jnp.asarray(numbers, jnp.int32)  # also from unsigned integers
    # A boolean mask is a valid weight, although `read_floats` refuses booleans.
    if has_index(weight):
        weight = weight.to_numpy()
    if isinstance(weight, jax.Array | np.ndarray) and jnp.issubdtype(weight.dtype, jnp.bool_):
        weight = jnp.asarray(weight, jnp.float32)
    if weight is not None:
        weight = read_numbers(weight, "weight", "a number for each row", "give numbers from 0 on")
    weights = None if weight is None else read_floats(weight, "weight")
    for name, per_row in (("labels", gold), ("weight", weights)):
        if per_row is not None and per_row.shape != rows.shape[:1]:
            expected = f"one per row of the scores, shape {rows.shape[:1]}"
            raise InputError.at(name, expected, per_row.shape, "give as many as rows")
    is_traced = weights is None or isinstance(weights, jax.core.Tracer)
    if not is_traced and not (np.asarray(weights) >= 0).all():
        got, remedy = f"{np.min(np.asarray(weights)):g}", "give 0 for an absent row"
        raise InputError.at("weight", "weights of at least 0", got, remedy)
    return rows, gold, weights


def refuse_without_column(labels: Container, where: str, k: int) -> None:
    """Raises InputError if a label [..., m] is not in -1 to k - 1, or -1 may be a label.

    Labels of -1 and 1, or of -1 to k - 2, may be counted from -1. Traced labels are not checked.
    """
    if isinstance(labels, jax.core.Tracer):
        return
    numbers = np.asarray(labels)
    is_outside = (numbers < UNKNOWN) | (numbers >= k)
    if is_outside.any():
        first = np.argwhere(is_outside)[0]
        expected = f"0 to {k - 1}, or -1 (unknown)"
        got = f"{int(numbers[tuple(first)])} in row {int(first[-1])}"
        raise InputError.at(where, expected, got, "name a column of the scores")
    counts = np.bincount(numbers.ravel() + 1, minlength=k + 1)  # of -1, 0, 1, ...
    absent = np.flatnonzero(counts == 0).tolist()
    if absent == ([1] if k == 2 else [k]) and counts[1:].sum() >= LEAST_KNOWN * k:
        got = f"-1 to {max(1, k - 2)}, where -1 may mean a label or an unknown label"
        remedy = "give labels from 0 on or their names, or leave out rows of unknown label"
        raise InputError.at(where, f"labels from 0 to {k - 1}", got, remedy)


def refuse_unordered(
    rows: jax.Array, labels: jax.Array | None = None, weights: jax.Array | None = None
) -> None:
    """Raises InputError if the highest score of a row [..., k] is NaN or infinite.

    No label is predicted for this row. Rows of unknown label or weight 0 are not checked, and
    neither are traced arrays.
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
        raise InputError.at("scores", "rows with a finite number as largest score", got, remedy)


def reads_rows(
    function: Callable[..., Result], *, takes_predictions: bool = False
) -> Callable[..., Result]:
    """Decorates a metric so that `read_labeled` reads its scores, labels and weight.

    The metric returns Python floats, unless an argument is a jax array. It returns NaN if no row of
    positive weight has a known label.
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
    """Returns the metric's result, or NaN if no row of positive weight has a known label."""
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
"""A decorator like `reads_rows`, for a metric that also accepts predicted labels [n] as scores."""


def read_labeled(
    scores: Container, labels: Container, weight: Container = None, *, are_answers: bool = False
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """Reads the rows of a metric as `read_rows` does, and requires labels.

    With `are_answers`, scores may be predicted labels [m]. Otherwise, probabilities, percentages
    and losses are refused.

    Raises:
        InputError: as in `read_rows`; no labels; a row with a known label and a highest score that
            is NaN or infinite.
    """
    if labels is None:
        read_whole_numbers(labels, "labels")
    if are_answers:
        # Aligned first, because predictions lose their index below.
        labels = in_row_order(labels, "labels", scores)
        weight = in_row_order(weight, "weight", scores)
        if names := _texts(scores):
            known = _texts(labels)
            if not known:
                expected = "names of labels, as in the predictions"
                raise InputError.at("labels", expected, type(labels).__name__, "give names")
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
    """Returns the names in a series or an array of labels, [] if it holds no names."""
    kind = str(getattr(values, "dtype", "")).lower()
    is_named = not is_frame(values) and kind.startswith(("<u", "str", "object", "categor"))
    return [cell for cell in values if isinstance(cell, str)] if is_named else []  # type: ignore


def _plain(name: str) -> str:
    return name.strip().casefold()


def _refuse_other_names(predicted: set[str], right: set[str]) -> None:
    """Raises InputError if the predictions spell labels differently from the gold labels."""
    unseen, unpredicted = predicted - right, right - predicted
    plain = [set(map(_plain, unseen)), set(map(_plain, unpredicted))]
    # With only one predicted label, or only one gold label, different names are possible.
    is_other = unseen == predicted and min(map(len, plain)) > 1
    if is_other or plain[0] & plain[1]:
        expected = f"the names of the right labels, {shown(sorted(right))}"
        raise InputError.at("scores", expected, shown(sorted(predicted)), "spell them alike")


def to_python(result: Result, *sources: object) -> Result:
    """Converts scalars to Python floats, unless they are traced or a source is a jax array."""
    if any(isinstance(source, jax.Array) for source in sources):
        return result

    def number(leaf: Container) -> Container:
        return leaf if isinstance(leaf, jax.core.Tracer) else float(leaf)

    numbers: Result = jax.tree.map(number, result)
    return numbers


def scores_of_predictions(source: object, labels: object) -> object:
    """Converts predicted labels [n] to one-hot scores [n, k]; scores are returned unchanged.

    >>> scores_of_predictions([1, 0], [0, 0]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if is_frame(source):
        return source
    array = read_numbers(source, "scores", SCORES_OR_LABELS, EACH_ANSWER)
    if array.ndim != 1 or array.size == 0:
        return array
    if isinstance(array, jax.core.Tracer) or isinstance(labels, jax.core.Tracer):
        got = "predicted labels, traced by jax.jit or jax.vmap, which hide the number of labels"
        raise InputError.at("scores", "scores [n, k]", got, "give those that they come from")
    if not jnp.issubdtype(array.dtype, jnp.integer):
        got = f"{type(source).__name__} [n] of {array.dtype}"
        raise InputError.at("scores", SCORES_OR_LABELS, got, EACH_ANSWER)
    predicted = np.asarray(array)
    gold = np.asarray(read_whole_numbers(labels, "labels"))
    if predicted.min() < 0:
        row = int(predicted.argmin())
        got = f"{predicted[row]} in row {row}"
        remedy = "leave rows without a prediction out, or give them a label of their own"
        raise InputError.at("scores", "predicted labels from 0 on", got, remedy)
    k = 1 + max(predicted.max(), gold.max(initial=0))  # `gold` may be empty
    if k > MAX_PREDICTED_LABELS:
        expected = f"predicted labels below {MAX_PREDICTED_LABELS:,}"
        raise InputError.at("scores", expected, f"{k - 1:,}", "give column indices")
    # The argmax of a one-hot row is its prediction.
    return np.eye(k, dtype=np.float32)[predicted]

"""Checks of scores, labels and options on the host, and warnings about rows."""

import inspect
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import get_type_hints

import jax
import jax.core
import numpy as np

from batch_calibration.arrays import missing_scores, numbers
from batch_calibration.arrays.frames import column_names, is_frame
from batch_calibration.arrays.missing_scores import BOUND, LARGEST, Missing
from batch_calibration.arrays.score_scale import keep_differences, note_fillers, to_nats
from batch_calibration.calibration.base import Calibrator
from batch_calibration.errors import InputError, callers_level
from batch_calibration.typing import AnyArray, FromProbs

MIN_ROWS_WITHOUT_WARNING = 10
"""The fewest rows without a warning. Accuracy on all rows with a bias learned from 2, 10, 50 and
all rows: 37.8, 39.5, 40.3, 40.5 % (MMLU, 7 models, every eighth subject), 21.1, 23.9, 24.6, 24.8 %
(BEAR, GPT-2, 20 relations); ICL: 36.9, 18.6 (few_rows.py in the history at fe6aacd)."""


def check_scores(
    scores: object,
    where: str = "scores",
    *,
    labels: int | None = None,
    floor: float | None = None,
    from_probs: FromProbs = False,
    columns: Iterable[Hashable] | None = None,
    missing: Missing | None = None,
    bound: object = None,
    beside_others: bool = False,
) -> np.ndarray:
    """Checks scores [..., n, k] and returns them as float32, in nats.

    Values must lie within `arrays.LARGEST` nats of 0. Rows of 64 bits beyond 16,384 nats are
    returned as differences (see `arrays.keep_differences`), unless a floor is given.

    Args:
        scores: array-like, in nats.
        where: the name of the scores in messages.
        labels: k, if it is already known.
        floor: if given, minus infinity and low sentinels are accepted; the calibrator raises them
            to `floor` nats.
        from_probs: True for probabilities, "counts" for counts of a row's sampled answers. None
            detects the scale and refuses numbers that are neither log-probabilities nor scores of
            another kind (see `arrays.find_scale`). False accepts all numbers, for scores that were
            read before.
        columns: the names of a frame's score columns.
        missing: the treatment of labels that were not returned, if any (see `arrays.Missing`).
        bound: with `missing`, the lowest log-probability returned for each row.
        beside_others: True if other rows of the same call are logits or the like.

    Raises:
        InputError: not real numbers, not [n, k], empty, one label, another k, NaN, an infinity, a
            sentinel; an invalid floor; an array traced by `jax.jit`.

    >>> check_scores([[-1.0, -2.0]]).shape
    (1, 2)
    """
    if floor is not None:
        check_floor(floor)
    array = _host(numbers.read_scores(scores, where, columns), where)
    # float64 is kept, so that sentinels beyond float32 differ from infinities.
    array = array.astype(np.promote_types(array.dtype, np.float32))
    if array.ndim < 2:
        expected = "an array [n, k], one row per input and one column per label"
        raise InputError.at(where, expected, f"shape {array.shape}", "reshape it")
    if array.size == 0:
        remedy = "give the scores of at least one input"
        raise InputError.at(where, "at least one row and one label", f"shape {array.shape}", remedy)
    # The softmax over one label is 1 for any score.
    if array.shape[-1] == 1:
        raise InputError.at(where, "at least 2 labels", "1 column", "give one column per label")
    if labels is not None and array.shape[-1] != labels:
        expected = f"{labels} columns, one per label as in scores"
        raise InputError.at(where, expected, f"{array.shape[-1]}", "score the same labels")
    names = columns or (column_names(scores) if is_frame(scores) else ())
    # Converted first, because `missing` and `bound` are in nats.
    array = to_nats(array, where, from_probs, names=names, beside_others=beside_others)
    for note in note_fillers(array) if from_probs is None else ():
        warnings.warn(f"{where}: {note}", stacklevel=callers_level())
    if from_probs is True:
        where = f"{where} (logarithms of probabilities)"
    if missing is not None:
        if bound is not None:
            expected = "one number of nats per row"
            bound = np.asarray(numbers.read_numbers(bound, "bound", expected, BOUND))
        array = missing_scores.fill_every_row(array, missing, bound, where)
    elif bound is not None:
        raise InputError("bound: it is used only with missing=; give missing='least' too.")
    missing_scores.refuse_unusable(array, where, is_floored=floor is not None)
    if floor is None:
        array = keep_differences(array)
    # Numbers beyond float32 become minus infinity here, and the floor raises them.
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _host(array: AnyArray, where: str) -> np.ndarray:
    """Converts an array to numpy, so that its values can be checked; refuses traced arrays."""
    if isinstance(array, jax.core.Tracer):
        expected = "an array whose values can be checked"
        remedy = "use the pure pair there, fit, apply = METHODS[name].make()"
        raise InputError.at(where, expected, "one that jax.jit or jax.vmap traces", remedy)
    return np.asarray(array)


def no_log_probs(scores: np.ndarray) -> str:
    """Returns the reason why scores [..., n, k] cannot be log-probabilities, "" if they can.

    The probabilities of mutually exclusive labels sum to at most 1.

    >>> no_log_probs(np.log([[0.5, 0.2], [0.9, 0.8]]))
    'the probabilities of row 1 sum to 1.7'
    """
    # Clipped, because exp(50) is far above 1 already and exp(800) would overflow.
    sums = np.exp(np.minimum(scores, 50.0), dtype=np.float64).sum(axis=-1).reshape(-1)
    row = int(sums.argmax())
    # 1e-3 allows for rounding.
    return f"the probabilities of row {row} sum to {sums[row]:.3g}" if sums[row] > 1 + 1e-3 else ""


def look_like_cosines(scores: np.ndarray) -> bool:
    """Checks whether all scores lie between -1 and 1 and cannot be log-probabilities.

    >>> look_like_cosines(np.array([[0.31, 0.28]])), look_like_cosines(np.array([[-0.9, -0.6]]))
    (True, False)
    """
    return bool((np.abs(scores) <= 1 + 1e-3).all() and no_log_probs(scores))


def check_labels(labels: object, scores: np.ndarray, where: str = "labels") -> np.ndarray:
    """Checks label indices, one per row of `scores`, and returns them as int32; -1 means unknown.

    Raises:
        InputError: not integers, another length, an index without a label, no known label.

    >>> check_labels([0, -1], np.zeros((2, 3))).tolist()
    [0, -1]
    """
    array = _host(numbers.read_whole_numbers(labels, where, scores.shape[-1]), where)  # [..., n]
    if array.shape != scores.shape[:-1]:
        expected = f"one label per row, shape {scores.shape[:-1]}"
        raise InputError.at(where, expected, array.shape, "give as many labels as rows")
    numbers.refuse_without_column(array, where, scores.shape[-1])
    unknown = np.argwhere((array < 0).all(axis=-1))  # contexts without any known label
    if len(unknown):
        context = tuple(int(i) for i in unknown[0])
        at = f" in context {context}" if context else ""
        expected = f"at least one known label{at}; all {array.shape[-1]} are -1, unknown"
        raise InputError.at(where, expected, remedy="give the label of at least one row")
    return array.astype(np.int32)


def check_floor(floor: float) -> None:
    """Raises InputError unless the floor, in nats, is a finite number below 0."""
    if _shape(floor) != () or not -LARGEST <= floor < 0:  # () is the shape of one number
        remedy = "give the lowest log-probability that matters, such as floor=-100.0, not below "
        remedy += f"{-LARGEST:g}"
        raise InputError.at("floor", "a finite number of nats below 0", repr(floor), remedy)


# Annotation of an option -> a check of its value, and the expected kind in words.
_KINDS: dict[type, tuple[Callable[[object], bool], str]] = {
    bool: (lambda option: isinstance(option, bool | np.bool_), "True or False"),
    int: (lambda option: isinstance(option, int | np.integer), "a whole number"),
    float: (lambda option: _shape(option) == (), "a finite number"),
    str: (lambda option: isinstance(option, str), "a name"),
}


def check_options(
    method: str, make: Callable[..., Calibrator], options: Mapping[str, object], labels: int
) -> dict[str, object]:
    """Checks options and returns them: each must be known, of the right kind, and for k labels.

    `floor` is an option of every method and is checked with the scores. `make` checks names and
    counts.

    Args:
        method: the name of the method in messages.
        make: options -> calibrator; its annotations give the kinds of the options. Arguments that a
            `functools.partial` has set are not options.
        options: the options to check.
        labels: k.

    Raises:
        InputError: an unknown option, an option of another kind, or an array for another k.
    """
    if not options:
        return {}
    annotated = inspect.unwrap(make)
    already_set = {"floor"}
    # The annotations are on the function inside the partials.
    while isinstance(annotated, partial):
        already_set, annotated = already_set | set(annotated.keywords), annotated.func
    parameters = dict(inspect.signature(make).parameters)
    for name in already_set:
        parameters.pop(name, None)
    kinds = get_type_hints(annotated)
    checked = dict(options)
    for option, chosen in options.items():
        if option == "floor":
            continue
        if option not in parameters:
            raise InputError.unknown(f"option of {method}", option, (*parameters, "floor"))
        kind = kinds.get(option)
        # A prior and start means have separate checks below.
        if kind not in _KINDS:
            continue
        fits, expected = _KINDS[kind]
        if not fits(chosen):
            remedy = f"give one such as {option}={parameters[option].default!r}"
            raise InputError.at(option, expected, repr(chosen), remedy)
        checked[option] = kind(chosen)  # numpy's scalars become Python's
    _check_prior(options.get("target_prior"), labels)
    _check_start_means(options.get("start_means"), labels)
    _check_expected_bias(options.get("expected_bias"), labels)
    return checked


def _check_prior(prior: object, labels: int) -> None:
    if prior is None:
        return
    if _shape(prior) == (labels,):
        # Shares are often written with few digits, such as 0.333.
        shares = np.asarray(prior, np.float32)
        if (shares >= 0).all() and abs(shares.sum() - 1) <= 1e-3:
            return
    expected = f"{labels} shares of at least 0 that sum to 1, one per label"
    remedy = "give the share of each label among the test rows, 0 for a label that is never right"
    raise InputError.at("target_prior", expected, f"{prior!r}", remedy)


def _check_start_means(means: object, labels: int) -> None:
    if means is None:
        return
    shape = _shape(means)  # [s, k, k]
    if shape is None or len(shape) != 3 or shape[0] == 0 or shape[1:] != (labels, labels):
        expected = f"finite numbers [s, {labels}, {labels}], one mean per label in each of s starts"
        got = f"{(type(means).__name__ if shape is None else f'shape {shape}')}"
        remedy = f"give s times {labels} rows of log-probabilities in nats"
        raise InputError.at("start_means", expected, got, remedy)


def _check_expected_bias(bias: object, labels: int) -> None:
    if bias is not None and _shape(bias) != (labels,):
        expected = f"{labels} finite numbers in nats, one per label"
        remedy = "give the bias toward which the estimate is shrunken"
        raise InputError.at("expected_bias", expected, f"{bias!r}", remedy)


def _shape(option: object) -> tuple[int, ...] | None:
    """Returns the shape of an array of finite float32 numbers, None for anything else."""
    try:
        array = np.asarray(numbers.read_numbers(option, "", "", ""))
    except InputError:
        return None
    # NaN fails this comparison too.
    return array.shape if (np.abs(array) <= np.finfo(np.float32).max).all() else None


def warn_of_few_rows(method: str, reads: Sequence[str], rows: int, where: str = "scores") -> None:
    """Warns if a method that reads the batch has few rows."""
    if "test" not in reads or rows >= MIN_ROWS_WITHOUT_WARNING:
        return
    warning = f"{method} learns its bias from {rows} rows, which is rough"
    if rows == 1:
        warning = f"{method} has one row to learn from, so all corrected scores are equal"
    warnings.warn(
        f"{where}: {warning}; give {MIN_ROWS_WITHOUT_WARNING} rows of one prompt or more, or fit "
        "on earlier ones.",
        stacklevel=callers_level(),
    )

"""Numbers of a diagnosis: preference, error, changed and fragile predictions, gain."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from batch_calibration.api import calibrate
from batch_calibration.arrays.alignment import column_numbers, in_row_order
from batch_calibration.arrays.frames import is_frame, names_of
from batch_calibration.arrays.missing_scores import fill_scores
from batch_calibration.arrays.numbers import read_scores, usual_jax
from batch_calibration.calibration.shift import LEAST_STATED_SHARE
from batch_calibration.diagnosis.diagnosis import Diagnosis, Right, unit_of
from batch_calibration.errors import InputError, refuse_unknown, shown
from batch_calibration.methods import METHODS, Evidence, ask_about_order, run, validation
from batch_calibration.methods.run import holds_cosines
from batch_calibration.metrics import Estimate, accuracy_of, gain_of, mean_recall_interval
from batch_calibration.scores import ScoreTable, check_distinct

UNIT_ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 0.0, "float64": 0.0}
"""By how much of itself a number of a half-precision dtype is rounded at most; 0 in full ones."""
ROUNDINGS = 2
"""So many roundings of both scores; of a Llama in bfloat16, the only model looked at whose labels
lie that close, 34 of 37 predictions that flip have a smaller margin
(half_precision.py of the evidence)."""


def centered_error(rows: np.ndarray) -> np.ndarray:
    """The standard error of each label's mean score less the mean over labels.

    The preference of label j is the mean over rows of r_ij = s_ij - mean_l s_il, so its standard
    error is sd(r_j) / sqrt(n), with n - 1 in the variance.

    Args:
        rows: [n, k], in nats.

    Returns:
        [k], in nats; NaN for one row, which tells no error.

    >>> centered_error(np.array([[0.0, 2.0], [0.0, 4.0]])).tolist()
    [0.5, 0.5]
    """
    return _error(rows - rows.mean(axis=-1, keepdims=True))


def pair_error(rows: np.ndarray, high: int, low: int) -> float:
    """The standard error of the mean of s_high - s_low, in nats; NaN for one row.

    >>> pair_error(np.array([[0.0, 2.0], [0.0, 4.0]]), 1, 0)
    1.0
    """
    return float(_error(rows[:, high] - rows[:, low]))


def _error(per_row: np.ndarray) -> np.ndarray:
    n = len(per_row)
    if n < 2:
        return np.full(per_row.shape[1:], np.nan)
    return np.asarray(per_row.std(axis=0, ddof=1, dtype=np.float64) / np.sqrt(n))


def rows_needed(error: float, rows: int, target_error: float = 0.1) -> int | None:
    """The rows that bring a standard error down to `target_error` nats; None where it is not known.

    An error falls with the square root of the rows: n (e / target_error)^2, and two at least.

    >>> rows_needed(0.2, 10)
    40
    """
    if np.isnan(error):
        return None
    # Rounded first: 0.2 / 0.1 is a little more than 2 squared.
    return max(2, int(np.ceil(round(rows * (error / target_error) ** 2, 6))))


def find_fragile(
    rows: np.ndarray, corrected: np.ndarray, which: np.ndarray, *, strength: float = 1.0
) -> np.ndarray:
    """Rows among some whose prediction under BC changes if one row is left out of the batch.

    Without row j the bias is (m b - s_j) / (m - 1). So the lead of label p over label a moves by
    strength * (d_jp - d_ja) / (m - 1) with d_j = s_j - b, and one extreme over j for each pair of
    labels decides for all rows: O(n k^2), not O(n^2 k). The row itself may be the one left out.

    Args:
        rows: [n, k], all rows of the batch, in nats.
        corrected: [n, k], s - strength * b, or that plus constants for labels.
        which: indices of the rows in question.
        strength: the paper's gamma.

    Returns:
        Indices out of `which`; all of them are stable in a batch of one row, which has no other.

    >>> rows = np.array([[0.0, 1.0], [0.0, 1.1], [0.0, 3.0]])
    >>> find_fragile(rows, rows - rows.mean(axis=0), np.array([0, 1])).tolist()
    [1]
    """
    if len(rows) < 2 or not len(which):
        return np.array([], int)
    # [n, k], by how much leaving a row out moves the bias.
    moves = strength * (rows - rows.mean(axis=0)) / (len(rows) - 1)
    guess = corrected[which].argmax(axis=-1)
    is_fragile = np.zeros(len(which), bool)
    for label in np.unique(guess):
        of_label = guess == label
        # The worst row to leave out, for each pair of labels.
        least_move = (moves[:, [label]] - moves).min(axis=0)
        # [rows of this label, k], nats
        leads = corrected[which[of_label]][:, [label]] - corrected[which[of_label]]
        is_other_label = np.arange(rows.shape[-1]) != label
        is_fragile[of_label] = ((leads + least_move) < 0)[:, is_other_label].any(axis=-1)
    return which[is_fragile]


def find_rounded(scores: np.ndarray, corrected: np.ndarray, dtype: str) -> np.ndarray:
    """The rows whose two best labels, corrected, lie closer than a model's numbers are rounded.

    Args:
        scores: [n, k], in nats; the larger a score, the more of it is lost.
        corrected: [n, k].
        dtype: what the model computed in; none of the rows is meant in full precision.

    Raises:
        InputError: an unknown dtype.

    Returns:
        Their indices: another order of the same sums may predict otherwise.

    >>> scores = np.array([[-8.0, -10.0], [-8.0, -8.1]])
    >>> find_rounded(scores, scores, "bfloat16").tolist()
    [1]
    """
    refuse_unknown("dtype", dtype, UNIT_ROUNDOFF)
    best = np.argpartition(corrected, -2, axis=-1)[:, -2:]
    second, first = np.sort(np.take_along_axis(corrected, best, axis=-1), axis=-1).T
    sizes = np.abs(np.take_along_axis(scores, best, axis=-1)).sum(axis=-1)
    return np.flatnonzero(first - second < ROUNDINGS * UNIT_ROUNDOFF[dtype] * sizes)


DISTANCES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Distances below the bound at which missing labels are put, in nats."""


class PredictionRange(NamedTuple):
    """Predictions as the missing labels are put at several distances below their bound.

    Attributes:
        rows: the rows that returned a label; the others are left out.
        same: how many of these are predicted the same at every distance.
        accuracy: least and greatest share of right predictions among rows whose label is known;
            None where none is.
        shares: [k, 2], least and greatest share of rows that each label is predicted for.
    """

    rows: int
    same: int
    accuracy: tuple[float, float] | None
    shares: np.ndarray


def range_of_predictions(
    scores: np.ndarray,
    correct: Callable[[np.ndarray], ArrayLike],
    bound: np.ndarray | None = None,
    *,
    labels: np.ndarray | None = None,
    distances: Sequence[float] = DISTANCES,
) -> PredictionRange:
    """The range of predictions over where below their bound the missing labels lie.

    All missing labels are put at the same distance, for each distance in turn; distances that
    differ by label and row could change more.

    Args:
        scores: [n, k], in nats; `find_missing` says which are missing.
        correct: scores [m, k] without missing ones -> corrected scores, such as `calibrate`.
        bound: [n], see `fill_scores`.
        labels: [n], the right labels, -1 where unknown.
        distances: how far below the bound, in nats.

    Raises:
        InputError: no row returned a label.

    >>> seen = range_of_predictions(np.array([[-1.0, -np.inf], [-2.0, -1.0]]), lambda rows: rows)
    >>> seen.same, seen.shares.tolist()
    (2, [[0.5, 0.5], [0.5, 0.5]])
    """
    picks = []
    for below in distances:
        filled, is_kept = fill_scores(scores, "least", bound, below=below)
        if not is_kept.any():
            raise InputError("scores: no row has a score of any label; request more tokens.")
        picks.append(np.asarray(correct(filled)).argmax(axis=-1))
    # The same rows are kept at each distance, so the last mask is that of all.
    return prediction_range(
        np.stack(picks), scores.shape[1], None if labels is None else labels[is_kept]
    )


def prediction_range(
    picks: np.ndarray, k: int, labels: np.ndarray | None = None
) -> PredictionRange:
    """The range of predictions `picks` [d, n] from one distance to the next.

    >>> prediction_range(np.array([[0, 1], [0, 0]]), 2, np.array([0, 1]))[:3]
    (2, 1, (0.5, 1.0))
    """
    counts = np.stack([(picks == j).mean(axis=1) for j in range(k)])  # [k, d]
    accuracy = None
    if labels is not None and (is_known := labels >= 0).any():
        right = (picks == labels)[:, is_known].mean(axis=1)  # [d]
        accuracy = float(right.min()), float(right.max())
    return PredictionRange(
        picks.shape[1],
        int((picks == picks[0]).all(axis=0).sum()),
        accuracy,
        np.stack([counts.min(axis=1), counts.max(axis=1)], axis=1),
    )


DRAWS = 2000
"""Of rows, for intervals that have no closed form."""


@usual_jax
def diagnose(
    scores: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    corrected: ArrayLike | None = None,
    columns: Sequence[Hashable] | None = None,
    label_names: Sequence[str] = (),
    method: str = "bc",
    strength: float = 1.0,
    from_probs: bool | None = None,
    dtype: str = "",
    cosines: bool | None = None,
    ordinal: bool | None = None,
    shares: Sequence[float] | None = None,
) -> Diagnosis:
    """Measures the preference of a prompt, the changed predictions, and the gain of a correction.

    The preference of a label is its mean score less the mean over all labels; its standard error is
    over rows. For grades, and if shares are known, it is the bias that matches the mean prediction
    to the shares, because mean scores differ without a bias, too. A prediction that BC changes is
    fragile if it changes again without some row of the batch (the jackknife). BC with the mean of
    the other rows predicts the same: m s_i / (m - 1) less a constant for each label.

    Args:
        scores: [n, k], log-probabilities in nats.
        labels: [n], the right labels as indices or names of columns, -1 where unknown; labels of
            pandas are matched by index, as by `calibrate`.
        corrected: [n, k], the corrected scores; by default `calibrate(scores, method)`.
        columns: of a frame that holds more than scores, the names of the labels' columns.
        label_names: k names; by default a frame's columns, or "label 0" and so on.
        method: what corrected them, by its name in `METHODS`.
        strength: of BC, where another than 1 corrected them.
        from_probs: whether scores are probabilities, as in `calibrate`.
        dtype: what the model computed in, such as "bfloat16", where the array is of another; rows
            whose corrected margin is below the rounding of these numbers are counted.
        cosines: True if scores are cosines, scaled or not; None: if all lie within 1 of 0 and
            cannot be log-probabilities. Logits of a language model are in nats, because only
            differences matter.
        ordinal: True if labels are grades in order; None: see `are_grades`.
        shares: [k], known shares of the labels.

    Raises:
        InputError: as `calibrate`; an unknown dtype.

    >>> found = diagnose(20 * [[-1.0, -3.0], [-2.0, -2.5]], 20 * [0, 1])
    >>> print(found.before.accuracy, found.after.accuracy, len(found.changed))
    50.0 [35.2, 64.8] 100.0 [89.3, 100.0] 20
    >>> print(found.sentences()[0])  # doctest: +ELLIPSIS
    Averaged over 40 rows, the scores favor 'label 0' over 'label 1' by 1.25 ± 0.12 nats ...
    """
    from_probs = False if cosines else from_probs
    rows = validation.check_scores(scores, from_probs=from_probs, columns=columns)
    cosines = validation.look_like_cosines(rows) if cosines is None else cosines
    label_names = check_names(label_names, names_of(scores, columns), rows.shape[-1])
    if corrected is None:
        # The default is left out, as not every method takes a strength.
        options: dict[str, Any] = {} if strength == 1.0 else {"strength": strength}
        corrected = calibrate(rows, method, from_probs=False, **options)
    columns = names_of(scores, columns)
    corrected = in_row_order(corrected, "corrected", scores)
    after = np.asarray(
        read_scores(corrected, "corrected", columns if is_frame(corrected) else None)
    )
    if after.shape != rows.shape:
        expected = f"the shape of scores, {rows.shape}"
        raise InputError.at("corrected", expected, after.shape, "pass a correction of these scores")
    if not dtype and UNIT_ROUNDOFF.get(own := str(getattr(scores, "dtype", ""))):
        dtype = own  # a float32 array may hold scores of any dtype
    n, k = rows.shape[0], rows.shape[-1]
    exact = rows.astype(np.float64)  # sums of many float32 rows lose digits
    is_matched = shares is not None or (
        are_grades(exact, label_names) if ordinal is None else ordinal
    )
    mean, moves = exact.mean(axis=0), exact
    if is_matched:
        mean, moves = matched_offset(exact, shares)
    error = pair_error(moves, int(mean.argmax()), int(mean.argmin()))
    guess, new_guess = rows.argmax(axis=-1), after.argmax(axis=-1)
    changed = np.flatnonzero(guess != new_guess)
    # Of the mean row, BC's bias, the jackknife has a closed form.
    fragile = find_fragile(exact, after, changed, strength=strength) if method == "bc" else None
    gold = np.full(n, -1)  # [n], -1 where unknown
    if labels is not None:
        label_numbers = column_numbers(in_row_order(labels, "labels", scores), columns)
        gold = validation.check_labels(label_numbers, rows)
    is_labeled = gold >= 0
    classes = accuracy_before = accuracy_after = gain = None
    if is_labeled.any():
        labels_known = gold[is_labeled]
        classes = _share(labels_known, k)
        accuracy_before = _right(guess[is_labeled], labels_known, k)
        accuracy_after = _right(new_guess[is_labeled], labels_known, k)
        gain = gain_of(guess[is_labeled] == labels_known, new_guess[is_labeled] == labels_known)
    are_log_probs = not (cosines or validation.no_log_probs(rows))
    return Diagnosis(
        label_names=label_names,
        method=method,
        rows=n,
        labeled=int(is_labeled.sum()),
        preference=mean - mean.mean(),
        error=centered_error(moves),
        pair_error=error,
        rows_needed=rows_needed(error / unit_of(error, n, cosines=cosines), n),
        classes=classes,
        predicted=_share(guess, k),
        corrected=_share(new_guess, k),
        changed=changed,
        hanging=fragile,
        tied=int((np.ptp(after, axis=-1) == 0).sum()),
        mass=float(np.exp(exact).sum(axis=-1).mean()) if are_log_probs else None,
        before=accuracy_before,
        after=accuracy_after,
        gain=gain,
        doubt=ask_about_order(rows, gold),
        rounded=find_rounded(exact, after.astype(np.float64), dtype) if dtype else None,
        dtype=dtype,
        cosines=cosines,
        is_matched=is_matched,
    )


def are_grades(rows: np.ndarray, names: Sequence[str]) -> bool:
    """Checks whether labels are grades: numbers as names, and scores that fall on both sides.

    The scores of a grade row fall from its largest one to both ends. Scores of k labels without an
    order do so in 2^(k - 1) / k! of the rows; most of the other rows must do so, too.

    >>> rows = -((np.arange(5) - np.array([[1.0], [3.0], [4.0]])) ** 2)
    >>> are_grades(rows, "12345"), are_grades(rows, "abcde"), are_grades(rows[:, ::2], "012")
    (True, False, True)
    """
    k = len(names)
    if k < 3 or not all(re.fullmatch(r"-?\d+([.]\d+)?", name.strip()) for name in names):
        return False
    order = np.argsort([float(name) for name in names])
    steps, tops = np.diff(rows[:, order], axis=1), rows[:, order].argmax(axis=1)
    falls = np.where(np.arange(k - 1) < tops[:, None], steps >= 0, steps <= 0).all(axis=1)
    chance = 2 ** (k - 1) / factorial(k)
    return bool(falls.mean() > (1 + chance) / 2)


def matched_offset(
    rows: np.ndarray, shares: Sequence[float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Matches the mean prediction to shares, by default equal ones.

    Args:
        rows: [n, k], in nats.
        shares: [k].

    Returns:
        The bias [k] in nats, log pi not included; its linear approximation [n, k] by rows, with a
        standard error of the mean that is the standard error of the bias.
    """
    k = rows.shape[-1]
    expected = np.full(k, 1 / k) if shares is None else np.maximum(shares, LEAST_STATED_SHARE)
    method, options = METHODS["prior_matching"], {"target_prior": tuple(expected / expected.sum())}
    found = run.correct_context(method, {"test": Evidence(rows)}, options=options)
    probs = softmax(np.asarray(found.scores, np.float64), axis=-1)
    hessian = np.diag(probs.mean(axis=0)) - probs.T @ probs / len(rows)
    bias = (rows - np.asarray(found.scores, np.float64)).mean(axis=0) + np.log(expected)
    return bias, (probs - expected) @ np.linalg.pinv(hessian, hermitian=True)


def diagnose_table(
    table: ScoreTable, corrected: np.ndarray, method: str, strength: float = 1.0, dtype: str = "",
    shares: Sequence[float] | None = None, *, ordinal: bool | None = None,
) -> Diagnosis:  # fmt: skip
    """Diagnoses the test rows of a table, which a method corrects to `corrected` [n, k]."""
    test = table.blocks["test"]
    labels = test.labels if (test.labels >= 0).any() else None  # -1 where unknown
    return diagnose(
        test.log_probs, labels, corrected=corrected, label_names=table.label_names, method=method,
        strength=strength, from_probs=False, dtype=dtype or table.dtype,
        cosines=holds_cosines(table), shares=shares, ordinal=ordinal,
    )  # fmt: skip


def check_names(
    label_names: Sequence[str], columns: Sequence[Hashable] | None, k: int
) -> tuple[str, ...]:
    """The k names of labels in sentences: as given, of a frame's `columns`, or numbers.

    Raises:
        InputError: another number of names; the names of the columns in another order.
    """
    names = tuple(label_names) or tuple(map(str, columns or ()))
    if not names:
        return tuple(f"label {i}" for i in range(k))
    is_moved = columns is not None and set(names) == set(columns) and names != tuple(columns)
    if len(names) != k or is_moved:
        expected = f"{k} names in the order of the columns"
        remedy = "leave it out for a frame: its columns name the labels"
        raise InputError.at("label_names", expected, shown([*names]), remedy)
    check_distinct(names, "label_names")
    return names


def _share(labels: np.ndarray, k: int) -> np.ndarray:
    return np.bincount(labels, minlength=k) / len(labels)


def _right(guess: np.ndarray, gold: np.ndarray, k: int) -> Right:
    hits = guess == gold
    counts = np.bincount(gold, minlength=k)
    occurs = counts > 0  # a label that never occurs has no recall
    recall, counts = np.bincount(gold, hits, minlength=k)[occurs] / counts[occurs], counts[occurs]
    # The same draws in each run.
    ends = mean_recall_interval(recall, counts, np.random.default_rng(0), draws=DRAWS)
    return Right(accuracy_of(hits), Estimate(float(recall.mean()), *ends))

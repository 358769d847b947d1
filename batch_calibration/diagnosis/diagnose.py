"""Measurements of a diagnosis: preference, standard error, changed predictions, and gain."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from batch_calibration.api import calibrate
from batch_calibration.arrays.alignment import column_numbers, in_row_order
from batch_calibration.arrays.frames import is_frame, names_of
from batch_calibration.arrays.numbers import read_scores, usual_jax
from batch_calibration.calibration.shift import LEAST_STATED_SHARE
from batch_calibration.diagnosis.diagnosis import Diagnosis, Grades, Right, unit_of
from batch_calibration.errors import InputError, refuse_unknown, shown
from batch_calibration.methods import METHODS, Evidence, ask_about_order, run, validation
from batch_calibration.methods.run import holds_cosines
from batch_calibration.metrics import accuracy_of, gain_of, measure_reliability
from batch_calibration.metrics.grades import are_numbers, grade_values, measure_grades
from batch_calibration.scores import ScoreTable, check_distinct
from batch_calibration.typing import FromProbs, Ordinal

UNIT_ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 0.0, "float64": 0.0}
"""The largest relative rounding error of each half-precision dtype; 0 in full precision."""
ROUNDINGS = 2
"""The threshold of the margin between two scores, in roundings of both scores. With a Llama in
bfloat16, 34 of 37 predictions that flip have a smaller margin. No other model of the study has
label scores this close (half_precision.py of the evidence)."""


def centered_error(rows: np.ndarray) -> np.ndarray:
    """Computes the standard error of each label's preference.

    The preference of label j is the mean over rows of r_ij = s_ij - mean_l s_il, so its standard
    error is sd(r_j) / sqrt(n), with n - 1 in the variance.

    Args:
        rows: [n, k], in nats.

    Returns:
        [k], in nats; NaN for one row.

    >>> centered_error(np.array([[0.0, 2.0], [0.0, 4.0]])).tolist()
    [0.5, 0.5]
    """
    return _error(rows - rows.mean(axis=-1, keepdims=True))


def pair_error(rows: np.ndarray, high: int, low: int) -> float:
    """Computes the standard error of the mean of s_high - s_low, in nats; NaN for one row.

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
    """Returns the number of rows that reduces a standard error e to `target_error` nats.

    An error is proportional to 1 / sqrt(n), so this is n (e / target_error)^2, and at least 2. For
    an error of NaN it is None.

    >>> rows_needed(0.2, 10)
    40
    """
    if np.isnan(error):
        return None
    # Rounding comes first, because the floating-point error of the ratio would add a row.
    return max(2, int(np.ceil(round(rows * (error / target_error) ** 2, 6))))


def find_fragile(
    rows: np.ndarray, corrected: np.ndarray, which: np.ndarray, *, strength: float = 1.0
) -> np.ndarray:
    """Finds rows with a prediction under BC that changes if one row is left out of the batch.

    Without row j the bias of m rows is (m b - s_j) / (m - 1). The lead of label p over label a
    moves by strength * (d_jp - d_ja) / (m - 1) with d_j = s_j - b. So for each pair of labels, the
    extreme over j is the same for all rows: O(n k^2), not O(n^2 k). The row that is left out may be
    the row itself.

    Args:
        rows: [n, k], all rows of the batch, in nats.
        corrected: [n, k], s - strength * b, or this plus a constant for each label.
        which: indices of the rows to check.
        strength: the paper's gamma.

    Returns:
        The indices from `which` with a fragile prediction; none for a batch of one row.

    >>> rows = np.array([[0.0, 1.0], [0.0, 1.1], [0.0, 3.0]])
    >>> find_fragile(rows, rows - rows.mean(axis=0), np.array([0, 1])).tolist()
    [1]
    """
    if len(rows) < 2 or not len(which):
        return np.array([], int)
    # [n, k], the change of the bias if a row is left out.
    moves = strength * (rows - rows.mean(axis=0)) / (len(rows) - 1)
    guess = corrected[which].argmax(axis=-1)
    is_fragile = np.zeros(len(which), bool)
    for label in np.unique(guess):
        of_label = guess == label
        # The row that reduces the lead most decides, for each pair of labels.
        least_move = (moves[:, [label]] - moves).min(axis=0)
        # [rows predicted as this label, k], in nats
        leads = corrected[which[of_label]][:, [label]] - corrected[which[of_label]]
        is_other_label = np.arange(rows.shape[-1]) != label
        is_fragile[of_label] = ((leads + least_move) < 0)[:, is_other_label].any(axis=-1)
    return which[is_fragile]


def find_rounded(scores: np.ndarray, corrected: np.ndarray, dtype: str) -> np.ndarray:
    """Finds rows with a margin between the two best labels below the rounding of the dtype.

    Another order of summation, such as on another device, may change these predictions.

    Args:
        scores: [n, k], in nats. Rounding errors are proportional to their size.
        corrected: [n, k], corrected scores in nats.
        dtype: the dtype of the model's computations. For full precision no row is found.

    Raises:
        InputError: the dtype is unknown.

    Returns:
        The indices of the rows.

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
"""Distances between the bound and the scores that missing labels get, in nats."""


class PredictionRange(NamedTuple):
    """Ranges of predictions over several distances of missing labels below their bound.

    Attributes:
        rows: the number of rows with a returned label; other rows are left out.
        same: the number of rows with the same prediction at every distance.
        accuracy: the lowest and the highest accuracy on rows with a known label; None without
            known labels.
        shares: [k, 2], the lowest and the highest share of rows for which a label is predicted.
    """

    rows: int
    same: int
    accuracy: tuple[float, float] | None
    shares: np.ndarray


def prediction_range(
    picks: np.ndarray, k: int, labels: np.ndarray | None = None
) -> PredictionRange:
    """Computes the ranges over the distances of predictions `picks` [d, n].

    >>> prediction_range(np.array([[0, 1], [0, 0]]), 2, np.array([0, 1]))[:3]
    (2, 1, (0.5, 1.0))
    """
    counts = np.stack([(picks == j).mean(axis=1) for j in range(k)])  # [k, d]
    accuracy = None
    if labels is not None and (is_known := labels >= 0).any():
        right = (picks == labels)[:, is_known].mean(axis=1)  # [d]
        accuracy = float(right.min()), float(right.max())
    same = int((picks == picks[0]).all(axis=0).sum())
    shares = np.stack([counts.min(axis=1), counts.max(axis=1)], axis=1)
    return PredictionRange(picks.shape[1], same, accuracy, shares)


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
    from_probs: FromProbs = None,
    dtype: str = "",
    cosines: bool | None = None,
    ordinal: Ordinal | None = None,
    shares: Sequence[float] | None = None,
    temperature: float | np.ndarray | None = None,
    answers: np.ndarray | None = None,
) -> Diagnosis:
    """Measures the preference of a prompt, the changed predictions, and the gain of a correction.

    The preference of a label is its mean score minus the mean over all labels; its standard error
    is over rows. For grades, and if shares are known, the preference is the bias that matches the
    mean prediction to the shares, because mean scores differ even without a bias.

    A prediction that BC changes is fragile if it changes again when one row is left out of the
    batch (the jackknife). BC with the mean of the other m - 1 rows predicts the same labels: it is
    m s_i / (m - 1) minus a constant for each label.

    Args:
        scores: [n, k], log-probabilities in nats.
        labels: [n], the right labels as indices or names of columns, -1 if unknown. Pandas labels
            are aligned by index, as in `calibrate`.
        corrected: [n, k], the corrected scores; by default `calibrate(scores, method)`.
        columns: the names of the label columns, if a frame has other columns, too.
        label_names: k names; by default a frame's columns, or "label 0" and so on.
        method: the name in `METHODS` of the method that corrected the scores.
        strength: the strength of BC that corrected the scores.
        from_probs: True if scores are probabilities, see `calibrate`.
        dtype: the dtype of the model's computations, such as "bfloat16", if the array has another
            one. Rows with a corrected margin below its rounding are counted.
        cosines: True if scores are cosines, scaled or not. None: True if all scores are within 1 of
            0 and cannot be log-probabilities. Logits of a language model are in nats, because only
            differences matter.
        ordinal: True if labels are grades with numbers as names; the names from lowest to highest
            if they are words; None: see `are_grades`.
        shares: [k], known shares of the labels.
        temperature: a number, or [n], that divides the corrected scores for their probabilities.
        answers: [n], label indices in place of the labels with the largest corrected scores, such
            as answers by a cut-off.

    Raises:
        InputError: `calibrate` would refuse the scores, the dtype is unknown, or `ordinal` is True
            for words or names other labels.

    >>> found = diagnose(20 * [[-1.0, -3.0], [-2.0, -2.5]], 20 * [0, 1])
    >>> print(found.before.accuracy, found.after.accuracy, len(found.changed))
    50.0 [35.2, 64.8] 100.0 [89.3, 100.0] 20
    >>> print(found.sentences()[0])  # doctest: +ELLIPSIS
    Averaged over 40 rows, the scores favor 'label 0' over 'label 1' by 1.25 ± 0.12 nats ...
    """
    from_probs = False if cosines else from_probs
    rows = validation.check_scores(scores, from_probs=from_probs, columns=columns)
    cosines = validation.look_like_cosines(rows) if cosines is None else cosines
    columns = names_of(scores, columns)
    label_names = check_names(label_names, columns, rows.shape[-1])
    if corrected is None:
        # Only some methods have the option strength, so the default is left out.
        options: dict[str, Any] = {} if strength == 1.0 else {"strength": strength}
        corrected = calibrate(rows, method, from_probs=False, **options)
    corrected = in_row_order(corrected, "corrected", scores)
    of_frame = columns if is_frame(corrected) else None
    after = np.asarray(read_scores(corrected, "corrected", of_frame))
    if after.shape != rows.shape:
        expected = f"the shape of scores, {rows.shape}"
        raise InputError.at("corrected", expected, after.shape, "pass a correction of these scores")
    if not dtype and UNIT_ROUNDOFF.get(own := str(getattr(scores, "dtype", ""))):
        dtype = own  # a float32 array may hold scores of any dtype
    dtype = "" if answers is not None else dtype  # margins are not those of the answers
    n, k = rows.shape[0], rows.shape[-1]
    exact = rows.astype(np.float64)  # sums over many float32 rows lose digits
    is_graded = are_grades(exact, label_names) if ordinal is None else ordinal is not False
    values = grade_values(label_names, True if ordinal is None else ordinal) if is_graded else None
    is_matched = shares is not None or is_graded
    mean, moves = exact.mean(axis=0), exact
    if is_matched:
        mean, moves = matched_offset(exact, shares)
    error = pair_error(moves, int(mean.argmax()), int(mean.argmin()))
    guess, new_guess = rows.argmax(axis=-1), after.argmax(axis=-1) if answers is None else answers
    changed = np.flatnonzero(guess != new_guess)
    # The jackknife has a closed form for BC only, because its bias is the mean row.
    fragile = None
    if method == "bc" and answers is None:
        fragile = find_fragile(exact, after, changed, strength=strength)
    gold = np.full(n, -1)  # [n], -1 if unknown
    if labels is not None:
        label_numbers = column_numbers(in_row_order(labels, "labels", scores), columns)
        gold = validation.check_labels(label_numbers, rows)
    is_labeled = gold >= 0
    of_probs = after / np.broadcast_to(1.0 if temperature is None else temperature, n)[:, None]
    classes = accuracy_before = accuracy_after = gain = tempered = None
    if is_labeled.any():
        labels_known = gold[is_labeled]
        classes = _share(labels_known, k)
        # Cosines without a scale have no probabilities.
        right = partial(_right, gold=labels_known, are_probs=not validation.look_like_cosines(rows))
        accuracy_before = right(guess[is_labeled], scores=exact[is_labeled])
        accuracy_after = right(new_guess[is_labeled], scores=after[is_labeled])
        if temperature is not None:
            tempered = measure_reliability(of_probs[is_labeled], labels_known)
        gain = gain_of(guess[is_labeled] == labels_known, new_guess[is_labeled] == labels_known)
    grades = None
    if values is not None and not cosines:
        grades = Grades(values, *(measure_grades(s, values, gold) for s in (exact, of_probs)))
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
        tempered=tempered,
        grades=grades,
    )


def are_grades(rows: np.ndarray, names: Sequence[str]) -> bool:
    """Checks whether labels are grades: their names are numbers, and most rows are unimodal.

    A row is unimodal if the scores, in the order of the grades, fall from the largest score to both
    ends. For k labels without an order, a fraction 2^(k - 1) / k! of the rows is unimodal by
    chance. For grades, more than half of the other rows must be unimodal, too.

    >>> rows = -((np.arange(5) - np.array([[1.0], [3.0], [4.0]])) ** 2)
    >>> are_grades(rows, "12345"), are_grades(rows, "abcde"), are_grades(rows[:, ::2], "012")
    (True, False, True)
    """
    k = len(names)
    if k < 3 or not are_numbers(names):
        return False
    order = np.argsort([float(name) for name in names])
    steps, tops = np.diff(rows[:, order], axis=1), rows[:, order].argmax(axis=1)
    falls = np.where(np.arange(k - 1) < tops[:, None], steps >= 0, steps <= 0).all(axis=1)
    chance = 2 ** (k - 1) / factorial(k)
    return bool(falls.mean() > (1 + chance) / 2)


def matched_offset(
    rows: np.ndarray, shares: Sequence[float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the bias that matches the mean prediction to shares pi.

    Args:
        rows: [n, k], in nats.
        shares: pi [k]; equal shares by default.

    Returns:
        The bias [k] in nats, without log pi; and the influence [n, k] of each row on the bias, to
        first order. The standard error of the mean influence is the standard error of the bias.
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
    shares: Sequence[float] | None = None, *, ordinal: Ordinal | None = None,
    temperature: float | np.ndarray | None = None, answers: np.ndarray | None = None,
) -> Diagnosis:  # fmt: skip
    """Diagnoses the test rows of a table and their corrected scores [n, k] from a method."""
    test = table.blocks["test"]
    labels = test.labels if (test.labels >= 0).any() else None  # -1 if unknown
    return diagnose(
        test.log_probs, labels, corrected=corrected, label_names=table.label_names, method=method,
        strength=strength, from_probs=False, dtype=dtype or table.dtype,
        cosines=holds_cosines(table), shares=shares, ordinal=ordinal, temperature=temperature,
        answers=answers,
    )  # fmt: skip


def check_names(
    label_names: Sequence[str], columns: Sequence[Hashable] | None, k: int
) -> tuple[str, ...]:
    """Returns the k label names for sentences: the given names, a frame's `columns`, or numbers.

    Raises:
        InputError: the number of names is not k, names repeat, or the column names are given in
            another order.
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


def _right(guess: np.ndarray, *, gold: np.ndarray, scores: np.ndarray, are_probs: bool) -> Right:
    hits, k = guess == gold, scores.shape[-1]
    counts = np.bincount(gold, minlength=k)
    occurs = counts > 0  # a label without rows has no recall
    recall, counts = np.bincount(gold, hits, minlength=k)[occurs] / counts[occurs], counts[occurs]
    reliability = measure_reliability(scores, gold) if are_probs else None
    return Right(accuracy_of(hits), recall, counts, reliability)

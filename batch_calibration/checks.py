"""What is refused before it reaches a calibrator: host-side checks that answer in sentences."""

from typing import Any

import numpy as np

from batch_calibration.typing import InputError


def check_scores(
    scores: Any, where: str = "scores", *, labels: int | None = None, floor: float | None = None
) -> np.ndarray:
    """Log-probabilities [..., n, k] as float32, or a sentence that says what is wrong.

    Args:
        scores: array-like, in nats.
        where: what to call them in the sentence.
        labels: k, where it is already known.
        floor: if given, minus infinity is let through; the calibrator raises it to `floor` nats.

    Raises:
        InputError: not numbers, not [n, k], empty, one label, another k, NaN, an infinity.

    >>> check_scores([[-1.0, -2.0]]).shape
    (1, 2)
    """
    try:
        array = np.asarray(scores, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{where}: expected numbers in an array [n, k], log-probabilities in nats; got "
            f"{type(scores).__name__} that is no such array: give one row per input, one column "
            f"per label."
        ) from error
    if array.ndim < 2:
        raise InputError(
            f"{where}: expected an array [n, k], one row per input and one column per label; got "
            f"shape {array.shape}: reshape it."
        )
    if array.size == 0:
        raise InputError(
            f"{where}: expected at least one row and one label; got shape {array.shape}: give the "
            f"scores of at least one input."
        )
    if array.shape[-1] == 1:
        raise InputError(
            f"{where}: expected at least 2 labels; got 1 column: give one column per label."
        )
    if labels is not None and array.shape[-1] != labels:
        raise InputError(
            f"{where}: expected {labels} columns, one per label as in scores; got "
            f"{array.shape[-1]}: score the same labels."
        )
    _refuse(np.isnan(array), where, "NaN", "re-score that row or drop it")
    _refuse(np.isposinf(array), where, "+inf", "log-probabilities are at most 0; re-score that row")
    if floor is None:
        _refuse(np.isneginf(array), where, "-inf", "give floor=, in nats, such as floor=-100.0")
    return array


def _refuse(bad: np.ndarray, where: str, what: str, remedy: str) -> None:
    if bad.any():
        *context, row, label = (int(i) for i in np.argwhere(bad)[0])
        at = f"context {tuple(context)}, " if context else ""
        raise InputError(
            f"{where}: expected finite log-probabilities; got {what} in {at}row {row}, label "
            f"{label} ({int(bad.sum())} in all): {remedy}."
        )


def check_labels(labels: Any, scores: np.ndarray, where: str = "labels") -> np.ndarray:
    """Label indices as int32, one per row of `scores`; -1 means unknown.

    Raises:
        InputError: not whole numbers, another length, an index that names no label.

    >>> check_labels([0, -1], np.zeros((2, 3))).tolist()
    [0, -1]
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{where}: expected whole numbers, the column of the right label; got {array.dtype}: "
            f"give indices from 0 to {scores.shape[-1] - 1}, or -1 for unknown."
        )
    if array.shape != scores.shape[:-1]:
        raise InputError(
            f"{where}: expected one label per row, shape {scores.shape[:-1]}; got {array.shape}: "
            f"give as many labels as rows."
        )
    out = (array < -1) | (array >= scores.shape[-1])
    if out.any():
        first = np.argwhere(out)[0]
        raise InputError(
            f"{where}: expected indices from 0 to {scores.shape[-1] - 1}, or -1 for unknown; got "
            f"{int(array[tuple(first)])} in row {int(first[-1])}: name a column of the scores."
        )
    return array.astype(np.int32)

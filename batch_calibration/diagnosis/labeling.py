"""Chooses rows to label, and computes how far their labels would narrow label shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, softmax

from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.errors import InputError, shown
from batch_calibration.methods import validation
from batch_calibration.typing import FromProbs

COUNTS = (16, 32, 64)
"""Numbers of labels in the sentence on the error that they leave."""


@usual_jax
def rows_to_label(
    scores: ArrayLike, count: int, *, is_labeled: ArrayLike | None = None, seed: int = 0,
    from_probs: FromProbs = None,
) -> np.ndarray:  # fmt: skip
    """Chooses rows to label: a systematic sample of the rows in order of answer and doubt.

    The answer is the label with the largest score after `bc`, and the doubt is the margin between
    the two most probable labels. Of N rows in this order, the sample has those with the indices
    floor((u + i N) / m), i = 0, ..., m - 1, u uniform in 0, ..., N - 1 (systematic sampling: Madow
    and Madow 1944, Annals of Mathematical Statistics 15(1)). Each row has the probability m / N.

    Args:
        scores: [n, k] in nats, in a form that `calibrate` accepts; or [c, n, k] for c prompts of
            the same rows. Each row is chosen once, by the mean of its log-probabilities.
        count: m, the number of rows to choose; all rows if there are fewer.
        is_labeled: [n], True for rows with a known label, which are not chosen.
        seed: the seed of the random start.
        from_probs: True if scores are probabilities, see `calibrate`.

    Returns:
        The indices of the rows, in ascending order. With the labels of these rows,
        `recommend(scores, labeled=scores[rows], labels=labels)` advises by them.

    Raises:
        InputError: `calibrate` would refuse the scores; count is below 1; is_labeled has another
            length.

    >>> scores = [[-1.0, -3.0], [-2.0, -2.5], [-1.5, -3.0], [-2.5, -2.0]]
    >>> rows_to_label(scores, 2).tolist()
    [0, 3]
    """
    rows = validation.check_scores(scores, from_probs=from_probs)
    n = rows.shape[-2]
    known = np.zeros(n, bool) if is_labeled is None else np.asarray(is_labeled, bool)
    if known.shape != (n,):
        raise InputError.at("is_labeled", f"[{n}], one for each row", f"shape {known.shape}")
    order = order_rows(corrected_probs(rows))
    return np.sort(take_evenly(order[~known[order]], count, seed))


def corrected_probs(scores: np.ndarray) -> np.ndarray:
    """Computes label probabilities [n, k] after `bc` from scores [..., n, k] of the same rows.

    They are proportional to the geometric mean over the leading axes.
    """
    rows = np.asarray(scores, np.float64)
    log_probs = log_softmax(rows - rows.mean(axis=-2, keepdims=True), axis=-1)
    mean = log_probs.reshape(-1, *rows.shape[-2:]).mean(axis=0)
    return np.asarray(softmax(mean, axis=-1))


def order_rows(probs: np.ndarray) -> np.ndarray:
    """Sorts the rows of probabilities [n, k] by answer, and by doubt among equal answers."""
    second, first = np.sort(probs, axis=-1)[:, -2:].T
    return np.lexsort((first - second, probs.argmax(axis=-1)))


def take_evenly(order: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Takes `count` entries at equal distances from a random start; all if there are fewer.

    >>> take_evenly(np.arange(8), 4, seed=0).tolist()
    [1, 3, 5, 7]
    """
    if count < 1:
        raise InputError.at("the number of rows to label", "1 or more", shown(count))
    if count >= (n := len(order)):
        return order
    start = np.random.default_rng(seed).integers(n)
    return np.asarray(order[(start + n * np.arange(count)) // count])


def label_error(probs: np.ndarray) -> float:
    """Computes the standard error of a label's share from one label, for the label with most.

    A labeled row resolves its own uncertainty (see `shares_of_scored`), so that after m labels the
    error is sqrt(mean_i P_ij (1 - P_ij) / m).

    Args:
        probs: P[n, k], corrected probabilities.

    >>> round(label_error(np.array([[0.5, 0.5], [1.0, 0.0]])), 3)
    0.354
    """
    return float(np.sqrt((probs * (1.0 - probs)).mean(axis=0).max()))


def narrowing(error: float, rows: int) -> str:
    """Describes how far labels would narrow the shares; "" for fewer than 17 rows.

    Args:
        error: the `label_error`.
        rows: the number of rows; more labels than rows are left out.

    >>> narrowing(0.45, 50)
    '16, 32 labels would leave standard errors of about 11, 8 points in the shares.'
    """
    counts = [count for count in COUNTS if count < rows]
    if not counts or np.isnan(error):
        return ""
    points = ", ".join(f"{100 * error / np.sqrt(count):.2g}" for count in counts)
    listed = ", ".join(map(str, counts))
    return f"{listed} labels would leave standard errors of about {points} points in the shares."

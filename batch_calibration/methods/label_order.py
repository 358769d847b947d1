"""A check whether gold labels match the columns of scores."""

import warnings

import numpy as np

from batch_calibration.errors import callers_level
from batch_calibration.methods.fitting import Evidence
from batch_calibration.methods.run import correct_context
from batch_calibration.methods.table import METHODS

FEWEST_LABELED_TO_ASK = 20
"""The fewest labeled rows for a question."""
LEAST_PROBABILITY = 1e-4
"""The significance level of a question: the chance of so few right answers must be below it."""


def ask_about_order(scores: np.ndarray, gold: np.ndarray) -> str:
    """Returns a question if the highest score is right less often than by chance, else "".

    The scores and the scores corrected by BC must both be worse than chance, so that a bias is not
    a reason to ask. Chance is 1 / k, or less if the distributions of predicted and gold labels
    differ.

    Args:
        scores: [n, k], in nats.
        gold: [n], the column of the gold label, -1 for unknown.

    >>> labels = np.arange(40) % 2
    >>> print(ask_about_order(2.0 * np.eye(2)[1 - labels], labels)[:62])
    The highest score is right for 0.0 % of 40 labeled rows, and f
    """
    from scipy.special import bdtr  # the binomial distribution; imported late because it is slow

    rows, gold = np.asarray(scores, np.float64)[gold >= 0], np.asarray(gold)[gold >= 0]
    n, k = rows.shape
    if n < FEWEST_LABELED_TO_ASK:
        return ""
    shares, chances = [], []
    for method in ("icl", "bc"):  # BC runs only if the uncorrected scores are worse than chance
        corrected = rows
        if method == "bc":
            corrected = np.asarray(correct_context(METHODS["bc"], {"test": Evidence(rows)}).scores)
        guess = corrected.argmax(axis=-1)
        counts = np.bincount(guess, minlength=k) * np.bincount(gold, minlength=k)
        chance = min(1 / k, counts.sum() / n**2)
        right = int((guess == gold).sum())
        if bdtr(right, n, chance) >= LEAST_PROBABILITY:
            return ""
        shares.append(100 * right / n)
        chances.append(100 * chance)
    lowest = 100 * float((rows.argmin(axis=-1) == gold).mean())
    return (
        f"The highest score is right for {shares[0]:.1f} % of {n:,} labeled rows, and for "
        f"{shares[1]:.1f} % once the bias is removed, where chance is {min(chances):.1f} %; the "
        f"lowest is right for {lowest:.1f} %. Are these losses, where the lowest is the best "
        "(give their negatives), or are the right labels shifted, such as counted from 1?"
    )


def warn_about_order(scores: np.ndarray, gold: np.ndarray, where: str = "labels") -> None:
    """Warns with the question of `ask_about_order`, if any, for scores [..., n, k]."""
    k = scores.shape[-1]
    if question := ask_about_order(scores.reshape(-1, k), np.asarray(gold).reshape(-1)):
        warnings.warn(f"{where}: {question}", stacklevel=callers_level())

"""Metrics of labels that are grades: expected grade, absolute errors, quadratic weighted kappa."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from batch_calibration.errors import InputError, shown, spell
from batch_calibration.metrics.intervals import Estimate, over_units


class GradeErrors(NamedTuple):
    """Grades by one set of scores, with 95 % intervals over the rows with a right label.

    Attributes:
        mean: the mean expected grade of all rows.
        expected: the mean absolute error of the expected grade; None without right labels.
        predicted: the mean absolute error of the predicted grade; None without right labels.
        kappa: the quadratic weighted kappa of the predicted grade; None without right labels.
    """

    mean: float
    expected: Estimate | None = None
    predicted: Estimate | None = None
    kappa: Estimate | None = None


def are_numbers(names: Sequence[str]) -> bool:
    """Checks whether all names are decimal numbers.

    >>> are_numbers(["-1", " 2.5"]), are_numbers(["1", "none"])
    (True, False)
    """
    return all(re.fullmatch(r"\s*-?\d+([.]\d+)?\s*", name) for name in names)


def grade_values(names: Sequence[str], ordinal: bool | Sequence[str] = True) -> np.ndarray:
    """Returns the grade of each label: the number in its name, or its place in the order from 1.

    Args:
        names: k names of labels.
        ordinal: the names from lowest to highest; True for the order of numbers.

    Returns:
        [k], grades.

    Raises:
        InputError: words without an order, an order of other labels, or numbers out of order.

    >>> grade_values(["10", "2.5"]).tolist()
    [10.0, 2.5]
    >>> grade_values(["good", "bad", "best"], ["bad", "good", "best"]).tolist()
    [2.0, 1.0, 3.0]
    """
    have_numbers = are_numbers(names)
    known = tuple(sorted(names, key=float)) if have_numbers else tuple(names)
    stated = known * have_numbers if isinstance(ordinal, bool) else tuple(ordinal)
    if stated != known and (have_numbers or sorted(stated) != sorted(names)):
        expected = f"the order of the grades {', '.join(known)}"
        remedy = f"pass {spell('ordinal', ('A', 'B', 'C'))}, from lowest to highest"
        got = shown(", ".join(stated)) if stated else "words without an order"
        raise InputError(key="ordinal", expected=expected, got=got, remedy=remedy)
    return np.array([float(n) if have_numbers else stated.index(n) + 1.0 for n in names])


def expected_grade(scores: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the mean and the standard deviation of the grade in each row.

    With P = softmax(s) over the labels, the mean is m = sum_j P_j g_j, and the standard deviation
    is sqrt(sum_j P_j (g_j - m)^2).

    Args:
        scores: s [n, k], in nats.
        values: g [k], the grade of each label.

    Returns:
        The mean [n] and the standard deviation [n], in grades.

    >>> expected_grade(np.zeros((1, 2)), np.array([1.0, 5.0]))
    (array([3.]), array([2.]))
    """
    probs = softmax(np.asarray(scores, np.float64), axis=-1)
    mean = probs @ values
    return mean, np.sqrt((probs * (values - mean[:, None]) ** 2).sum(axis=-1))


def quadratic_kappa(predicted: np.ndarray, labels: np.ndarray) -> Estimate:
    """Estimates the quadratic weighted kappa, with a 95 % percentile bootstrap interval over rows.

    With predicted rank x and right rank y, kappa is 1 - mean (x - y)^2 / mean (x - y')^2, where y'
    comes from an independent row (Cohen 1968, Psychological Bulletin 70(4)). It is 0 for constant
    predictions, and if both are constant. Each draw is multinomial over the pairs of ranks. Like
    each percentile interval it is too narrow for few rows: rows that are all right give [1, 1].

    Args:
        predicted: x [n], the ranks of the predicted grades: 0 for the lowest, 1, and so on.
        labels: y [n], the ranks of the right grades, at least one; -1 means unknown.

    >>> quadratic_kappa(np.array([0, 1, 2, 2]), np.array([0, 1, 2, 1])).value
    0.8
    """
    pairs = np.stack([predicted, labels])[:, labels >= 0]
    (x, y), counts = np.unique(pairs, axis=1, return_counts=True)
    drawn = np.random.default_rng(0).multinomial(counts.sum(), counts / counts.sum(), 2000)
    tables = np.vstack([counts, drawn])  # [1 + draws, pairs]; the first row is the data
    sum_x, sum_y, products, squares = (tables @ moment for moment in (x, y, x * y, x * x + y * y))
    # Sums of integers are exact, so that the denominator is 0 only if all ranks are equal.
    apart = counts.sum() * squares - 2 * sum_x * sum_y
    kappas = 2 * (counts.sum() * products - sum_x * sum_y) / np.maximum(apart, 1)
    return Estimate(float(kappas[0]), *map(float, np.quantile(kappas[1:], (0.025, 0.975))))


def measure_grades(scores: np.ndarray, values: np.ndarray, labels: np.ndarray) -> GradeErrors:
    """Measures expected and predicted grades.

    Args:
        scores: [n, k], in nats.
        values: [k], the grade of each label.
        labels: [n], the right labels as indices, -1 if unknown.
    """
    is_known, expected = labels >= 0, expected_grade(scores, values)[0]
    mean = float(expected.mean())
    if not is_known.any():
        return GradeErrors(mean)
    guess, right = scores.argmax(axis=-1)[is_known], labels[is_known]
    off = np.abs(np.stack([expected[is_known], values[guess]]) - values[right])  # [2, known]
    errors = [error._replace(low=max(error.low, 0.0)) for error in map(over_units, off.tolist())]
    ranks = values.argsort().argsort()
    return GradeErrors(mean, errors[0], errors[1], quadratic_kappa(ranks[guess], ranks[right]))

"""A temperature behind any correction, fitted to the log loss of labeled rows."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.numbers import reads_rows
from batch_calibration.calibration.base import label_normalized
from batch_calibration.calibration.objective import known_weight
from batch_calibration.errors import InputError
from batch_calibration.typing import Labels, ProbeRows, Scalar, Weight

AUTO: Literal["auto"] = "auto"
Temperature = float | Literal["auto"]
"""A number above 0, or "auto": fitted to labeled rows."""
LARGEST = 7.0
"""The largest |log T|: temperatures lie between 1/1,100 and 1,100."""
PULL = 1.0
"""The inverse variance of log T around 0, in rows; with a few rows T stays near 1."""
POINTS, ROUNDS = 33, 4
"""Each round refines the best interval of a grid; the last step is 14 / 32 / 16^3 = 1e-4."""
FOLDS = 5
"""The folds of labeled rows, each corrected without its labels."""


def check_temperature(temperature: object) -> None:
    """Raises InputError unless the temperature is None, "auto" or a number above 0."""
    if temperature is None or temperature == AUTO:
        return
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if is_number and 0 < temperature < np.inf:  # type: ignore[operator]
        return
    expected = "'auto', or a number above 0, such as 1.5"
    raise InputError.at("", expected, repr(temperature), "give one of them", "temperature")


@reads_rows
def fit_temperature(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Fits the temperature T of the probabilities softmax(s / T) to labeled rows.

        argmin sum_i w_i (-log softmax(s_i / T)_{y_i}) + PULL / 2 (log T)^2

    T > 1 makes probabilities less certain, and T < 1 more; no prediction changes. Guo et al. 2017,
    arXiv:1706.04599, sec. 4.2 fit T without the penalty. If all rows are right, the log loss alone
    has no minimum.

    Args:
        scores: [m k], corrected scores in nats.
        labels: [m]; -1 means unknown. The correction must not have learned from them.
        weight: [m]; 0 means absent.

    >>> scores = [[2.0, -2.0], [2.0, -2.0], [-2.0, 2.0], [-2.0, 2.0]]
    >>> round(fit_temperature(25 * scores, 25 * [0, 0, 1, 0]), 2)
    3.46
    """
    temperature: Scalar = find_temperature(scores, labels, weight)
    return temperature


@jax.jit
def find_temperature(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes `fit_temperature` for arrays of jax or numpy; 1 without labeled rows."""
    weights = known_weight(scores, labels, weight)
    is_known = weights > 0
    rows = label_normalized(jnp.where(is_known[:, None], scores, 0.0))
    columns = jnp.where(is_known, labels, 0).astype(jnp.int32)[:, None]

    def loss(log_t: jax.Array) -> jax.Array:
        log_p = label_normalized(rows * jnp.exp(-log_t))
        of_label = jnp.take_along_axis(log_p, columns, axis=-1)[:, 0]
        return -jnp.sum(weights * of_label) + 0.5 * PULL * log_t**2

    middle, reach = jnp.float32(0.0), LARGEST
    for _ in range(ROUNDS):
        grid = middle + reach * jnp.linspace(-1.0, 1.0, POINTS, dtype=jnp.float32)
        middle = grid[jnp.argmin(jax.lax.map(loss, grid))]
        reach *= 2.0 / (POINTS - 1)
    return jnp.exp(middle)


def cross_fit_temperature(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Fits T for each labeled row to the other folds, and for the other rows to all labeled rows.

    Args:
        scores: [n, k], corrected scores in nats.
        labels: [n]; -1 means unknown.

    Returns:
        T of each row, [n].

    >>> scores = np.array(25 * [[2.0, -2.0], [-2.0, 2.0]])
    >>> of_row = cross_fit_temperature(scores, np.array(25 * [0, -1]))
    >>> of_row.shape, bool(of_row[1] == of_row[3])
    ((50,), True)
    """
    is_out = folds(len(labels))
    # A line for each fold without its rows, and a line for all rows.
    weights = np.float32(np.vstack([~is_out, np.ones(len(labels), bool)]))
    find = jax.vmap(find_temperature, (None, None, 0))
    of_folds = np.asarray(find(np.float32(scores), labels, weights), np.float64)
    return of_folds[np.where(labels >= 0, is_out.argmax(axis=0), FOLDS)]


def folds(rows: int) -> np.ndarray:
    """Returns [folds, n]: True for the rows of each fold, drawn with a fixed seed.

    >>> folds(10).sum(axis=1).tolist()
    [2, 2, 2, 2, 2]
    """
    fold_of_row = np.random.default_rng(0).permutation(rows) % FOLDS
    return np.asarray(fold_of_row == np.arange(FOLDS)[:, None])

"""Corrections learned from labeled rows: their laws, their optima, what few rows do."""

import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration.calibration.balanced_shift import balanced_mean
from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS


def test_the_balanced_mean_does_not_move_with_the_shares_of_labels(planted):
    rows, gold, _ = planted(60, 3)
    often = jnp.where(gold == 1, 7.0, 1.0)
    once = balanced_mean(rows, gold)
    np.testing.assert_allclose(balanced_mean(rows, gold, often), once, atol=1e-5)
    # Equally many rows of each label: the plain mean, which the published code takes.
    np.testing.assert_allclose(once, jnp.mean(rows, axis=0), atol=1e-5)


def test_the_balanced_mean_is_of_the_labels_that_occur():
    rows = jnp.array([[0.0, 2.0, 4.0], [2.0, 2.0, 2.0], [9.0, 9.0, 9.0]])
    assert balanced_mean(rows, jnp.array([0, 2, -1])).tolist() == [1.0, 2.0, 3.0]
    assert balanced_mean(rows, jnp.array([-1, -1, -1])).tolist() == [0.0, 0.0, 0.0]


def test_no_labels_is_a_sentence(planted):
    rows, _, _ = planted(6, 3)
    with pytest.raises(InputError, match="none came: give the scores and the labels of a labeled"):
        METHODS["rbcorr"].make().fit(rows)

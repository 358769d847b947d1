"""What diagnose says, against plain numpy and a bootstrap that draws rows."""

import numpy as np
import pytest

from batch_calibration import InputError, diagnose


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    gold = rng.choice(3, 150, p=[0.5, 0.3, 0.2])
    return rng.normal(-2, 1, (150, 3)) + np.eye(3)[gold] + [0.0, 1.2, 0.0], gold


def test_its_numbers_are_those_of_numpy(made):
    scores, gold = made
    new = scores - scores.mean(axis=0)
    found = diagnose(scores, gold)
    before, after = scores.argmax(axis=1), new.argmax(axis=1)
    hits = (before == gold).astype(float), (after == gold).astype(float)
    assert found.before.accuracy.value == pytest.approx(hits[0].mean())
    assert found.after.accuracy.value == pytest.approx(hits[1].mean())
    assert found.gain.value == pytest.approx(hits[1].mean() - hits[0].mean())
    balanced = np.mean([hits[1][gold == j].mean() for j in range(3)])
    assert found.after.balanced.value == pytest.approx(balanced)
    assert found.changed.tolist() == np.flatnonzero(before != after).tolist()
    mean = scores.mean(axis=0)
    np.testing.assert_allclose(found.preference, mean - mean.mean(), atol=1e-6)
    for shares, labels in ((found.classes, gold), (found.predicted, before)):
        np.testing.assert_allclose(shares, np.bincount(labels, minlength=3) / 150)
    drawn = np.random.default_rng(1).integers(0, 150, (4000, 150))
    ends = np.quantile((hits[1] - hits[0])[drawn].mean(axis=1), [0.025, 0.975])
    np.testing.assert_allclose(found.gain[1:], ends, atol=0.015)


def test_rows_without_a_right_label_are_not_judged(made):
    scores, gold = made
    part = np.where(np.arange(150) < 100, gold, -1)
    found = diagnose(scores, part)
    assert (found.rows, found.labeled) == (150, 100)
    right = (scores[:100].argmax(axis=1) == gold[:100]).mean()
    assert found.before.accuracy.value == pytest.approx(right)
    assert diagnose(scores).gain is None


def test_a_loss_is_called_one(made):
    scores, gold = made
    words = " ".join(diagnose(scores, gold, corrected=-scores).sentences())
    assert "a loss: do not use it here" in words
    with pytest.raises(InputError):
        diagnose(scores, gold[:-1])

"""Each method once more, in plain float64 loops written from its equation."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.fitting import correct, fit
from batch_calibration.methods import METHODS


@pytest.fixture(scope="module")
def blocks(planted):
    parts = {}
    for seed, (name, count) in enumerate({"test": 31, "cc": 3, "dc": 20, "labeled": 24}.items()):
        rows, gold, _ = planted(count, 3, seed)
        parts[name] = (rows, gold)
    return parts


def doubles(blocks, name):
    return np.asarray(blocks[name][0], np.float64)


def mean_log(rows):
    return [sum(row[j] for row in rows) / len(rows) for j in range(rows.shape[1])]


def subtract(rows, bias, strength=1.0):
    return [[s - strength * b for s, b in zip(row, bias, strict=True)] for row in rows]


def normalized(rows):
    return np.array([[math.exp(s) / sum(math.exp(t) for t in row) for s in row] for row in rows])


def no_oracle(blocks):
    return doubles(blocks, "test")


def shift_oracle(probe):
    return lambda blocks: subtract(doubles(blocks, "test"), mean_log(doubles(blocks, probe)))


def original_oracle(probe):
    def oracle(blocks):
        # The published code divides by sum(means) too, which moves all scores alike.
        means = mean_log(np.exp(doubles(blocks, probe)))
        return [
            [math.log(math.exp(s) / m) for s, m in zip(row, means, strict=True)]
            for row in doubles(blocks, "test")
        ]

    return oracle


def mean_prob_oracle(blocks):
    rows = doubles(blocks, "test")
    means = mean_log(normalized(rows))
    # One constant for the whole batch: the mean of the rows' own.
    moved = sum(math.log(sum(math.exp(s) for s in row)) for row in rows) / len(rows)
    return subtract(rows, [math.log(m) + moved for m in means])


def prob_shift_oracle(blocks):
    probs = normalized(doubles(blocks, "test"))
    return subtract(probs, mean_log(probs))


def best_strength_oracle(blocks):
    bias = mean_log(doubles(blocks, "test"))
    curve = []
    for strength in STRENGTHS:
        scores = subtract(doubles(blocks, "labeled"), bias, strength)
        said = [max(range(3), key=lambda j, row=row: (row[j], -j)) for row in scores]
        curve.append(sum(int(a == b) for a, b in zip(said, blocks["labeled"][1], strict=True)))
    top = max(curve)
    ranked = sorted(
        (round(abs(g - 1), 6), g) for g, c in zip(STRENGTHS, curve, strict=True) if c == top
    )
    return bias, ranked[0][1], [c / 24 for c in curve]


def bcl_oracle(blocks):
    bias, strength, _ = best_strength_oracle(blocks)
    return subtract(doubles(blocks, "test"), bias, strength)


def running_oracle(blocks):
    """All 31 rows are one mini-batch of the default 32; test_running has several."""
    return shift_oracle("test")(blocks)


def others_oracle(blocks):
    rows = doubles(blocks, "test")
    return [
        subtract(rows[i : i + 1], mean_log(np.delete(rows, i, axis=0)))[0] for i in range(len(rows))
    ]


def shrunk_oracle(blocks):
    rows = doubles(blocks, "test")
    # The batch and one more row of no bias: the classical estimate, written out.
    centered = [[s - sum(row) / len(row) for s in row] for row in rows] + [[0.0] * 3]
    m = len(centered)
    mean = mean_log(np.array(centered))
    error = sum((t - b) ** 2 for row in centered for t, b in zip(row, mean, strict=True))
    factor = max(0.0, 1 - error / (m - 1) / m / sum(b * b for b in mean))
    return subtract(rows, mean_log(rows), factor * (m - 1) / m)


ORACLES = {
    "icl": no_oracle,
    "cc": shift_oracle("cc"),
    "dc": shift_oracle("dc"),
    "bc": shift_oracle("test"),
    "bc_running": running_oracle,
    "bcl": bcl_oracle,
    "cc_original": original_oracle("cc"),
    "dc_original": original_oracle("dc"),
    "bc_mean_prob": mean_prob_oracle,
    "bc_prob_shift": prob_shift_oracle,
    "bc_loo": others_oracle,
    "bc_shrunk": shrunk_oracle,
}


def test_every_method_that_draws_nothing_has_an_oracle():
    # PC's is scikit-learn, in test_prototypes.
    assert set(ORACLES) == {name for name in METHODS if not METHODS[name].needs_key}


@pytest.mark.parametrize("name", ORACLES)
def test_scores_are_those_of_the_equation(name, blocks):
    got = correct(METHODS[name], blocks, blocks["test"][0]).scores
    np.testing.assert_allclose(got, ORACLES[name](blocks), atol=5e-6)


def test_strength_curve_is_accuracy_at_each_strength(blocks):
    state = fit(METHODS["bcl"], blocks)
    _, strength, curve = best_strength_oracle(blocks)
    np.testing.assert_allclose(state.curve, curve, atol=1e-6)
    assert float(state.strength) == pytest.approx(strength)


def test_running_by_batches_is_the_paper_s_equation(blocks):
    rows = doubles(blocks, "test")
    mean, expected = np.zeros(3), []
    for n, start in enumerate(range(0, len(rows), 8)):
        batch = rows[start : start + 8].mean(0)
        mean = n / (n + 1) * mean + 1 / (n + 1) * batch
        expected.append(rows[start : start + 8] - mean)
    made = METHODS["bc_running"].make(batch_size=8, per_batch=True)
    scores = made.apply(made.fit(blocks["test"][0]), blocks["test"][0])
    np.testing.assert_allclose(scores, np.concatenate(expected), atol=5e-6)


def test_target_prior_adds_its_log(blocks):
    rows = blocks["test"][0]
    prior = (0.5, 0.3, 0.2)
    told = METHODS["bc"].make(target_prior=prior)
    expected = np.array(ORACLES["bc"](blocks)) + np.log(prior)
    np.testing.assert_allclose(told.apply(told.fit(rows), rows), expected, atol=5e-6)
    shifted = METHODS["bc_prob_shift"].make(target_prior=prior)
    expected = np.array(ORACLES["bc_prob_shift"](blocks)) + np.array(prior)
    np.testing.assert_allclose(shifted.apply(shifted.fit(rows), rows), expected, atol=5e-6)


def test_equal_scores_predict_the_lowest_index():
    from batch_calibration.calibration.base import predict

    assert predict(jnp.asarray([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]])).tolist() == [0, 1]

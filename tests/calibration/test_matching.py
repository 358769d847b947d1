"""Prior matching, OTTER and shares estimated for them, against scipy and figures on real scores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import eye, kron, vstack
from scipy.special import logsumexp, softmax

from batch_calibration import calibrate
from batch_calibration.calibration.matching import match, matched, otter, prior_matching
from batch_calibration.calibration.shares import bbse, prior_counted, sld_em
from batch_calibration.calibration.shift import LEAST_STATED_SHARE, least_shares, mean_log_prob
from batch_calibration.methods import METHODS

MATCH = jax.jit(match)


def shares_of(labels, count=4):
    return np.bincount(labels, minlength=count) / len(labels)


def table(rows, labels, scale, seed=0):
    random = np.random.default_rng(seed)
    scores = random.normal(0, scale, (rows, labels)) + random.normal(0, scale, labels)
    prior = np.maximum(random.dirichlet(np.ones(labels)), 2e-4)
    scores -= logsumexp(scores, axis=1, keepdims=True)
    return scores.astype(np.float32), (prior / prior.sum()).astype(np.float32)


@pytest.mark.parametrize(
    ("rows", "labels", "scale"), [(40, 2, 1.0), (400, 4, 2.0), (300, 100, 2.0), (400, 4, 60.0)]
)
def test_the_mean_prediction_is_the_shares(rows, labels, scale):
    scores, prior = table(rows, labels, scale)
    bias = np.asarray(MATCH(scores, prior), np.float64)
    assert np.abs(softmax(scores - bias, axis=1).mean(axis=0) - prior).max() < 1e-6
    np.testing.assert_allclose(bias.sum(), np.asarray(mean_log_prob(scores)).sum(), rtol=1e-5)


@pytest.mark.parametrize("far", [60.0, 1000.0])
def test_rows_that_are_sure_are_matched_in_float32(far):
    rows = jnp.asarray(far * np.eye(3)[np.arange(300) % 3], jnp.float32)
    prior = jnp.asarray([0.7, 0.2, 0.1], jnp.float32)
    means = softmax(np.asarray(rows - MATCH(rows, prior), np.float64), axis=1).mean(axis=0)
    np.testing.assert_allclose(means, prior, atol=far * 1e-7)


def test_many_rounds_end_in_the_match():
    scores, prior = table(80, 3, 1.0)
    ways = [
        prior_matching(**x, target_prior=prior.tolist())
        for x in ({}, {"rounds": 10}, {"rounds": 300})
    ]
    exact, ten, many = (jax.jit(way.fit)(scores).bias for way in ways)
    np.testing.assert_allclose(many, exact, atol=1e-4)
    assert np.abs(ten - exact).max() < np.abs(mean_log_prob(scores) - exact).max()


def test_one_round_divides_by_the_mean_probability():
    scores, _ = table(80, 3, 1.0)
    bias = prior_matching(rounds=1).fit(scores).bias
    divided = METHODS["bc_mean_prob"].make().fit(scores).bias
    np.testing.assert_allclose(bias - bias.mean(), divided - divided.mean(), atol=1e-5)


def test_rounds_below_zero_are_a_sentence(refuses):
    assert refuses(prior_matching, rounds=-1).where == "rounds"


def test_a_share_of_zero_counts_as_a_least_share():
    scores, _ = table(400, 3, 1.0)
    for name in ("prior_matching", "otter", "bc", "bc_prob_shift"):
        assert np.isfinite(calibrate(scores, name, target_prior=(0.5, 0.5, 0.0))).all()
    assert 2 not in calibrate(scores, "prior_matching", target_prior=(0.5, 0.5, 0.0)).argmax(1)
    matched_to = softmax(calibrate(scores, "prior_matching", target_prior=(0.5, 0.5, 0.0)), axis=1)
    np.testing.assert_allclose(matched_to.mean(0)[2], LEAST_STATED_SHARE, rtol=0.02)
    np.testing.assert_allclose(least_shares((0.5, 0.5, 0.0)).sum(), 1.0, rtol=1e-6)


def plan(costs, prior):
    """Optimal transport of rows to labels by linear programming, times the number of rows."""
    rows, labels = costs.shape
    by_row, by_label = kron(eye(rows), np.ones((1, labels))), kron(np.ones((1, rows)), eye(labels))
    sums = vstack([by_row, by_label]).tocsr()
    right = np.concatenate([np.full(rows, 1 / rows), prior])
    done = linprog(costs.ravel(), A_eq=sums, b_eq=right, method="highs")
    return rows * done.x.reshape(rows, labels), done.fun


@pytest.mark.parametrize(
    ("rows", "labels", "scale"), [(24, 3, 1.0), (120, 4, 0.5), (150, 10, 3.0), (150, 4, 30.0)]
)
def test_otter_predicts_as_the_optimal_plan(rows, labels, scale):
    scores, prior = table(rows, labels, scale)
    prior = np.asarray(least_shares(prior), np.float64)
    prior /= prior.sum()
    exact, cost = plan(-scores.astype(np.float64), prior)
    fit, apply = otter(target_prior=prior.tolist())
    predicted = np.asarray(jax.jit(lambda rows: apply(fit(rows), rows))(scores)).argmax(axis=1)
    certain = exact.max(axis=1) > 1 - 1e-9
    np.testing.assert_array_equal(predicted[certain], exact.argmax(axis=1)[certain])
    assert (~certain).sum() < labels
    assert np.abs(shares_of(predicted, labels) - prior).max() <= labels / rows
    # The plan of these predictions costs what the exact one does, split rows aside.
    taken = np.where(certain[:, None], np.eye(labels)[predicted], exact)
    assert -(taken * scores).sum() / rows == pytest.approx(cost, abs=1e-4)


def test_em_finds_the_shares_of_rows_free_of_bias():
    """Rows drawn from a mixture whose densities are known: their log densities have no bias."""
    random = np.random.default_rng(0)
    labels = random.choice(3, 4000, p=[0.6, 0.3, 0.1])
    centers = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    points = centers[labels] + random.normal(size=(4000, 2))
    scores = -0.5 * ((points[:, None] - centers) ** 2).sum(-1)
    state = jax.jit(sld_em(damping=0.0).fit)(scores.astype(np.float32))
    np.testing.assert_allclose(softmax(-np.asarray(state.bias)), shares_of(labels, 3), atol=0.02)


def test_where_em_stands_still_its_shares_are_matched():
    scores, _ = table(200, 3, 3.0)
    shares = softmax(-np.asarray(jax.jit(sld_em(damping=0.0).fit)(scores).bias, np.float64))
    np.testing.assert_allclose(softmax(scores + np.log(shares), 1).mean(0), shares, atol=1e-3)


def test_em_of_nothing_but_equal_shares_is_prior_matching():
    scores, _ = table(60, 3, 1.0)
    methods = sld_em(damping=1.0), prior_matching()
    by_em, matched_bias = (jax.jit(method.fit)(scores).bias for method in methods)
    np.testing.assert_allclose(by_em, matched_bias, atol=1e-5)


@pytest.mark.parametrize(
    "options", [{"least_share": 0.0}, {"least_share": 1.0}, {"damping": -0.1}, {"damping": 1.5}]
)
def test_options_of_em_that_are_none_are_a_sentence(options, refuses):
    assert refuses(sld_em, **options).where == "sld_em"


def test_bbse_tells_the_shares_of_a_batch_that_are_not_the_labeled_rows_own():
    """With many labeled rows: batch 70/20/10, labeled set 1/3 each."""
    random = np.random.default_rng(0)
    gold = np.concatenate([random.choice(3, 6000, p=[0.7, 0.2, 0.1]), np.arange(6000) % 3])
    scores = random.normal(0, 1, (12000, 3)) + 2.5 * np.eye(3)[gold] + [1.0, 0.0, -1.0]
    labels = np.where(np.arange(12000) < 6000, -1, gold)
    batch = scores[:6000]
    means = {
        make: softmax(batch - np.asarray(jax.jit(make().fit)(scores, labels).bias), axis=1).mean(0)
        for make in (bbse, prior_counted)
    }
    np.testing.assert_allclose(means[bbse], shares_of(gold[:6000], 3), atol=0.02)
    np.testing.assert_allclose(means[prior_counted], 1 / 3, atol=1e-3)


@pytest.mark.parametrize("make", [bbse, prior_counted])
def test_one_labeled_row_leaves_shares_near_equal(make):
    scores, _ = table(200, 3, 1.0)
    labels = np.full(200, -1)
    labels[7] = 2
    bias = np.asarray(make().fit(scores, labels).bias)
    batch = np.delete(scores, 7, axis=0)
    np.testing.assert_allclose(softmax(batch - bias, axis=1).mean(0), [0.25, 0.25, 0.5], atol=0.1)


def test_where_no_row_is_unlabeled_the_labeled_rows_are_matched():
    scores, _ = table(60, 3, 1.0)
    labels = np.arange(60) % 3
    for make in (bbse, prior_counted):
        expected = prior_matching().fit(scores).bias
        np.testing.assert_allclose(make().fit(scores, labels).bias, expected, atol=1e-3)


# ../shared/scores/README.md: accuracy in %, models in order, then their mean.
UNIFORM = {
    "orig": [24.8, 45.1, 36.3, 48.6, 57.3, 49.7, 59.8, 45.9],
    "neverA": [24.3, 40.5, 32.8, 46.2, 48.6, 48.4, 51.2, 41.7],
    "neverB": [25.0, 38.6, 35.8, 41.9, 48.7, 46.3, 50.5, 41.0],
}
TRUE = {
    "orig": [24.9, 45.4, 36.1, 48.9, 57.9, 49.9, 59.7, 46.1],
    "neverA": [32.5, 54.3, 46.4, 58.0, 64.4, 61.4, 67.3, 54.9],
    "neverB": [33.6, 52.3, 44.6, 58.2, 64.7, 58.2, 67.2, 54.1],
}
MEANS = {"orig": (42.1, 45.7), "neverA": (33.4, 42.2), "neverB": (46.6, 41.1)}


@pytest.mark.parametrize("name", TRUE)
def test_real_scores_give_the_reference_figures(name, shared):
    """Shares of 0 among the true ones: an option that is never right."""
    with np.load(shared / "scores" / "mmlu_base" / f"{name}.npz") as file:
        scores, gold = file["scores"], file["gold"].astype(int)

    def right(method, **options):
        by_seed = 100 * (calibrate(scores, method, **options).argmax(-1) == gold).mean(axis=-1)
        return [*by_seed, by_seed.mean()]

    np.testing.assert_allclose(right("prior_matching"), UNIFORM[name], atol=0.06)
    accuracies = right("prior_matching", target_prior=tuple(shares_of(gold)))
    np.testing.assert_allclose(accuracies, TRUE[name], atol=0.06)
    for method, mean in zip(("icl", "bc"), MEANS[name], strict=True):
        assert right(method)[-1] == pytest.approx(mean, abs=0.06)


def test_a_shares_function_of_ones_own_is_matched():
    scores, prior = table(60, 3, 1.0)
    calibrator = matched(lambda rows, labels, weight: (jnp.asarray(prior), weight))
    corrected = np.asarray(calibrator.apply(calibrator.fit(scores), scores), np.float64)
    np.testing.assert_allclose(softmax(corrected, axis=1).mean(axis=0), prior, atol=1e-6)

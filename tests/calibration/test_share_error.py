"""Shares with an error: oracles in float64 for one context and for several, and laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize, root
from scipy.special import softmax

from batch_calibration import ensemble
from batch_calibration.calibration.empirical_bayes import likely_shift
from batch_calibration.calibration.matching import prior_matching, share_weight
from batch_calibration.calibration.pooled_shares import pool_shares
from batch_calibration.methods.run import jit_quickly

pool = jit_quickly(pool_shares)
UNEVEN = (0.7, 0.3), (0.5, 0.3, 0.2), (0.4, 0.25, 0.2, 0.1, 0.05)
EQUAL = tuple((1 / len(shares),) * len(shares) for shares in UNEVEN)


def draw(shares, rows=80, seed=0, contexts=1):
    """Draws scores [c n k] of the same rows, with a bias of each context."""
    random, k = np.random.default_rng(seed), len(shares)
    gold = random.choice(k, rows, p=shares)
    told = 1.5 * np.eye(k)[gold] + random.normal(size=(contexts, rows, k))
    return (told + random.normal(size=(contexts, 1, k)) - 3).astype(np.float32)


def fit_bias(scores, shares=None, error=None, weights=None):
    fit, _ = prior_matching(target_prior=shares, share_error=error)
    bias = np.asarray(fit(scores, None, weights).bias, np.float64)
    return bias - bias.mean()


def weight_of(u, rows, error):
    """Computes the weight of shares from the variance of each share."""
    variance = np.sum(u * (1 - u)) / rows + len(u) * error**2
    return (len(u) - 1) / (len(u) ** 2 * variance)


def objective(shift, rows, weights, u, w):
    k = len(u)
    pi = np.average(softmax(rows - shift, axis=1), axis=0, weights=weights)
    bias = shift + np.log(pi)
    bias = bias - bias.mean()
    return k * np.log1p(bias @ bias / (2 * k)) + w / 2 * k**2 * np.sum((pi - u) ** 2)


@pytest.mark.parametrize("error", [0.0, 0.1])
@pytest.mark.parametrize("rows", [30, 300])
@pytest.mark.parametrize("u", [*UNEVEN, *EQUAL])
def test_the_bias_has_the_least_objective(u, rows, error):
    (scores,), random = draw(u[::-1], rows), np.random.default_rng(2)
    weights = random.exponential(size=rows).astype(np.float32)
    expected = np.array(u)
    w = weight_of(expected, weights.sum(), error)
    ours = share_weight(jnp.float32(expected), jnp.float32(weights.sum()), error, len(u))
    assert float(ours) == pytest.approx(w, rel=1e-5)
    arguments = (scores.astype(np.float64), weights, expected, w)
    reached = objective(fit_bias(scores, u, error, weights), *arguments)
    starts = random.normal(0, 1.5, (6, len(u)))
    values = [minimize(objective, start, arguments, "BFGS").fun for start in starts]
    assert reached <= min(values) + 2e-3


def test_equal_shares_without_an_error_have_the_weight_n_over_k():
    for k, rows in ((2, 50), (5, 400)):
        w = share_weight(jnp.ones(k) / k, jnp.float32(rows), 0.0, k)
        assert float(w) == pytest.approx(rows / k)


@pytest.mark.parametrize("shares", [None, UNEVEN[1]])
def test_many_rows_are_matched_exactly(shares):
    """With a weight of 10,000 the shares of the match differ by less than 0.1 points."""
    (scores,) = draw(UNEVEN[1], 100)
    many = np.full(100, 300.0, np.float32)  # 30,000 rows
    np.testing.assert_allclose(
        fit_bias(scores, shares, 0.0, many), fit_bias(scores, shares), atol=0.01
    )
    few = np.abs(fit_bias(scores, shares, 0.3) - fit_bias(scores, shares)).max()
    assert few > 0.05


@pytest.mark.parametrize("u", [UNEVEN[0], EQUAL[1], UNEVEN[2]])
def test_a_weight_of_one_is_the_search_of_empirical_bayes(u):
    (scores,) = draw(u, 100)
    expected = np.array(u, np.float32)
    exact = expected.astype(np.float64)
    variance = (len(u) - 1) / len(u) ** 2  # of the weight 1
    error = np.sqrt((variance - np.sum(exact * (1 - exact)) / 100) / len(u))
    rows = jax.nn.log_softmax(jnp.asarray(scores))
    found = likely_shift(rows, jnp.ones(100), jnp.asarray(expected))
    np.testing.assert_allclose(fit_bias(scores, u, float(error)), found, atol=5e-3)


def test_permuted_labels_and_rows_permute_the_bias():
    (scores,), order = draw(UNEVEN[1]), [2, 0, 1]
    shares = np.array(UNEVEN[1])
    usual = fit_bias(scores, UNEVEN[1], 0.05)
    turned = fit_bias(scores[:, order], tuple(shares[order]), 0.05)
    np.testing.assert_allclose(turned, usual[order], atol=1e-3)
    np.testing.assert_allclose(fit_bias(scores[::-1], UNEVEN[1], 0.05), usual, atol=1e-3)
    of_rows = scores + np.linspace(-5, 5, len(scores), dtype=np.float32)[:, None]
    np.testing.assert_allclose(fit_bias(of_rows, UNEVEN[1], 0.05), usual, atol=1e-3)


def test_a_share_of_zero_counts_as_one_in_ten_thousand():
    (scores,) = draw(UNEVEN[1])
    zero = fit_bias(scores, (0.6, 0.4, 0.0), 0.02)
    floored = np.array([0.6, 0.4, 1e-4]) / 1.0001
    np.testing.assert_allclose(zero, fit_bias(scores, tuple(floored), 0.02), atol=1e-3)
    assert np.isfinite(zero).all()


def test_a_row_of_weight_two_is_two_rows_and_of_weight_zero_none():
    (scores,) = draw(UNEVEN[0], 40)
    weights = np.tile([0.0, 1.0, 2.0, 1.0], 10).astype(np.float32)
    absent = np.where(weights[:, None] > 0, scores, np.nan)
    weighted = fit_bias(absent, UNEVEN[0], 0.0, weights)
    repeated = np.repeat(scores, weights.astype(int), axis=0)
    np.testing.assert_allclose(weighted, fit_bias(repeated, UNEVEN[0], 0.0), atol=1e-3)


def test_each_context_under_jit_and_vmap_is_as_alone():
    scores = draw(UNEVEN[1], contexts=4)
    fit, apply = prior_matching(target_prior=UNEVEN[1], share_error=0.03)
    together = jax.jit(jax.vmap(lambda rows: apply(fit(rows), rows)))(scores)
    for rows, corrected in zip(scores, together, strict=True):
        np.testing.assert_allclose(corrected, apply(fit(rows), rows), atol=1e-3)


def test_an_error_out_of_range_or_with_rounds_is_refused(refuses):
    for error in (-0.1, 1.5, float("nan")):
        assert refuses(prior_matching, share_error=error).where == "share_error"
    assert refuses(prior_matching, share_error=0.1, rounds=3).where == "rounds"


# Several contexts.


def information_of(rows):
    """Computes the information of a context's scores on a row's label, in nats, after BC."""
    probs = softmax(rows - rows.mean(axis=0), axis=1)
    return np.mean(np.sum(probs * np.log(probs / probs.mean(axis=0)), axis=1))


def biases_at(shares, contexts):
    """Returns the bias [c k] of each context if its shares are these, by scipy's root."""
    biases = []
    for rows in contexts:

        def miss(shift, rows=rows):
            return softmax(rows - shift, axis=1).mean(axis=0) - shares + shift.mean()

        found = root(miss, rows.mean(axis=0) - rows.mean() - np.log(shares), tol=1e-11)
        bias = found.x + np.log(shares)
        biases.append(bias - bias.mean())
    return np.array(biases)


def joint_objective(shares, contexts, context_weight, w):
    k = len(shares)
    sizes = (biases_at(shares, contexts) ** 2).sum(axis=1) / (2 * k)
    near = w * k**2 / 2 * np.sum((shares - 1 / k) ** 2)
    return k * context_weight @ np.log1p(sizes) + near


def arguments_of(scores, error):
    exact = scores.astype(np.float64)
    exact -= np.log(np.exp(exact).sum(axis=2, keepdims=True))
    told, k = np.array([information_of(rows) for rows in exact]), scores.shape[2]
    context_weight = np.sqrt(len(scores)) * told / told.sum()
    return exact, context_weight, weight_of(np.full(k, 1 / k), scores.shape[1], error)


def pooled_of(scores, error, *, same=True):
    weight = np.ones(scores.shape[:2], np.float32)
    return pool(scores, weight, np.array(same), share_error=error)


@pytest.mark.parametrize("error", [0.0, 0.12])
def test_pooled_shares_of_two_labels_are_the_best_of_a_grid(error):
    scores = draw(UNEVEN[0], 60, contexts=4)
    arguments = arguments_of(scores, error)
    grid = np.linspace(0.02, 0.98, 481)
    values = [joint_objective(np.array([share, 1 - share]), *arguments) for share in grid]
    found = pooled_of(scores, error)
    assert float(found.estimate[0]) == pytest.approx(grid[np.argmin(values)], abs=0.005)
    reached = joint_objective(np.asarray(found.estimate, np.float64), *arguments)
    assert reached <= min(values) + 1e-3
    # Known shares are trusted: the contexts' agreement is no part of it.
    np.testing.assert_array_equal(found.shares, found.estimate)
    assert float(found.trust) == 1.0


def test_pooled_shares_of_three_labels_have_the_least_objective():
    scores = draw(UNEVEN[1], 60, contexts=3)
    arguments = arguments_of(scores, 0.05)
    found = minimize(
        lambda place: joint_objective(softmax(place), *arguments), np.zeros(3), method="Nelder-Mead"
    )
    estimate = np.asarray(pooled_of(scores, 0.05).estimate, np.float64)
    assert joint_objective(estimate, *arguments) <= found.fun + 1e-3
    np.testing.assert_allclose(estimate, softmax(found.x), atol=3e-3)


def test_a_smaller_error_leaves_pooled_shares_nearer_to_equal_ones():
    scores = draw((0.8, 0.2), 100, contexts=4)
    away = [abs(float(pooled_of(scores, error).estimate[0]) - 0.5) for error in (0.0, 0.1, 0.4)]
    assert away == sorted(away) and away[0] < 0.06 < away[2]


def test_order_of_labels_rows_and_contexts_is_nothing():
    scores = draw(UNEVEN[1], contexts=4)
    usual = pooled_of(scores, 0.05)
    for turned, back in [
        (scores[::-1], lambda shifts: shifts[::-1]),
        (scores[:, ::-1], lambda shifts: shifts),
        (scores[:, :, ::-1], lambda shifts: shifts[:, ::-1]),
    ]:
        other = pooled_of(turned, 0.05)
        np.testing.assert_allclose(back(other.shifts), usual.shifts, atol=2e-3)


def balanced_contexts(seed, common, own=0.7):
    """Draws nine contexts of balanced labels that prefer the first one by `common` nats or so."""
    random, gold = np.random.default_rng(seed), np.arange(200) % 2
    contexts = []
    for _ in range(9):
        bias = np.array([common + own * random.normal(), 0])
        scores = 1.5 * np.eye(2)[gold] + random.normal(size=(200, 2)) + bias
        contexts.append(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))
    return np.stack(contexts).astype(np.float32), gold


@pytest.mark.parametrize("common", [0.0, 1.0, 2.0, 2.5])
def test_one_label_for_all_rows_is_no_agreement(common):
    """The contexts of ../shared/cases/faults/14_common_bias agree on one label at 2.5 nats."""
    right = []
    for seed in range(5):
        contexts, gold = balanced_contexts(seed, common)
        right.append((np.asarray(ensemble(contexts)).argmax(axis=-1) == gold).mean())
    assert np.mean(right) >= 0.95

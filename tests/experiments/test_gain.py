"""The law of gain: against simulations, in its limits, and on rows of real models."""

import json
from functools import partial
from itertools import product
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import expit, ndtr
from scipy.stats import gamma, multivariate_normal, norm

from batch_calibration import METHODS
from batch_calibration.methods import make_calibrator
from experiments.evidence.gain import (
    LabelScores,
    Margins,
    break_even_shares,
    expected_accuracy,
    expected_gain,
)
from experiments.evidence.margins import (
    estimate_gain,
    fit_label_scores,
    fit_margins,
    fit_mixture,
)

MARGINS = Margins(bias=1.2, separation=1.0, spread=1.5)
numbers = st.floats(-3.0, 3.0).map(partial(round, ndigits=2))
positive = st.floats(0.3, 3.0).map(partial(round, ndigits=2))
inner_shares = st.floats(0.05, 0.95).map(partial(round, ndigits=2))


def draw_rows(margins: Margins, share: float, rows: int, seed: int) -> tuple[np.ndarray, ...]:
    """Scores [rows, 2] whose margins follow the model, and right labels [rows]."""
    random = np.random.default_rng(seed)
    gold = (random.random(rows) >= share).astype(np.int32)
    signs = np.where(gold == 0, 1.0, -1.0)
    x = margins.bias + margins.separation * signs + margins.spread * random.normal(size=rows)
    return np.stack([x, np.zeros(rows)], axis=1).astype(np.float32), gold


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_bc_gains_what_a_simulation_gains(share: float, strength: float) -> None:
    batches, size = 400, 20
    scores, gold = draw_rows(MARGINS, share, 60_000, 0)
    learned = draw_rows(MARGINS, share, batches * size, 1)[0].reshape(batches, size, 2)
    calibrator = make_calibrator(METHODS["bc"], strength=strength)
    biases = jax.vmap(lambda rows: calibrator.fit(rows).bias)(jnp.asarray(learned))
    thresholds = strength * np.asarray(biases[:, 0] - biases[:, 1])
    margins = scores[:, 0] - scores[:, 1]
    first, second = (np.sort(margins[gold == label]) for label in (0, 1))
    after = share * (1 - np.searchsorted(first, thresholds) / len(first))
    after += (1 - share) * np.searchsorted(second, thresholds) / len(second)
    before = share * (first > 0).mean() + (1 - share) * (second < 0).mean()
    expected = expected_gain(MARGINS, share, size, strength=strength)
    assert float(expected) == pytest.approx(float(after.mean() - before), abs=0.01)


@pytest.mark.parametrize(("share", "stated"), [(0.5, 0.5), (0.3, 0.3), (0.8, 0.5)])
def test_prior_matching_gains_what_the_method_gains(share: float, stated: float) -> None:
    scores, gold = draw_rows(MARGINS, share, 100_000, 2)
    calibrator = make_calibrator(METHODS["prior_matching"], target_prior=(stated, 1 - stated))
    corrected = calibrator.apply(calibrator.fit(jnp.asarray(scores)), jnp.asarray(scores))
    gain = (corrected.argmax(axis=1) == gold).mean() - (scores.argmax(axis=1) == gold).mean()
    expected = expected_gain(MARGINS, share, correction="prior_matching", stated_share=stated)
    assert float(expected) == pytest.approx(float(gain), abs=0.006)


def test_the_threshold_of_prior_matching_varies_as_the_delta_method_says() -> None:
    batches, size, share = 2000, 50, 0.4
    rows = draw_rows(MARGINS, share, batches * size, 3)[0].reshape(batches, size, 2)
    calibrator = make_calibrator(METHODS["prior_matching"], target_prior=(share, 1 - share))
    biases = jax.jit(jax.vmap(lambda batch: calibrator.fit(batch).bias))(jnp.asarray(rows))
    thresholds = np.asarray(biases[:, 0] - biases[:, 1])
    accuracies = share * norm.sf((thresholds - 2.2) / 1.5)
    accuracies += (1 - share) * norm.cdf((thresholds - 0.2) / 1.5)
    expected = expected_accuracy(MARGINS, share, size, correction="prior_matching")
    assert float(expected) == pytest.approx(accuracies.mean(), abs=0.002)


def simulate_gain(bias, separation, spreads, share, rows, correction, batches=2000):
    """The mean gain over batches of rows, in plain numpy; the threshold of matching by halving."""
    random = np.random.default_rng(0)
    is_first = random.random((batches, rows)) < share
    means, own = np.where(is_first, separation, -separation), np.where(is_first, *spreads)
    x = bias + means + own * random.normal(size=(batches, rows))
    thresholds = x.mean(axis=1)
    if correction == "prior_matching":
        low, high = np.full(batches, -80.0), np.full(batches, 80.0)
        for _ in range(50):
            thresholds = (low + high) / 2
            is_above = expit(x - thresholds[:, None]).mean(axis=1) > share
            low, high = np.where(is_above, thresholds, low), np.where(is_above, high, thresholds)

    def accuracy(c: np.ndarray | float) -> np.ndarray:
        first_right = ndtr((bias + separation - c) / spreads[0])
        return share * first_right + (1 - share) * ndtr((c - bias + separation) / spreads[1])

    return float(accuracy(thresholds).mean() - accuracy(0.0))


@pytest.mark.parametrize("correction", ["bc", "prior_matching"])
@pytest.mark.parametrize(
    ("bias", "separation", "spreads", "share"),
    [(2.0, 2.0, (0.5, 2.5), 0.8), (-0.3, 1.0, (0.3, 2.0), 0.5), (1.0, 0.5, (1.5, 0.6), 0.3)],
)
def test_two_spreads_gain_what_a_simulation_gains(correction, bias, separation, spreads, share):
    expected = expected_gain(Margins(bias, separation, spreads), share, 100, correction=correction)
    gain = simulate_gain(bias, separation, spreads, share, 100, correction)
    assert float(expected) == pytest.approx(gain, abs=0.004)
    # Both labels the other way round.
    turned = Margins(-bias, separation, spreads[::-1])
    swapped = expected_gain(turned, 1 - share, 100, correction=correction)
    assert float(swapped) == pytest.approx(float(expected), abs=1e-4)
    alike = [Margins(bias, separation, spread) for spread in (spreads[0], (spreads[0],) * 2)]
    one, two = (expected_gain(each, share, 100, correction=correction) for each in alike)
    assert float(one) == float(two)


def test_labeled_rows_show_two_spreads() -> None:
    random = np.random.default_rng(10)
    gold = np.arange(200) % 2
    noise = random.normal(size=200)

    def scores_of(*spreads: float) -> np.ndarray:
        margins = 2.0 + np.where(gold == 0, 2.0, -2.0) + np.array(spreads)[gold] * noise
        return np.stack([margins, np.zeros(200)], axis=1)

    unlike = scores_of(0.5, 2.5)
    margins = fit_margins(unlike, gold)
    np.testing.assert_allclose(np.asarray(margins.spread), (0.5, 2.5), rtol=0.2)
    assert fit_label_scores(unlike, gold).covariance.shape == (2, 2, 2)
    # Twice as spread may be chance, and so may anything in seven rows.
    assert isinstance(fit_margins(scores_of(1.0, 2.0), gold).spread, float)
    few = np.r_[0:14:2, 1:200:2]
    assert isinstance(fit_margins(unlike[few], gold[few]).spread, float)
    # By one spread the law says a loss of 16 points.
    gain = estimate_gain(unlike, gold, share=[0.8, 0.2], rows=100)
    assert gain.low > -0.02 and gain.value == pytest.approx(0.026, abs=0.02)


def test_balanced_labels_can_lose_where_spreads_differ_or_margins_are_skewed() -> None:
    unlike = Margins(-0.3, 1.0, (0.3, 2.0))
    assert float(expected_gain(unlike, 0.5)) == pytest.approx(-0.021, abs=1e-3)
    assert np.isnan(break_even_shares(unlike)).all()
    assert np.isfinite(break_even_shares(Margins(2.0, 2.0, (0.5, 2.5)))).all()

    def accuracy(c: float) -> float:
        """Of balanced labels whose margins are gamma, of skewness 1: 0.3 + 1 and 0.3 - 1, sd 1."""
        right = gamma.sf(2 * (c - 1.3) + 4, 4), gamma.cdf(2 * (c + 0.7) + 4, 4)
        return float(np.mean(right))

    assert accuracy(0.3) - accuracy(0.0) == pytest.approx(-0.014, abs=1e-3)
    assert float(expected_gain(Margins(0.3, 1.0, 1.0), 0.5)) == pytest.approx(0.011, abs=1e-3)


@pytest.mark.slow_except("10-*")
@pytest.mark.parametrize(("rows", "beyond"), [(10, 0.36), (100, 0.19)])
def test_matching_by_few_rows_is_better_than_the_law_says(rows: int, beyond: float) -> None:
    """The share of cells in which the delta method is off by more than a point; none of BC's is."""
    cells = [*product((0.0, 1.0, 3.0), (0.5, 1.0, 2.0, 4.0), (0.5, 1.0, 2.0), (0.1, 0.5, 0.7))]
    bias, separation, spread, share = np.array(cells).T
    for correction, most in (("bc", 0.0), ("prior_matching", beyond)):
        margins = Margins(bias, separation, spread)
        expected = np.asarray(expected_gain(margins, share, rows, correction=correction))
        gains = np.zeros(len(cells))
        for at, (*numbers, sigma, pi) in enumerate(cells):
            gains[at] = simulate_gain(*numbers, (sigma, sigma), pi, rows, correction, 1000)
        errors = gains - expected
        assert (np.abs(errors) > 0.01).mean() == pytest.approx(most, abs=0.03)
        assert errors.mean() > (0.005 if most else -0.005)


@given(numbers, positive, positive)
def test_balanced_labels_and_many_rows_never_lose(bias, separation, spread):
    gain = float(expected_gain(Margins(bias, separation, spread), 0.5))
    of_each = norm.cdf((separation + np.array([bias, -bias])) / spread)
    closed = norm.cdf(separation / spread) - of_each.mean()
    assert gain == pytest.approx(closed, abs=1e-5)
    assert gain >= -1e-6


@given(numbers, positive, positive, inner_shares)
def test_limits(bias: float, separation: float, spread: float, share: float) -> None:
    margins = Margins(bias, separation, spread)
    assert float(expected_gain(margins, share, strength=0.0)) == 0.0
    many, all_rows = expected_gain(margins, share, 1e9), expected_gain(margins, share)
    assert float(many) == pytest.approx(float(all_rows), abs=1e-5)
    # Swapping both labels changes nothing.
    swapped = expected_gain(Margins(-bias, separation, spread), 1 - share, 30)
    assert float(expected_gain(margins, share, 30)) == pytest.approx(float(swapped), abs=1e-5)
    # Scores that tell nothing of the label: half of what is predicted is right, bias removed.
    guesses = expected_accuracy(Margins(bias, 0.0, spread), share)
    assert float(guesses) == pytest.approx(0.5, abs=1e-5)


@given(numbers, positive, positive)
def test_break_even_shares_part_gains_from_losses(bias, separation, spread):
    assume(separation <= 5 * spread)  # beyond, gains round to 0 in float32
    margins = Margins(bias, separation, spread)
    low, high = map(float, break_even_shares(margins))
    assert low <= 0.5 <= high
    far = min(1.0, 0.5 + abs(bias) / (2 * separation))
    if abs(bias) > 0.02:
        assert (1 - low if bias > 0 else high) == pytest.approx(far, abs=2e-3)
    shares = np.linspace(0.02, 0.98, 25)
    gains = np.asarray(expected_gain(margins, shares))
    assert (gains[(shares > low + 5e-3) & (shares < high - 5e-3)] >= -1e-5).all()
    assert (gains[(shares < low - 5e-3) | (shares > high + 5e-3)] <= 1e-5).all()


def test_arrays_broadcast_and_are_traced() -> None:
    shares, sizes = np.array([0.2, 0.5, 0.8])[:, None], np.array([10, 1000])
    grid = expected_gain(MARGINS, shares, sizes)
    assert grid.shape == (3, 2)
    assert float(grid[1, 1]) == float(expected_gain(MARGINS, 0.5, 1000))
    traced = jax.jit(jax.vmap(partial(expected_gain, MARGINS)))(shares[:, 0])
    np.testing.assert_allclose(traced, expected_gain(MARGINS, shares[:, 0]), atol=1e-6)
    assert expected_gain(MARGINS, shares, sizes, correction="prior_matching").shape == (3, 2)
    assert np.isfinite(jax.grad(lambda share: expected_gain(MARGINS, share, 100))(0.5))


@pytest.mark.parametrize("correction", ["bc", "prior_matching"])
def test_two_labels_by_both_forms(correction: str) -> None:
    bias, separation, spread = MARGINS
    half = np.array([[bias + separation], [bias - separation]]) * np.array([[0.5, -0.5]])
    covariance = spread**2 / 4 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    scores = LabelScores(jnp.asarray(half, jnp.float32), jnp.asarray(covariance, jnp.float32))
    for share, size in ((0.3, 20), (0.5, np.inf), (0.9, 100)):
        pair = expected_gain(MARGINS, share, size, correction=correction)
        labels = expected_gain(scores, [share, 1 - share], size, correction=correction)
        assert float(labels) == pytest.approx(float(pair), abs=5e-4)
        unlike = MARGINS._replace(spread=(spread, 2 * spread))
        each = LabelScores(scores.means, jnp.stack([scores.covariance, 4 * scores.covariance]))
        pair = expected_gain(unlike, share, size, correction=correction)
        labels = expected_gain(each, [share, 1 - share], size, correction=correction)
        assert float(labels) == pytest.approx(float(pair), abs=5e-4)


def test_four_labels_against_scipy_and_a_simulation() -> None:
    random = np.random.default_rng(4)
    means = 1.5 * np.eye(4) + random.normal(size=4)
    root = 0.7 * random.normal(size=(4, 4)) + np.eye(4)
    covariance, shares = root @ root.T, np.array([0.5, 0.3, 0.2, 0.0])
    scores = LabelScores(jnp.asarray(means, jnp.float32), jnp.asarray(covariance, jnp.float32))
    exact = 0.0
    for label, share in enumerate(shares):
        less = np.delete(np.eye(4) - np.eye(4)[label], label, axis=0)
        own = less @ means[label], less @ covariance @ less.T
        exact += share * multivariate_normal.cdf(np.zeros(3), *own)
    assert float(expected_accuracy(scores, shares, strength=0.0)) == pytest.approx(exact, abs=1e-3)
    gold = random.choice(4, 40_000, p=shares)
    rows = means[gold] + random.normal(size=(40_000, 4)) @ root.T
    after = []
    for _ in range(60):
        bias = rows[random.integers(0, len(rows), 25)].mean(axis=0)
        after.append(((rows - bias).argmax(axis=1) == gold).mean())
    expected = expected_accuracy(scores, shares, 25)
    assert float(expected) == pytest.approx(np.mean(after), abs=0.012)


def test_numbers_are_found_again_and_go_into_json() -> None:
    """How often the interval holds the truth is in test_coverage.py."""
    scores, gold = draw_rows(MARGINS, 0.5, 20_000, 5)
    np.testing.assert_allclose(fit_margins(scores, gold), MARGINS, atol=0.05)
    json.dumps(estimate_gain(scores[:64], gold[:64], share=[0.5, 0.5], rows=200, draws=200))


def test_a_mixture_is_named_only_where_two_humps_stand_apart() -> None:
    distant = Margins(bias=1.0, separation=4.0, spread=1.0)
    fit = fit_mixture(draw_rows(distant, 0.7, 1000, 6)[0])
    assert fit.is_identified
    np.testing.assert_allclose([*fit.margins, fit.share], [*distant, 0.7], atol=0.12)
    assert not fit_mixture(draw_rows(MARGINS, 0.7, 1000, 7)[0]).is_identified
    # Heavy tails are better described by two Gaussians, and show no label.
    tails = np.random.default_rng(8).standard_t(2, size=(1000, 1)) * np.array([[1.0, 0.0]])
    heavy = fit_mixture(tails)
    assert heavy.evidence > 0
    assert not heavy.is_identified


def test_signs_on_real_models(shared: Path) -> None:
    with np.load(shared / "scores" / "mmlu_base" / "orig.npz") as archive:
        scores, gold = archive["scores"].astype(np.float64), archive["gold"]
    is_pair = gold < 2
    misses = 0
    for rows in scores[:, is_pair, :2]:
        labels = gold[is_pair]
        margins = fit_margins(rows[::2], labels[::2])
        x, y = (rows[1::2, 0] - rows[1::2, 1]), labels[1::2]
        for share in (0.2, 0.5, 0.8):
            first, second = x[y == 0], x[y == 1]
            c = share * first.mean() + (1 - share) * second.mean()
            gain = share * ((first > c).mean() - (first > 0).mean())
            gain += (1 - share) * ((second <= c).mean() - (second <= 0).mean())
            if abs(gain) > 0.01:
                misses += (gain > 0) != bool(expected_gain(margins, share) > 0)
    assert misses <= 1  # of 21 cells at most


def test_what_cannot_be_fitted_is_a_sentence(refuses) -> None:
    scores, gold = draw_rows(MARGINS, 0.5, 20, 9)
    assert refuses(expected_gain, MARGINS, 0.5, correction="dc").key == "correction"
    assert refuses(fit_margins, scores, np.zeros(20, int)).got == "[20, 0]"
    assert refuses(fit_margins, scores[:4], gold[:4]).got == "4"
    fitted = fit_label_scores(scores, gold)
    assert refuses(expected_gain, fitted, [0.5, 0.2]).where == "share"
    assert refuses(fit_mixture, np.zeros((20, 3))).got == "shape (20, 3)"

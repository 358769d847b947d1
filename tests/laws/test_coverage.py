"""How often intervals hold the truth: of each function that makes some, in simulations.

A 95 % interval shall hold it in 93 to 97 % of many data sets. Where it is known to hold it less or
more often, the test says so by its bounds. Closed forms are tested in test_metrics.py, too, of few
rows; the standard errors of a diagnosis in test_diagnosis.py.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, ndtri
from scipy.stats import binom, multinomial

from batch_calibration import metrics
from batch_calibration.diagnosis import comparison, verdicts
from batch_calibration.integrations import judges
from batch_calibration.metrics import accuracy_of, gain_of, intervals
from experiments.evidence import law_tables, statistics
from experiments.evidence.gain import Margins, expected_gain
from experiments.evidence.margins import estimate_gain

pytestmark = pytest.mark.slow  # thousands of simulated data sets

HONEST = (0.93, 0.97)


def share_held(ends: Iterable[tuple[float, float]], truth: float) -> float:
    """How often intervals hold a number."""
    low, high = np.array([tuple(map(float, pair)) for pair in ends]).T
    return float(((low <= truth) & (truth <= high)).mean())


def check(held: float, least: float = HONEST[0], most: float = HONEST[1]) -> None:
    assert least <= held <= most, held


# Of rows.


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_accuracy_and_gain_in_closed_form(share: float) -> None:
    """Exactly, over all that 300 rows can show; a diagnosis gives the same."""
    right = np.arange(301)
    low, high = intervals.accuracy_interval(right / 300, 300)
    chance = binom.pmf(right, 300, share)
    check(chance[(low <= share) & (share <= high)].sum())
    won, lost = (count.ravel() for count in np.mgrid[:301, :301])
    shares = share / 4, share / 10, 1 - share * 0.35
    counts = np.stack([won, lost, 300 - won - lost], axis=1)[won + lost <= 300]
    chance = multinomial.pmf(counts, 300, shares)
    low, high = intervals.gain_interval(*counts[:, :2].T, 300)
    truth = shares[0] - shares[1]
    check(chance[(low <= truth) & (truth <= high)].sum())
    before = np.arange(300) < 200
    after = np.arange(300) < 230
    assert accuracy_of(before)[1:] == pytest.approx(intervals.accuracy_interval(200 / 300, 300))
    assert gain_of(before, after)[1:] == pytest.approx(intervals.gain_interval(30, 0, 300))


def test_the_bootstrap_of_a_metric() -> None:
    """Macro-F1 of 200 rows, whose truth is that of a million; 93 to 97 % of 400 data sets."""
    confusion = np.array([[0.5, 0.1], [0.1, 0.3]])
    predicted_right = 2 * 0.5 / (0.6 + 0.6), 2 * 0.3 / (0.4 + 0.4)
    cells = np.random.default_rng(0).choice(4, (400, 200), p=confusion.ravel())
    scores = jax.nn.one_hot(cells % 2, 2)

    def ends(rows: jax.Array, gold: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return metrics.bootstrap_interval(metrics.macro_f1, rows, gold, key, draws=100)

    keys = jax.random.split(jax.random.key(0), 400)
    found = jax.jit(jax.vmap(ends))(scores, jnp.asarray(cells // 2), keys)
    check(share_held(zip(*found, strict=True), float(np.mean(predicted_right))), 0.92)


def test_balanced_accuracy() -> None:
    """Of labels with 40 to 200 rows; the percentile bootstrap of few rows is a little narrow."""
    random, recall, counts = np.random.default_rng(1), np.array([0.8, 0.6, 0.7]), [200, 40, 80]
    right = random.binomial(counts, recall, (1500, 3)) / counts
    interval = partial(intervals.mean_recall_interval, draws=500)
    found = [interval(own, np.array(counts), random) for own in right]
    check(share_held(found, recall.mean()), 0.92)


def test_flips_of_orders() -> None:
    """Questions of two orders whose answers differ in 30 %."""
    random, found = np.random.default_rng(2), []
    for flips in random.random((500, 200)) < 0.3:
        asked = np.zeros((400, 2), np.float32)
        # The second order shows the first option second.
        asked[::2, 0], asked[1::2, 1] = 1.0, np.where(flips, -1.0, 1.0)
        found.append(metrics.order_flip_rate(asked, 200)[1:])
    check(share_held(found, 0.3))


# Of draws, tasks, prompts.


def gains_of(random, shape, shared):
    """Outcomes -1, 0, 1 of rows that are alike over the first axes; and their mean."""
    noise = random.normal(size=shape) * np.sqrt(1 - shared)
    noise += random.normal(size=shape[-1]) * np.sqrt(shared)
    return (noise > ndtri(0.9)) * 1.0 - (noise < ndtri(0.06)), 0.04


def test_draws_of_demonstrations_and_prompts() -> None:
    """Five draws on the same rows; ten prompts with three seeds, of which t is cautious."""
    random, of_draws, of_prompts = np.random.default_rng(3), [], []
    for _ in range(500):
        outcomes, truth = gains_of(random, (10, 3, 200), 0.4)
        of_draws.append(intervals.over_rows(outcomes[:5, 0], intervals.OF_GAIN)[1:])
        of_prompts.append(intervals.gain_over_prompts(outcomes)[1:])
    check(share_held(of_draws, truth), 0.93, 0.995)
    check(share_held(of_prompts, truth), 0.93, 1.0)


def test_means_over_tasks_and_contexts() -> None:
    """Tasks of one draw each: over tasks, by rows of all contexts, by a study's verdict."""
    random, sizes = np.random.default_rng(4), np.array([100, 300, 200])
    over, pooled, measured = [], [], []
    for _ in range(1000):
        rows = [gains_of(random, (size,), 0.0)[0] for size in sizes]
        estimates = [intervals.over_rows(own[None], intervals.OF_GAIN) for own in rows]
        over.append(intervals.over_tasks(estimates)[1:])
        pooled.append(comparison._weighted_mean(estimates, sizes / sizes.sum())[1:])
        judged = [verdicts.Verdict("", str(i), None, None, own, own) for i, own in enumerate(rows)]
        measured.append(verdicts.measured_gain(judged)[1:])
    for found in (over, pooled, measured):
        check(share_held(found, 0.04))


def test_the_gain_that_labeled_rows_let_expect() -> None:
    """64 labeled rows, of one spread and of two; the Bayesian bootstrap is a little narrow."""
    for spread, least in ((1.5, 0.9), ((0.5, 2.5), 0.88)):
        truth = float(expected_gain(Margins(1.2, 1.0, spread), 0.6, 200))
        random, found = np.random.default_rng(5), []
        gold = np.arange(64) % 2
        own = np.array(spread if isinstance(spread, tuple) else (spread, spread))[gold]
        for _ in range(150):
            x = 1.2 + np.where(gold == 0, 1.0, -1.0) + own * random.normal(size=64)
            scores = np.stack([x, np.zeros(64)], axis=1)
            found.append(estimate_gain(scores, gold, share=[0.6, 0.4], rows=200, draws=100)[1:])
        check(share_held(found, truth), least, 0.98)


# Of a judge of pairs.


def planted(random, shown_first, candidates, both):
    """120 questions of some candidates; worth is a question's, a candidate's and a pair's."""
    count = 120
    worth = -1.0 + random.normal(0, 1, count) + random.normal(0, 1, (candidates, count))
    is_first = np.tile(np.arange(count) < shown_first * count, (candidates, 1))
    is_first = random.permuted(is_first, axis=1)
    orders = [is_first, ~is_first] if both else [is_first]
    margins = []
    for order in orders:
        signed = np.where(order, worth, -worth)
        margins.append(-1.5 + signed + random.normal(0, 0.5, worth.shape))
    candidate, question = np.indices(worth.shape)
    of_all = [np.concatenate([part.ravel() for part in parts]) for parts in (margins, orders)]
    indices = [np.tile(index.ravel(), len(orders)) for index in (candidate, question)]
    unknown = np.full(len(of_all[0]), -1)
    return judges.Judgments(*of_all, *indices, unknown, tuple("abcdef"[:candidates]))


@pytest.mark.parametrize(
    ("shown_first", "candidates", "both"),
    [(0.5, 1, False), (0.72, 1, False), (0.5, 1, True), (0.5, 5, False), (0.7, 5, True)],
)
def test_a_judge_s_preference_and_win_rates(shown_first, candidates, both):
    random = np.random.default_rng(6)
    normal = np.random.default_rng(0).normal(size=1_000_000)
    # Both orders halve the variance of the judge's own noise.
    truth, truth_of_both = (expit(-1.0 + np.sqrt(noise) * normal).mean() for noise in (2.25, 2.125))
    found = defaultdict(list)
    for _ in range(1000):
        judged = planted(random, shown_first, candidates, both)
        mean, error = judges.position_preference(judged)
        found["preference"].append((mean - 1.98 * error, mean + 1.98 * error))
        for by_candidate in (False, True):
            margins = judges.remove_preference(judged, by_candidate=by_candidate)
            log_odds = judges.candidate_log_odds(margins, judged.is_first)
            removed = judges.place_preference(judged, by_candidate=by_candidate), judged.is_first
            for inside in (None, judged.candidate == 0):
                rate = judges.win_rate(log_odds, judged.question, inside, removed)
                found[by_candidate, inside is None].append(rate[1:])
        if both:
            pairs = judges.swap_pairs(judged)
            rate = judges.win_rate(pairs.log_odds, judged.question[pairs.rows[:, 0]])
            found["both orders"].append(rate[1:])
    check(share_held(found.pop("preference"), -1.5))
    of_pairs = found.pop("both orders", None)
    for ends in found.values():
        check(share_held(ends, truth))
    if of_pairs is not None:
        check(share_held(of_pairs, truth_of_both))


@pytest.mark.parametrize("repeats", [1, 4])
def test_a_judge_s_rate_by_people(repeats: int) -> None:
    """Rows of one question are alike: four of each are no four times the questions."""
    random, found = np.random.default_rng(7), []
    for _ in range(1000):
        people = random.random(400) < 0.4
        agrees = random.random(400) < np.where(people, 0.85, 0.7)
        wins = np.where(agrees, people, ~people)
        human = np.where(np.arange(400) < 120, people, -1)
        rows = np.tile(np.arange(400), repeats)
        found.append(judges.corrected_rate(wins[rows], human[rows], rows)[1:])
    check(share_held(found, 0.4), 0.93, 0.985)
    assert judges.corrected_rate(wins, np.where(np.arange(400) < 12, people, -1)) is None


# Of the pages of evidence.


@pytest.mark.parametrize(
    ("units", "interval", "least", "most"),
    [
        (8, lambda x: statistics.t_interval_cell(x), 0.93, 0.97),
        (60, lambda x: statistics.mean_interval(x, draws=1000)[1:], 0.92, 0.97),
        # The percentile bootstrap of few units is narrow, as its docstring says.
        (8, lambda x: statistics.mean_interval(x, draws=1000)[1:], 0.85, 0.93),
    ],
)
def test_means_over_units(units, interval, least, most):
    random, found = np.random.default_rng(8), []
    for _ in range(1000):
        ends = interval(random.normal(1.0, 2.0, units))
        if isinstance(ends, str):
            ends = [*map(float, re.findall(r"[-+][\d.]+", ends))][1:]
        found.append(ends)
    check(share_held(found, 1.0), least, most)


def test_models_and_tasks_are_both_drawn() -> None:
    """30 models x 40 tasks, effects of both; the crossed bootstrap is a little wide."""
    random, found = np.random.default_rng(9), []
    for _ in range(600):
        cells = random.normal(size=(30, 1)) + random.normal(size=40) + random.normal(size=(30, 40))
        found.append(statistics.crossed_interval(cells, draws=500))
    check(share_held(found, 0.0), 0.92, 0.98)


def test_break_even_points() -> None:
    """Straight gains of 40 units that cross zero at 0.7 on average."""
    random, at, found = np.random.default_rng(10), np.linspace(0.5, 0.9, 5), []
    for _ in range(600):
        gains = (0.7 - at)[:, None] + random.normal(0, 0.2, 40) + random.normal(0, 0.1, (5, 40))
        found.append(statistics.break_even_interval(at, gains, draws=300)[1:])
    check(share_held(found, 0.7), 0.92, 0.98)


def test_the_law_s_fit() -> None:
    """Slope and error over 40 units; the truth of a slope is that of all units."""
    random, slopes, errors = np.random.default_rng(11), [], []
    for _ in range(200):
        cells = []
        for unit in range(40):
            expected = random.normal(0, 0.1, 20)
            measured = random.normal(0.9, 0.2) * expected + random.normal(0, 0.02, 20)
            cells.append(law_tables.GainCells("S", str(unit), measured, expected))
        fit = law_tables.judge_fit(cells)
        slopes.append(fit.slope[1:])
        errors.append(fit.signs.low <= fit.signs.value <= fit.signs.high)
    check(share_held(slopes, 0.9), 0.91, 0.98)
    assert all(errors)

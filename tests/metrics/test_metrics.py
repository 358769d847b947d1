"""Metrics against scikit-learn and by hand, with unknown labels and absent rows left out."""

import json
from functools import partial
from inspect import signature
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom, multinomial, norm, t
from sklearn import metrics as peer

from batch_calibration import InputError, accuracy, metrics
from batch_calibration.calibration.objective import present_mean
from batch_calibration.metrics import intervals
from batch_calibration.metrics.table import METRICS

KEY = jax.random.key(0)
BOOTSTRAP = metrics.bootstrap_interval


def probs(scores):
    odds = np.exp(np.asarray(scores, np.float64))
    return odds / odds.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def rows(planted):
    return planted(80, 3)[:2]


@pytest.fixture(scope="module")
def host(rows):
    """The same rows as plain arrays: float64 probabilities, gold, predictions."""
    scores, gold = (np.asarray(x) for x in rows)
    return probs(scores), gold, scores.argmax(-1)


def recall(gold, picks):
    return [(picks[gold == label] == label).mean() for label in range(3)]


def ece(gold, p, picks):
    confidence, right, expected = p.max(-1), picks == gold, 0.0
    for low in np.arange(15) / 15:
        inside = (confidence > low) & (confidence <= low + 1 / 15)
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return expected


ORACLES = {
    "accuracy": lambda gold, p, picks: peer.accuracy_score(gold, picks),
    "macro_f1": lambda gold, p, picks: peer.f1_score(gold, picks, average="macro"),
    "nll": lambda gold, p, picks: peer.log_loss(gold, p),
    "brier": lambda gold, p, picks: ((p - np.eye(3)[gold]) ** 2).sum(-1).mean(),
    "ece": ece,
    "rsd": lambda gold, p, picks: np.std(recall(gold, picks)) / (picks == gold).mean(),
}


@pytest.mark.parametrize("name", ORACLES)
def test_a_metric_is_scikit_learn_s_or_that_of_loops(name, rows, host):
    p, gold, picks = host
    expected = ORACLES[name](gold, p, picks)
    assert float(METRICS[name](rows[0], gold)) == pytest.approx(expected, abs=1e-6)


def test_macro_f1_leaves_out_labels_that_never_occur():
    scores = jnp.asarray([[1.0, 0.0, -9.0], [1.0, 0.0, -9.0], [0.0, 1.0, -9.0]])
    gold = jnp.asarray([0, 1, 1])
    f1 = peer.f1_score([0, 1, 1], [0, 0, 1], average="macro")
    assert float(metrics.macro_f1(scores, gold)) == pytest.approx(f1)


def test_the_last_two_bins_of_ece_are_two():
    scores = jnp.log(jnp.array([[0.85, 0.15], [0.95, 0.05]]))
    gap = float(metrics.ece(scores, jnp.array([0, 1]), bins=10))
    assert gap == pytest.approx((0.15 + 0.95) / 2, abs=1e-5)


def test_bias_score_is_class_balanced():
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.3, 0.7]])
    expected = 0.5 * np.abs(np.array([(0.9 + 0.3) / 2, (0.1 + 0.7) / 2]) - 0.5).sum()
    score = metrics.bias_score(jnp.log(jnp.asarray(p, jnp.float32)), jnp.asarray([0, 0, 0, 1]))
    assert float(score) == pytest.approx(expected, abs=1e-6)


def test_total_variation_compares_shares():
    scores = jnp.asarray([[1.0, 0.0, 0.0]] * 3 + [[0.0, 1.0, 0.0]])
    gold = jnp.asarray([0, 1, 2, 2])  # shares .25 .25 .5 against .75 .25 0
    assert float(metrics.total_variation(scores, gold)) == pytest.approx(0.5)


@pytest.mark.parametrize("name", METRICS)
def test_unknown_labels_and_absent_rows_do_not_count(name, rows):
    scores, gold = rows
    metric = METRICS[name]
    weight = jnp.ones(80).at[60:].set(0)
    hidden = metric(scores.at[60:].set(jnp.nan), gold.at[40:60].set(-1), weight)
    assert float(hidden) == pytest.approx(float(metric(scores[:40], gold[:40])), abs=1e-6)


@pytest.mark.parametrize("name", METRICS)
def test_no_labeled_row_gives_nan(name, rows):
    scores, gold = rows
    assert np.isnan(float(METRICS[name](scores, jnp.full_like(gold, -1))))
    assert np.isnan(float(jax.jit(METRICS[name])(scores, gold, jnp.zeros(len(gold)))))


@pytest.mark.parametrize("name", METRICS)
def test_per_row_constants_change_nothing(name, rows):
    scores, gold = rows
    moved = scores + jnp.linspace(-3.0, 3.0, 80)[:, None]
    metric = METRICS[name]
    assert float(metric(moved, gold)) == pytest.approx(float(metric(scores, gold)), abs=1e-5)


def test_bootstrap_interval_covers_as_the_binomial_does(rows):
    scores, gold = rows
    low, high = BOOTSTRAP(metrics.accuracy, scores, gold, KEY)
    share = float(metrics.accuracy(scores, gold))
    ends = [binom.ppf(q, 80, share) / 80 for q in (0.025, 0.975)]
    assert float(low) < share < float(high)
    np.testing.assert_allclose((low, high), ends, atol=1.01 / 80)
    half = BOOTSTRAP(metrics.accuracy, scores, gold, KEY, level=0.5)
    ends = [binom.ppf(q, 80, share) / 80 for q in (0.25, 0.75)]
    np.testing.assert_allclose(half, ends, atol=1.01 / 80)


def test_bootstrap_draws_present_rows_alone(rows):
    scores, gold = rows
    weight = jnp.asarray([1.0] * 20 + [0.0] * 60)
    share = float(metrics.accuracy(scores[:20], gold[:20]))
    # Draws of 20 rows: ends are whole twentieths, and those of the binomial or one beside them.
    ends = [binom.ppf(q, 20, share) / 20 for q in (0.025, 0.975)]
    for key in (KEY, jax.random.key(1)):
        ci = BOOTSTRAP(metrics.accuracy, scores, gold, key, weight, draws=4000)
        np.testing.assert_allclose(ci, ends, atol=0.0501)
        assert 0.0 < share < 1.0 and float(ci[0]) < share < float(ci[1])
        np.testing.assert_allclose(np.asarray(ci) * 20, np.round(np.asarray(ci) * 20), atol=1e-4)


def test_summary_is_plain_floats(rows):
    report = metrics.summary(*rows)
    ends = {f"{a}accuracy_{end}" for a in ("", "balanced_") for end in ("low", "high")}
    assert set(report) == {*METRICS, *ends}
    assert all(type(value) is float for value in report.values())


@pytest.mark.parametrize("n", [1, 2, 56, 277])
def test_interval_of_accuracy_is_that_of_rows(n):
    """One owner: the tables' interval of one draw, in closed form."""
    for right in {0, 1, n // 2, n}:
        low, high = metrics.accuracy_interval(np.float32(right / n), n)
        rows = [1.0] * right + [0.0] * (n - right)
        expected = intervals.over_rows([rows], intervals.OF_ACCURACY)
        assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-6)


@pytest.mark.parametrize("n", [10, 20, 32, 56, 277])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.75, 0.9, 0.98])
def test_interval_of_accuracy_holds_it(n, share):
    """Exactly, over all numbers of right rows; the percentile bootstrap holds 0.9 of 10 in 65 %."""
    right = np.arange(n + 1)
    low, high = metrics.accuracy_interval(right / n, n)
    assert binom.pmf(right, n, share)[(low <= share) & (share <= high)].sum() > 0.929


def test_intervals_over_tasks_are_cautious():
    """13 tasks of five draws, each with its t interval: the mean over tasks, 2,000 times."""
    draws = np.random.default_rng(0).normal(size=(2000, 13, 5))
    means = draws.mean(axis=2)
    reaches = 2.776 * draws.std(axis=2, ddof=1) / np.sqrt(5)
    covered = 0
    for mean, reach in zip(means, reaches, strict=True):
        tasks = [intervals.Estimate(m, m - r, m + r) for m, r in zip(mean, reach, strict=True)]
        over = intervals.over_tasks(tasks)
        covered += over.low <= 0.0 <= over.high
    assert 0.975 < covered / 2000 < 0.995


def test_interval_of_a_gain_is_the_published_one():
    """The example of R's statpsych::ci.prop.ps(.05, 12, 4, 26, 6), and numpy's own arithmetic."""
    low, high = metrics.gain_interval(26, 4, 48)
    assert (float(low), float(high)) == pytest.approx((0.2548067, 0.6251933), abs=1e-7)
    expected = intervals.over_rows([[1.0] * 26 + [-1.0] * 4 + [0.0] * 18], intervals.OF_GAIN)
    assert tuple(expected) == pytest.approx((22 / 48, low, high))
    assert [float(x) for x in metrics.gain_interval(3, 0, 3)][1] == 1.0


@pytest.mark.parametrize("flips", [0.02, 0.1, 0.3])
def test_a_few_rows_are_not_taken_for_a_gain(flips):
    """Of 56 rows a method that changes them at random: how often 0 is outside, exactly."""
    won, lost = np.mgrid[:57, :57]
    sure = won + lost <= 56
    won, lost = won[sure], lost[sure]
    counts, shares = np.stack([won, lost, 56 - won - lost], 1), [flips / 2, flips / 2, 1 - flips]
    chance = multinomial.pmf(counts, 56, shares)
    low, high = metrics.gain_interval(won, lost, 56)
    assert chance[(low > 0) | (high < 0)].sum() < 0.055


def test_five_draws_do_not_make_five_times_the_rows():
    """56 rows as CB has, each alike in all draws: t over draws alone holds the gain in 54 %."""
    rng = np.random.default_rng(1)
    covered, of_draws = 0, 0
    for _ in range(300):
        latent = rng.normal(size=56) * 0.9**0.5 + rng.normal(size=(5, 56)) * 0.1**0.5
        outcomes = (latent > norm.ppf(0.9)) * 1.0 - (latent < norm.ppf(0.05))
        interval = intervals.over_rows(outcomes, intervals.OF_GAIN)
        covered += interval.low <= 0.05 <= interval.high
        means = outcomes.mean(axis=1)
        of_draws += abs(means.mean() - 0.05) < 2.776 * means.std(ddof=1) / 5**0.5
    assert covered / 300 > 0.93 and of_draws / 300 < 0.6


@pytest.mark.parametrize("values", [(0.1, 0.4), (0.02, 0.03, -0.01, 0.2)])
def test_the_interval_over_units_is_student_s(values):
    mean, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))
    expected = t.interval(0.95, len(values) - 1, mean, error)
    found = intervals.over_units(values)
    assert tuple(found) == pytest.approx((mean, *expected))
    assert intervals.over_units(values[:1])[1:] == (-np.inf, np.inf)


def test_the_mean_over_tasks_is_surer_than_a_task():
    estimates = [intervals.Estimate(0.1 * i, 0.1 * i - 0.02, 0.1 * i + 0.04) for i in range(4)]
    assert tuple(intervals.over_tasks(estimates)) == pytest.approx((0.15, 0.14, 0.17))
    signs = [intervals.Estimate(*x).beyond_noise for x in ((1, 0.1, 2), (0, -1, 1), (-1, -2, -0.1))]
    assert signs == [1, 0, -1]


def test_summary_counts_labeled_and_present_rows_alone(rows):
    scores, gold = rows
    weight = jnp.asarray([1.0] * 20 + [0.0] * 60)
    alone = metrics.summary(scores[:20], gold[:20])
    hidden = metrics.summary(scores, jnp.where(weight > 0, gold, -1))
    for summary in (hidden, metrics.summary(scores, gold, weight)):
        assert summary == pytest.approx(alone, abs=1e-6)


OF_ANSWERS = [name for name, m in METRICS.items() if hasattr(m, "takes_predictions")]
OF_SCORES = [name for name in METRICS if name not in OF_ANSWERS]


def test_which_metrics_need_scores():
    assert OF_SCORES == ["nll", "brier", "ece", "bias_score", "aurc", "coverage_at_5"]


@pytest.mark.parametrize("name", OF_ANSWERS)
def test_predictions_do_as_well_as_scores(name, rows, host):
    scores, gold = rows
    guesses = host[2]
    metric = METRICS[name]
    expected = float(metric(scores, gold))
    for answers in (guesses, guesses.tolist(), metrics.predict(scores), guesses.astype(np.uint8)):
        assert float(metric(answers, gold)) == pytest.approx(expected, abs=1e-6)
    assert float(metric(guesses, host[1].tolist())) == pytest.approx(expected, abs=1e-6)
    drawn = BOOTSTRAP(metric, scores, gold, 3, draws=50)
    of_scores = BOOTSTRAP(metric, guesses, gold, 3, draws=50)
    np.testing.assert_allclose(drawn, of_scores, atol=1e-6)


def test_predictions_name_labels_that_no_row_has():
    assert float(metrics.accuracy([0, 5], [0, 1])) == 0.5
    assert float(metrics.macro_f1([0, 5], [0, 1])) == pytest.approx(1 / 3)
    assert float(metrics.accuracy([0, 1], [-1, 1])) == 1.0


@pytest.mark.parametrize("name", OF_SCORES)
def test_metrics_of_scores_refuse_predictions(name, host, refuses):
    assert refuses(METRICS[name], host[2], host[1]).got == "shape (80,)"
    assert refuses(BOOTSTRAP, METRICS[name], host[2], host[1]).got == "shape (80,)"


ANSWERS = {"list [n] of float64": [0.0, 1.0], "list of <U1": ["a", "b"], "-1 in row 1": [0, -1]}
ANSWERS |= {"7,000": [0, 7000], "(2,)": [0, 1, 1]}


@pytest.mark.parametrize("got", ANSWERS)
def test_what_is_neither_scores_nor_predictions_is_refused(got, refuses):
    assert refuses(metrics.accuracy, ANSWERS[got], [0, 1]).got == got


def test_probabilities_are_no_scores(rows, refuses):
    scores, gold = rows[:2]
    shares = probs(scores)
    kinds = {"probabilities": shares, "percentages": 100 * shares, "losses": -np.log(shares)}
    for kind, others in kinds.items():
        assert f"which are {kind}" in refuses(metrics.nll, others, gold).got
    for measure in (metrics.brier, metrics.ece, metrics.bias_score, metrics.aurc, metrics.summary):
        with pytest.raises(InputError, match="which are probabilities"):
            measure(probs(scores), gold)
    with pytest.raises(InputError, match="which are probabilities"):
        BOOTSTRAP(metrics.nll, probs(scores), gold)
    assert np.isfinite(jax.jit(metrics.nll)(jnp.asarray(probs(scores)), gold))


def test_names_in_another_writing_are_refused(refuses):
    predicted, gold = np.array(["no", "yes"] * 6), np.array(["yes", "yes", "no"] * 4)
    assert accuracy(predicted, gold) == 0.5
    for other in (np.char.upper(gold), np.char.add(gold, " "), np.char.add("is ", gold)):
        assert str(np.unique(other).tolist()) in refuses(accuracy, predicted, other).expected
    assert accuracy(predicted[:1], gold[:1]) == 0.0
    assert accuracy(np.array(["a", "A"]), np.array(["A", "A"])) == 0.5


def test_predictions_under_jit_are_refused_and_scores_are_not(rows, host, refuses):
    assert "jax.jit" in str(refuses(jax.jit(metrics.accuracy), host[2], host[1]))
    assert float(jax.jit(metrics.accuracy)(*rows)) == float(metrics.accuracy(*rows))


def test_balanced_accuracy_is_scikit_learn_s(rows, host):
    scores, predictions = rows[0], host[2]
    for labels in (host[1], np.where(np.arange(80) < 50, 0, host[1])):
        expected = peer.balanced_accuracy_score(labels, predictions)
        assert float(metrics.balanced_accuracy(scores, labels)) == pytest.approx(expected, abs=1e-6)


def test_its_interval_is_that_of_rows_drawn_within_each_label(rows, host):
    picks, gold = host[2], np.where(np.arange(80) < 50, 0, host[1])
    random = np.random.default_rng(5)
    places = [np.flatnonzero(gold == label) for label in range(3)]
    drawn = [
        np.mean([(picks[random.choice(own, len(own))] == j).mean() for j, own in enumerate(places)])
        for _ in range(4000)
    ]
    interval = metrics.balanced_accuracy_interval(rows[0], gold)
    np.testing.assert_allclose(interval, np.quantile(drawn, (0.025, 0.975)), atol=0.015)
    assert interval == metrics.balanced_accuracy_interval(picks, gold, key=jax.random.key(0))
    assert interval != metrics.balanced_accuracy_interval(picks, gold, key=1)
    report = metrics.summary(rows[0], gold)
    assert (report["balanced_accuracy_low"], report["balanced_accuracy_high"]) == interval
    assert np.isnan(metrics.balanced_accuracy_interval(picks, np.full(80, -1))).all()


def test_labels_are_needed_and_each_has_a_column(rows, refuses):
    for metric in (metrics.accuracy, metrics.nll, metrics.summary):
        assert refuses(metric, rows[0], None).got == "NoneType of object"
    for label, metric in product((-2, 3), (*METRICS.values(), metrics.summary)):
        for beyond in (np.where(np.arange(80) < 40, rows[1], label), rows[1].at[40].set(label)):
            with pytest.raises(InputError) as error:
                metric(rows[0], beyond)
            assert error.value.where == "labels" and error.value.got == f"{label} in row 40"
    for interval in (metrics.balanced_accuracy_interval, partial(BOOTSTRAP, accuracy)):
        assert refuses(interval, rows[0], rows[1].at[0].set(3)).got == "3 in row 0"


@pytest.mark.parametrize("bad", [[np.nan, 0.0, 0.0], [-np.inf] * 3, [np.inf, 0.0, 0.0]])
def test_rows_that_favor_no_label_are_refused_unless_they_do_not_count(bad, rows, refuses):
    scores, gold = np.asarray(rows[0]).copy(), np.asarray(rows[1])
    scores[7] = bad
    intervals_of = (partial(BOOTSTRAP, accuracy), metrics.balanced_accuracy_interval)
    for metric in (*METRICS.values(), metrics.measure, metrics.summary, *intervals_of):
        for array in (scores, jnp.asarray(scores)):
            assert refuses(metric, array, gold).got.endswith(" in row 7")
    for array, row in ((scores, 7), (scores[7], 0), (scores[None], 7)):
        assert refuses(metrics.predict, array).got.endswith(f" in row {row}")
    present = np.arange(80) != 7
    expected = metrics.accuracy(scores[present], gold[present])
    assert metrics.accuracy(scores, np.where(present, gold, -1)) == expected
    assert metrics.accuracy(scores, gold, present) == expected
    # Values that are traced cannot be looked at.
    jax.jit(metrics.accuracy)(scores, gold)


def test_numbers_are_python_s_and_answers_are_what_came(rows):
    scores, gold = (np.asarray(array) for array in rows)
    for name, metric in METRICS.items():
        for source in (scores, scores.tolist(), pd.DataFrame(scores)):
            assert json.loads(json.dumps(metric(source, gold))) == float(metric(*rows)), name
        assert isinstance(metric(*rows), jax.Array) and isinstance(metric(rows[0], gold), jax.Array)
    ends = BOOTSTRAP(metrics.accuracy, scores, gold, draws=20)
    assert {type(end) for end in ends} == {float}
    assert {type(number) for number in metrics.measure(scores, gold).values()} == {float}
    for end in (*metrics.accuracy_interval(0.5, 10), *metrics.gain_interval(3, 1, 9)):
        json.dumps(end)
    # Within a transformed function arrays of numpy are constants, and what comes is traced.
    assert float(jax.jit(lambda: metrics.accuracy(scores, gold))()) == metrics.accuracy(*rows)
    by_context = jax.vmap(metrics.accuracy)(rows[0][None], rows[1][None])
    assert isinstance(by_context, jax.Array) and by_context.shape == (1,)
    expected = scores.argmax(-1).tolist()
    arrays = (rows[0], jax.Array), (scores, np.ndarray), (scores.tolist(), np.ndarray)
    frames = (pd.DataFrame(scores), pd.Series), (pl.DataFrame(scores), pl.Series)
    for source, kind in (*arrays, *frames):
        labels = metrics.predict(source)
        assert isinstance(labels, kind) and np.asarray(labels).dtype == np.int32
        assert list(labels) == expected
    assert metrics.predict(pd.DataFrame(scores, range(5, 85))).index.tolist() == [*range(5, 85)]
    assert metrics.predict(scores[0]).shape == ()


def test_the_seed_of_an_interval_is_0_unless_it_is_given():
    for interval in (BOOTSTRAP, metrics.balanced_accuracy_interval, metrics.summary):
        assert signature(interval).parameters["key"].default == 0


@pytest.mark.parametrize("key", [None, 0.5, "seed", 2**40])
def test_an_interval_s_key_is_a_key_or_a_seed(key, rows, refuses):
    for interval in (partial(BOOTSTRAP, metrics.accuracy), metrics.balanced_accuracy_interval):
        assert refuses(interval, *rows, key=key).where == "key"


def test_labels_of_any_whole_type():
    scores = np.log([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    for kind in (np.uint8, np.int8, np.int64, np.uint16):
        assert accuracy(scores, np.array([0, 1, 1], kind)) == pytest.approx(2 / 3)


def test_a_mean_of_nothing_is_0():
    weights = jnp.array([[1.0, 0.0], [3.0, 0.0]])
    means = present_mean(jnp.array([[2.0, jnp.nan], [6.0, 5.0]]), weights, axis=0)
    assert means.tolist() == [5.0, 0.0]

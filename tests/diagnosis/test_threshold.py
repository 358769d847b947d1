"""Cut-offs on a label's log-odds, against brute force and scikit-learn; coverage of intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_softmax, logit, softmax
from scipy.stats import norm
from sklearn import metrics
from sklearn.model_selection import FixedThresholdClassifier

from batch_calibration import choose_threshold, diagnose, plot
from batch_calibration.diagnosis import threshold
from batch_calibration.estimator import LabelBiasCorrector

GOALS = ("precision:0.9", "precision:0.8", "recall:0.9", "cost:5:1", "f1")


def world(n, seed=0, k=2, digits=6):
    """Scores of two labels or more, where the label 1 is right in 40 %."""
    random = np.random.default_rng(seed)
    gold = np.where(random.random(n) < 0.4, 1, 0 if k == 2 else random.integers(0, k, n))
    scores = random.normal(size=(n, k)) + 1.8 * np.eye(k)[gold]
    return scores.round(digits), gold


def probability(scores, column=1):
    return softmax(np.float32(scores).astype(float), axis=1)[:, column].round(12)


def measured(goal, is_right, is_answered):
    """A measure by scikit-learn; NaN for the precision of no answer."""
    name, *numbers = goal.split(":")
    (_, fp), (fn, _) = metrics.confusion_matrix(is_right, is_answered, labels=[False, True])
    if name == "cost":
        return (float(numbers[0]) * fp + float(numbers[1]) * fn) / len(is_right)
    if name == "f1":
        return metrics.f1_score(is_right, is_answered, zero_division=0.0)
    if name == "recall":
        return metrics.recall_score(is_right, is_answered)
    return metrics.precision_score(is_right, is_answered, zero_division=np.nan)


def best_answers(goal, probs, is_right):
    """The answers by brute force over every cut-off, from the highest to the lowest."""
    cuts = [2.0, *np.unique(probs)[::-1]]
    every = [probs >= cut for cut in cuts]
    values = np.array([measured(goal, is_right, answered) for answered in every])
    name, *numbers = goal.split(":")
    if name == "cost":
        return every[int(np.argmin(values))]
    if name == "f1":
        return every[int(np.argmax(values))]
    good = np.flatnonzero(values >= min(float(numbers[0]), np.nanmax(values)))
    return every[good[-1] if name == "precision" else good[0]]


@pytest.mark.parametrize("goal", [*GOALS, "precision:1", "recall:1", "cost:1:9"])
@pytest.mark.parametrize(("n", "k", "digits"), [(60, 2, 6), (60, 3, 0), (7, 2, 1)])
def test_the_cut_off_is_that_of_brute_force(goal, n, k, digits):
    for seed in range(5):
        scores, gold = world(n, seed, k, digits)
        found = choose_threshold(scores, gold, 1, goal)
        probs = probability(scores)
        right = best_answers(goal, probs, gold == 1)
        np.testing.assert_array_equal(probs >= found.probability, right)
        answers = found.predict(scores)
        np.testing.assert_array_equal(answers == 1, right)
        others = np.delete(scores, 1, axis=1).argmax(axis=1)
        np.testing.assert_array_equal(answers[~right], np.where(others >= 1, others + 1, 0)[~right])
        assert found.log_odds == pytest.approx(logit(found.probability))


def test_the_curve_is_that_of_scikit_learn():
    scores, gold = world(80, digits=1)
    found = choose_threshold(scores, gold, 1, "cost:2:3")
    frame = found.to_frame()
    of_all = metrics.precision_recall_curve(gold == 1, probability(scores))
    np.testing.assert_allclose(frame["precision"].to_numpy()[:0:-1], of_all[0][:-1])
    np.testing.assert_allclose(frame["recall"].to_numpy()[:0:-1], of_all[1][:-1])
    for at, row in zip(found.curve["probability"], frame.itertuples(), strict=True):
        answered = probability(scores) >= at
        assert row.share == pytest.approx(answered.mean())
        assert row.f1 == pytest.approx(measured("f1", gold == 1, answered))
        assert row.cost == pytest.approx(measured("cost:2:3", gold == 1, answered))


def held_out(log_odds, is_right, goal):
    """Numerators and denominators of a measure, each row by the cut-off of the other folds."""
    order = np.lexsort((np.random.default_rng(0).random(len(is_right)), is_right))
    a, b = np.zeros((2, len(is_right)))
    whole = best_answers(goal, log_odds, is_right)
    for fold in range(10):
        rows = np.zeros(len(is_right), bool)
        rows[order[fold::10]] = True
        inside = best_answers(goal, log_odds[~rows], is_right[~rows])
        low, high = log_odds[~rows][inside].min(), log_odds[~rows][~inside].max(initial=-np.inf)
        is_answered = log_odds >= (low + high) / 2
        scale = whole.sum() / is_answered.sum() if goal.startswith("precision") else 1.0
        a[rows] = (is_answered & is_right)[rows] * scale
        b[rows] = (is_answered if goal.startswith("precision") else is_right)[rows] * scale
    return a, b


@pytest.mark.parametrize("goal", ["precision:0.8", "recall:0.9"])
def test_held_out_measures_and_intervals_are_those_of_loops(goal):
    scores, gold = world(90)
    found = choose_threshold(scores, gold, 1, goal)
    log_odds = logit(probability(scores))
    a, b = held_out(log_odds, gold == 1, goal)
    assert found.reached.value == pytest.approx(a.sum() / b.sum())
    labeled = measured(goal, gold == 1, found.predict(scores) == 1)
    a, b = [*a, 0, 0, 1, 1], [*b, 1, 1, 1, 1]
    middle = sum(a) / sum(b)
    variance = sum((x - middle * y) ** 2 for x, y in zip(a, b, strict=True)) / sum(b) ** 2
    reach = np.sqrt(1.959964**2 * variance + (0.75 * (found.reached.value - labeled)) ** 2)
    ends = max(middle - reach, 0), min(middle + reach, 1)
    assert found.reached[1:] == pytest.approx(ends, abs=1e-6)
    assert found.rows == 90 and found.more_rows_to_halve == 270


def test_equal_rows_have_equal_answers():
    scores = np.array([[0.0, 1.0]] * 6 + [[0.0, -1.0]] * 6)
    gold = np.array([1, 1, 1, 1, 1, 0] + [1] + [0] * 5)
    found = choose_threshold(scores, gold, 1, "precision:0.9")
    assert not found.is_reached and found.probability == 0.5
    assert "No cut-off reaches this goal" in str(found)
    np.testing.assert_array_equal(found.predict(scores), [1] * 6 + [0] * 6)
    assert len(found.curve["share"]) == 3


def test_rows_of_unknown_labels_do_not_count():
    scores, gold = world(60)
    more = np.vstack([scores, 3 * world(40, 1)[0]])
    found = choose_threshold(more, [*gold, *(40 * [-1])], 1, "f1")
    alone = choose_threshold(scores, gold, 1, "f1")
    assert str(found) == str(alone) and found.rows == 60


def test_two_rows_have_a_cut_off_and_wide_intervals():
    found = choose_threshold([[0.0, 1.0], [0.0, -1.0]], [1, 0], 1, "precision:0.9")
    assert found.probability == 0.5 and found.is_reached
    assert found.recall.high - found.recall.low > 0.7


def test_frames_have_names_and_any_order_of_columns():
    scores, gold = world(60, k=3)
    names = ["no", "yes", "maybe"]
    frame = pd.DataFrame(scores, columns=names, index=range(100, 160))
    labels = pd.Series(np.array(names)[gold], index=frame.index)
    found = choose_threshold(frame.assign(id=0.5), labels[::-1], "yes", "f1", columns=names)
    alone = choose_threshold(scores, gold, 1, "f1")
    assert found.label == "yes" and found.probability == alone.probability
    answers = found.predict(frame[names[::-1]])
    assert list(answers) == list(np.array(names)[alone.predict(scores)])
    assert answers.index.equals(frame.index)


def test_probabilities_are_read_as_such_or_refused(refuses):
    scores, gold = world(60)
    probs = softmax(scores, axis=1)
    found = choose_threshold(probs, gold, 1, "f1", from_probs=True)
    assert found.probability == choose_threshold(scores, gold, 1, "f1").probability
    np.testing.assert_array_equal(found.predict(probs, from_probs=True), found.predict(scores))
    for function in (found.predict, lambda rows: choose_threshold(rows, gold, 1, "f1")):
        assert "which are probabilities" in refuses(function, probs).got


def test_corrected_scores_above_0_are_read():
    scores, gold = world(60)
    above = scores - scores.min() + 1
    found = choose_threshold(above, gold, 1, "f1")
    assert found.probability == choose_threshold(scores, gold, 1, "f1").probability
    np.testing.assert_array_equal(found.predict(above[:1]), found.predict(scores[:1]))


@pytest.mark.parametrize("goal", ["precision", "precision:2", "recall:0", "cost:5", "cost:0:1", ""])
def test_another_goal_is_refused(goal, refuses):
    error = refuses(choose_threshold, *world(20), 1, goal)
    assert error.where == "goal" and "precision:0.9" in error.remedy
    assert choose_threshold(*world(20), 1, "precision:0.9")


def test_what_has_no_cut_off_is_refused(refuses):
    scores, gold = world(30)
    assert refuses(choose_threshold, scores, gold, 2, "f1").expected == "0, 1"
    for only in (0, 1):
        error = refuses(choose_threshold, scores, np.full(30, only), 1, "f1")
        assert error.got == f"{30 * only} of 30 rows with 'label 1'"
    certain = 100 + np.arange(30) % 7
    error = refuses(choose_threshold, np.stack([0 * certain, certain], 1), gold, 1, "cost:9:1")
    assert "temperature" in error.remedy
    assert choose_threshold(np.stack([0 * certain, certain], 1) / 10, gold, 1, "cost:9:1")


@pytest.mark.parametrize("ends", [(0.2, 0.3), (1e-40, 3e-40), (1 - 3e-9, 1 - 1e-9), (0.0, 1.0)])
def test_a_typed_probability_is_short_and_between_its_rows(ends):
    low, high = ends
    number = threshold._short_decimal(high, low)
    assert low < number < high
    shorter = len(f"{number!r}") <= len(f"{(low + high) / 2!r}")
    assert shorter and float(f"{number!r}") == number


def test_scikit_learn_gives_the_same_predictions():
    scores, gold = world(80)
    rows, names = log_softmax(scores, axis=1), np.array(["no", "yes"])
    corrector = LabelBiasCorrector(classes=["no", "yes"]).fit(rows, names[gold])
    corrected = corrector.transform(rows)
    found = choose_threshold(corrected, gold, 1, "precision:0.9")
    fixed = FixedThresholdClassifier(
        LabelBiasCorrector(classes=["no", "yes"]), threshold=found.probability, pos_label="yes",
        response_method="predict_proba",
    )  # fmt: skip
    predicted = fixed.fit(rows, names[gold]).predict(rows)
    np.testing.assert_array_equal(predicted, names[found.predict(corrected)])


def test_a_threshold_is_drawn():
    scores, gold = world(60)
    found = choose_threshold(scores, gold, 1, "recall:0.8")
    (axes,) = plot(found, "mine").axes
    *curves, chosen = axes.get_lines()
    assert [line.get_label() for line in curves] == ["precision", "recall", "f1"]
    np.testing.assert_array_equal(curves[1].get_ydata(), 100 * found.curve["recall"])
    assert list(chosen.get_xdata()) == 2 * [found.probability]
    assert "\n" not in repr(found)


def test_a_diagnosis_follows_other_answers():
    scores, gold = world(60)
    found = choose_threshold(scores, gold, 1, "precision:0.9")
    answers = found.predict(scores)
    of_answers = diagnose(scores, gold, corrected=scores, answers=answers, from_probs=False)
    assert of_answers.after.accuracy.value == (answers == gold).mean()
    assert len(of_answers.changed) == (answers != scores.argmax(axis=1)).sum()
    assert of_answers.hanging is None
    assert of_answers.after.reliability[0] == pytest.approx(of_answers.before.reliability[0])


def coverage(goal, n, share, sets, seed=0):
    """How often the interval holds the measure of the final cut-off, of two Gaussians."""
    target, random, held = threshold.read_goal(goal), np.random.default_rng(seed), []
    centers = np.log(share / (1 - share)) + np.array([-2.0, 2.0])
    for _ in range(sets):
        is_right = random.random(n) < share
        log_odds = 2.0 * random.normal(size=n) + centers[is_right.astype(int)]
        scores = np.stack([np.zeros(n), log_odds], axis=1)
        levels, measures = threshold._measure_cuts(log_odds, is_right, target.costs)
        place = threshold._choose(measures, target)
        cut = logit(threshold._short_decimal(*expit(levels[place : place + 2]).tolist()))
        if not held:  # the same as the public function, up to its float32
            found = choose_threshold(scores, is_right.astype(int), 1, goal)
            assert found.log_odds == pytest.approx(cut, abs=1e-4)
        found = threshold._cross_fit(log_odds, is_right, target, levels[place : place + 2].mean())
        _, low, high = found[threshold.MEASURES.index(target.measure)]
        fpr, tpr = norm.sf((cut - centers) / 2.0)
        hits, answered = share * tpr, share * tpr + (1 - share) * fpr
        truth = {
            "precision": hits / max(answered, 1e-300), "recall": tpr,
            "f1": 2 * hits / (answered + share),
            "cost": target.costs[0] * (answered - hits) + target.costs[-1] * (share - hits),
        }  # fmt: skip
        held.append(low <= truth[target.measure] <= high)
    return float(np.mean(held))


@pytest.mark.parametrize("goal", GOALS)
def test_intervals_at_a_chosen_cut_off_in_a_few_sets(goal):
    assert coverage(goal, 200, 0.5, 150) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("n", [64, 200, 500])
def test_intervals_at_a_chosen_cut_off(goal, share, n):
    """93 to 97 %; of few right rows, the intervals are cautious. Noise of 1,000 sets: 1.4 %."""
    few = 0.99 if n * share < 50 else 0.97
    assert 0.93 - 0.01 <= coverage(goal, n, share, 1000) <= few + 0.005

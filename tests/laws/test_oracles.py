"""Each method once more, in plain float64 loops written from its equation."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scaling_oracles import least_loss, scaled, unscaled
from scipy.optimize import linprog, minimize, root
from scipy.special import log_softmax, logsumexp

from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.methods import METHODS, correct, fit


@pytest.fixture(scope="module")
def blocks(planted):
    by_block = {}
    sizes = {"test": 31, "cc": 3, "dc": 20, "labeled": 24, "cc_original": 3, "dc_original": 20}
    sizes |= {"pmi": 1, "looc": 7, "permutations": 93}
    for seed, (name, count) in enumerate(sizes.items()):
        rows, gold, _ = planted(count, 3, seed)
        by_block[name] = (rows, gold)
    return by_block


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
        return subtract(doubles(blocks, "test"), [math.log(m) for m in means])

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
        predicted = [max(range(3), key=lambda j, row=row: (row[j], -j)) for row in scores]
        curve.append(sum(int(a == b) for a, b in zip(predicted, blocks["labeled"][1], strict=True)))
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


def matched_oracle(shares):
    """Newton's method in float64, the gap of the softmax means to the shares as a root."""

    def oracle(blocks):
        rows = doubles(blocks, "test")
        target = shares(blocks)

        def gap(further):
            means = normalized(subtract(rows, np.append(further, 0.0))).mean(axis=0)
            return (means - target)[:-1]

        start = np.array(mean_log(rows)) - np.log(target)
        bias = np.append(root(gap, (start - start[-1])[:-1], tol=1e-13).x, 0.0)
        return subtract(rows, bias + np.mean(mean_log(rows)) - bias.mean())

    return oracle


def mean_of_labels(rows, gold):
    """The mean over labels of the mean of each label's rows."""
    means = [mean_log(rows[np.array(gold) == label]) for label in sorted(set(gold))]
    return mean_log(np.array(means))


def rbcorr_oracle(blocks):
    mean = mean_of_labels(doubles(blocks, "labeled"), blocks["labeled"][1].tolist())
    return subtract(doubles(blocks, "test"), mean)


def scaling_oracle(form):
    def oracle(blocks):
        rows, test = (log_softmax(doubles(blocks, name), axis=1) for name in ("labeled", "test"))
        bias = rows.sum(axis=0) / (len(rows) + 8)
        theta_0 = unscaled(3, form)
        fitted = least_loss(rows - bias, blocks["labeled"][1].tolist(), form, theta_0, 10.0)
        return scaled(fitted, test - bias, form)

    return oracle


def equal_shares(blocks):
    return np.full(3, 1 / 3)


def counted_shares(blocks):
    counts = np.ones(3)
    for label in blocks["labeled"][1]:
        counts[int(label)] += 1
    return counts / counts.sum()


def em_shares(blocks, damping=0.05):
    probs, shares = normalized(doubles(blocks, "test")), np.full(3, 1 / 3)
    for _ in range(5000):
        mean = np.mean([row * shares / sum(row * shares) for row in probs], axis=0)
        shares = np.maximum((1 - damping) * mean + damping / 3, 1e-4)
        shares /= shares.sum()
    return shares


def bbse_shares(blocks):
    bias, gold = mean_log(doubles(blocks, "test")), blocks["labeled"][1]
    shifted = {name: subtract(doubles(blocks, name), bias) for name in ("test", "labeled")}
    predictions = {name: [int(np.argmax(row)) for row in rows] for name, rows in shifted.items()}
    predicted = np.bincount(predictions["test"], minlength=3) / len(predictions["test"])
    total = len(gold) + 3
    confusion = np.repeat(predicted[:, None], 3, axis=1) / total
    for prediction, right in zip(predictions["labeled"], gold, strict=True):
        confusion[prediction, int(right)] += 1 / total
    # Least squares of |C w - q|^2 + |w - 1|^2 / n.
    stacked = np.vstack([confusion, np.eye(3) / math.sqrt(total)])
    goal = np.concatenate([predicted, np.ones(3) / math.sqrt(total)])
    shares = np.maximum(np.linalg.lstsq(stacked, goal, rcond=None)[0] * counted_shares(blocks), 0)
    shares = np.maximum(shares / shares.sum(), 1e-4)
    return shares / shares.sum()


def transport_oracle(blocks):
    """The potentials of the program's dual, in the middle of those that predict the same."""
    rows, count = doubles(blocks, "test"), len(blocks["test"][0])
    sums = [[float(i == r) for i in range(count) for _ in range(3)] for r in range(count)]
    sums += [[float(j == c) for _ in range(count) for j in range(3)] for c in range(3)]
    right = [1 / count] * count + [1 / 3] * 3
    plan = linprog(-rows.ravel(), A_eq=sums, b_eq=right, method="highs").x.reshape(count, 3)
    margins = np.full((3, 3), -np.inf)
    for row, prediction in zip(rows, plan.argmax(axis=1), strict=True):
        margins[:, prediction] = np.maximum(margins[:, prediction], row - row[prediction])
    for label in range(3):
        margins = np.maximum(margins, margins[:, [label]] + margins[[label]])
    bias = (margins.mean(axis=1) - margins.mean(axis=0)) / 2
    return subtract(rows, bias - bias.mean() + np.mean(mean_log(rows)))


def linc_oracle(blocks):
    share = normalized(doubles(blocks, "cc")).mean(axis=0)
    theta_0 = np.concatenate([np.diag(1 / share).ravel(), np.zeros(3)])
    gold = blocks["labeled"][1].tolist()
    fitted = least_loss(normalized(doubles(blocks, "labeled")), gold, "matrix", theta_0, 10.0)
    return scaled(fitted, normalized(doubles(blocks, "test")), "matrix")


def looc_oracle(blocks):
    """Up to one constant for all: the method keeps the level of the probe's scores."""
    rows, gold = doubles(blocks, "looc"), blocks["looc"][1].tolist()
    prior = mean_of_labels(normalized(rows), gold)
    level = np.array([[math.log(sum(math.exp(s) for s in row))] for row in rows])
    (moved,) = mean_of_labels(level, gold)
    return subtract(doubles(blocks, "test"), [math.log(p) + moved for p in prior])


def pride_oracle(blocks):
    probs, priors = normalized(doubles(blocks, "permutations")), []
    for question in (probs[i : i + 3] for i in range(0, len(probs), 3)):
        mean = [sum(math.log(row[j]) for row in question) / 3 for j in range(3)]
        priors.append([math.exp(x) / sum(math.exp(y) for y in mean) for x in mean])
    prior = mean_log(np.array(priors))
    return subtract(doubles(blocks, "test"), [math.log(p) for p in prior])


def order_oracle(blocks):
    """Content c stands in place c - r, counted round, of the r-th of three orders."""
    rows, averages = doubles(blocks, "permutations"), []
    for first in range(0, len(rows), 3):
        sums = [0.0, 0.0, 0.0]
        for r in range(3):
            for label in range(3):
                sums[(label + r) % 3] += rows[first + r][label]
        averages.append([total / 3 for total in sums])
    return averages


def empirical_bayes_oracle(is_labeled):
    """The least of the objective by a general search, from several starts."""

    def oracle(blocks):
        batch = log_softmax(doubles(blocks, "test"), axis=1)
        rows, gold = log_softmax(doubles(blocks, "labeled"), axis=1), blocks["labeled"][1]
        after = normalized(batch - batch.mean(axis=0))
        label_of_row, sureness = after.argmax(axis=1), after.max(axis=1)
        ratios = np.array([
            sureness[label_of_row == j].mean() / sureness[label_of_row != j].mean()
            for j in range(3)
        ])  # fmt: skip
        expected = np.clip(ratios, 0.3, 1.2) ** 2 / (np.clip(ratios, 0.3, 1.2) ** 2).sum()

        def objective(shift):
            log_shares = logsumexp(log_softmax(batch - shift, axis=1), axis=0) - np.log(len(batch))
            bias = shift + log_shares
            bias = bias - bias.mean()
            value = 3 * np.log1p(bias @ bias / 6)
            value += 4.5 * ((np.exp(log_shares) - expected) ** 2).sum()
            if is_labeled:
                losses = log_softmax(rows - shift, axis=1)[np.arange(len(gold)), gold]
                value -= 0.1 * losses.sum()
            return value

        starts = [batch.mean(axis=0) - np.log(expected), np.zeros(3)]
        ends = [minimize(objective, start, tol=1e-10) for start in starts]
        shift = min(ends, key=lambda end: end.fun).x
        return subtract(doubles(blocks, "test"), shift - shift.mean())

    return oracle


def moved_shares(blocks):
    """Moves the likely shift's shares toward an estimate by labels, as a mean is shrunk."""
    rows, (_, gold) = doubles(blocks, "test"), blocks["labeled"]
    shift = (rows - np.array(empirical_bayes_oracle(False)(blocks)))[0]
    probs, of_labeled = (normalized(of - shift) for of in (rows, doubles(blocks, "labeled")))
    missed = np.eye(3)[gold] - of_labeled
    variance = missed.var(axis=0, ddof=1).mean() / len(gold) + 1e-6
    start = probs.mean(axis=0)
    away = np.concatenate([probs, of_labeled]).mean(axis=0) + missed.mean(axis=0) - start
    moved = start + max(0.0, 1 - 6 * variance / (away @ away)) * away
    moved = np.maximum(moved, 1 / (12 * len(gold)))
    return moved / moved.sum()


ORACLES = {
    "bc_empirical_bayes": empirical_bayes_oracle(False),
    "bc_pooled_shares": empirical_bayes_oracle(
        False
    ),  # of one context; test_pooled_shares has more
    "ensemble": empirical_bayes_oracle(False),  # of one context; test_ensemble has more
    "bcl_empirical_bayes": empirical_bayes_oracle(True),
    "prior_matching": matched_oracle(equal_shares),
    "otter": transport_oracle,
    "sld_em": matched_oracle(em_shares),
    "prior_counted": matched_oracle(counted_shares),
    "prior_moved": matched_oracle(moved_shares),
    "bbse": matched_oracle(bbse_shares),
    "icl": no_oracle,
    "cc": shift_oracle("cc"),
    "dc": shift_oracle("dc"),
    "bc": shift_oracle("test"),
    "bc_running": running_oracle,
    "bcl": bcl_oracle,
    "cc_original": original_oracle("cc_original"),
    "dc_original": original_oracle("dc_original"),
    "pmi": shift_oracle("pmi"),
    "looc": looc_oracle,
    "pride": pride_oracle,
    "order_average": order_oracle,
    "order_average_bc": lambda blocks: subtract(
        np.array(order_oracle(blocks)), mean_log(np.array(order_oracle(blocks)))
    ),
    "order_average_prior": lambda blocks: matched_oracle(equal_shares)(
        blocks | {"test": (np.array(order_oracle(blocks)), None)}
    ),
    "bc_mean_prob": mean_prob_oracle,
    "bc_prob_shift": prob_shift_oracle,
    "bc_loo": others_oracle,
    "bc_shrunk": shrunk_oracle,
    "rbcorr": rbcorr_oracle,
    "vector": scaling_oracle("vector"),
    "matrix": scaling_oracle("matrix"),
    "linc": linc_oracle,
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
        mean = n / (n + 1) * mean + 1 / (n + 1) * rows[start : start + 8].mean(0)
        expected.append(rows[start : start + 8] - mean)
    calibrator = METHODS["bc_running"].make(batch_size=8, per_batch=True)
    scores = calibrator.apply(calibrator.fit(blocks["test"][0]), blocks["test"][0])
    np.testing.assert_allclose(scores, np.concatenate(expected), atol=5e-6)


def test_target_prior_adds_its_log(blocks):
    rows = blocks["test"][0]
    prior = (0.5, 0.3, 0.2)
    calibrator = METHODS["bc"].make(target_prior=prior)
    expected = np.array(ORACLES["bc"](blocks)) + np.log(prior)
    np.testing.assert_allclose(calibrator.apply(calibrator.fit(rows), rows), expected, atol=5e-6)
    shifted = METHODS["bc_prob_shift"].make(target_prior=prior)
    expected = np.array(ORACLES["bc_prob_shift"](blocks)) + np.array(prior)
    np.testing.assert_allclose(shifted.apply(shifted.fit(rows), rows), expected, atol=5e-6)


def test_equal_scores_predict_the_lowest_index():
    from batch_calibration.calibration.base import predict

    assert predict(jnp.asarray([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]])).tolist() == [0, 1]

"""What recommend says: its signals against plain loops, its rule, and real models."""

import numpy as np
import pytest

from batch_calibration import InputError, calibrate, recommend
from batch_calibration.diagnosis import signals
from batch_calibration.methods import METHODS

SHARES = "prior_matching" if "prior_matching" in METHODS else "bc"


def world(right, rows=400, bias=(0.0, 1.0, 0.0), seed=0, apart=3.0):
    """Scores of three labels, of shares `right`, and the right labels."""
    rng = np.random.default_rng(seed)
    gold = rng.choice(3, rows, p=right)
    scores = rng.normal(-4, 1, (rows, 3)) + apart * np.eye(3)[gold] + bias
    return scores.astype(np.float32), gold


def balanced(guess, gold):
    return np.mean([(guess[gold == label] == label).mean() for label in np.unique(gold)])


def test_signals_are_those_of_plain_loops():
    scores = world([0.6, 0.3, 0.1], rows=60)[0].astype(float)
    found = signals(scores)
    bias = [sum(row[j] for row in scores) / 60 for j in range(3)]
    after = []
    for row in scores:
        raised = [np.exp(row[j] - bias[j]) for j in range(3)]
        after.append([x / sum(raised) for x in raised])
    mean = [sum(row[j] for row in after) / 60 for j in range(3)]
    told = sum(sum(p * np.log(p / q) for p, q in zip(row, mean, strict=True)) for row in after)
    assert found.information == pytest.approx(told / 60)
    for j in range(3):
        mine = [max(row) for row in after if np.argmax(row) == j]
        others = [max(row) for row in after if np.argmax(row) != j]
        ratio = (sum(mine) / len(mine)) / (sum(others) / len(others))
        assert found.confidence[j] == pytest.approx(ratio)
    assert found.doubtful == tuple(j for j in range(3) if found.confidence[j] < 0.9)
    counts = [1 + sum(np.argmax(row) == j for row in scores) for j in range(3)]
    np.testing.assert_allclose(found.predicted, np.array(counts) / 63)
    high, low = np.argmax(bias), np.argmin(bias)
    more = scores[:, high] - scores[:, low]
    assert found.preference == pytest.approx(more.mean())
    assert found.error == pytest.approx(more.std(ddof=1) / np.sqrt(60))


def test_a_preference_of_equal_labels_is_corrected():
    scores, gold = world([1 / 3] * 3, bias=(0.0, 3.0, 0.0))
    found = recommend(scores, label_names=("a", "b", "c"))
    assert (found.method, found.options, found.measured) == ("bc", {}, {})
    assert found.reason[0].startswith("Use bc, for the scores favor 'b' by ")
    assert (calibrate(scores).argmax(1) == gold).mean() > (scores.argmax(1) == gold).mean()


def test_a_label_that_is_never_right_gets_no_more_rows_than_it_has():
    scores, gold = world([0.5, 0.5, 0.0], bias=(0.0, 0.6, -1.0))
    found = recommend(scores, label_names=("a", "b", "c"))
    assert found.method == "bc" and found.signals.doubtful == (2,)
    prior = found.options["target_prior"]
    share = ((scores.argmax(axis=1) == 2).sum() + 1) / 403
    np.testing.assert_allclose(prior, [(1 - share) / 2, (1 - share) / 2, share])
    assert "gives 'c' no larger share than they are predicted for now" in found.reason[0]
    made = calibrate(scores, found.method, **found.options).argmax(axis=1)
    assert (made == gold).mean() > (calibrate(scores).argmax(axis=1) == gold).mean() + 0.05
    assert (made == gold).mean() >= (scores.argmax(axis=1) == gold).mean()


def test_few_rows_a_preference_within_noise_and_scores_that_tell_nothing_are_left():
    scores, _ = world([1 / 3] * 3)
    few = recommend(scores[:49])
    assert few.method == "icl" and "so few rows (49, less than 50)" in few.reason[0]
    assert recommend(scores[:1]).method == "icl"
    # Each row beside its mirror images: no label is preferred.
    even = np.concatenate([scores[:40], scores[:40, [1, 2, 0]], scores[:40, [2, 0, 1]]])
    noise = recommend(even)
    assert noise.method == "icl" and noise.reason[0].endswith("which may be noise.")
    rng = np.random.default_rng(0)
    told = recommend(rng.normal([0.0, 1.0, 0.0], 0.1, (400, 3)))
    assert told.method == "icl" and "nats of a row's label (less than 0.05)" in told.reason[0]


def test_shares_that_are_given_are_used():
    scores, _ = world([0.5, 0.5, 0.0], bias=(0.0, 0.6, -1.0))
    found = recommend(scores, target_prior=[0.495, 0.495, 0.01])
    assert (found.method, found.options) == (SHARES, {"target_prior": (0.495, 0.495, 0.01)})
    equal = recommend(scores, target_prior=np.ones(3) / 3)
    assert (equal.method, equal.options) == ("bc", {})
    assert "right equally often" in equal.reason[0]


def test_labeled_rows_decide():
    # One label is so rare that BC errs, and its rows are as sure as others: no signal shows that.
    scores, gold = world([0.05, 0.15, 0.8], rows=500, bias=(0.0, 0.5, 0.0), apart=1.5)
    drawn, rest = slice(0, 100), slice(100, None)
    found = recommend(scores[rest], labeled=scores[drawn], labels=gold[drawn])
    assert set(found.measured) >= {"icl", "bc", "bcl"}
    bc = (scores[drawn] - scores[rest].mean(axis=0)).argmax(axis=1) == gold[drawn]
    assert found.measured["bc"].value == pytest.approx(bc.mean())
    icl = scores[drawn].argmax(axis=1) == gold[drawn]
    assert found.measured["icl"].value == pytest.approx(icl.mean())
    best = max(found.measured, key=lambda name: found.measured[name].value)
    default = recommend(scores[rest]).method
    assert found.method != default
    assert found.measured[best].value >= found.measured[found.method].value
    assert "of 100 labeled rows right" in found.reason[0]
    assert f"points more than {default}, which the scores alone recommend" in found.reason[0]


def test_a_method_that_learns_from_labels_is_judged_on_rows_that_it_did_not_see():
    scores, gold = world([1 / 3] * 3)
    found = recommend(scores, labeled=scores[:100], labels=gold[:100])
    part = np.empty(100, int)
    part[gold[:100].argsort(kind="stable")] = np.arange(100) % 8
    hits = []
    for fold in range(8):
        seen, out = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
        bias = scores.mean(axis=0)
        curve = [
            ((scores[seen] - g * bias).argmax(axis=1) == gold[seen]).mean()
            for g in np.arange(-50, 51) / 10
        ]
        order = np.argsort(np.abs(np.arange(-50, 51) - 10), kind="stable")
        strength = (np.arange(-50, 51) / 10)[order[np.argmax(np.array(curve)[order])]]
        hits += list((scores[out] - strength * bias).argmax(axis=1) == gold[out])
    assert found.measured["bcl"].value == pytest.approx(np.mean(hits), abs=1e-6)


def test_few_labeled_rows_are_not_measured_and_unknown_ones_do_not_count():
    scores, gold = world([1 / 3] * 3)
    labels = np.where(np.arange(40) < 15, gold[:40], -1)
    found = recommend(scores, labeled=scores[:40], labels=labels)
    assert found.measured == {} and found.method == "bc"
    assert found.reason[-1].startswith("15 labeled rows are too few")
    labels[15] = gold[15]
    some = recommend(scores, labeled=scores[:40], labels=labels)
    assert some.measured["icl"].value * 16 == pytest.approx(
        (scores[:16].argmax(axis=1) == gold[:16]).sum()
    )
    assert "no method is ahead of it by more than a standard error" in " ".join(some.reason)


def test_a_probe_is_measured_on_labeled_rows():
    scores, gold = world([1 / 3] * 3)
    probe = np.tile([-4.0, -3.0, -4.0], (3, 1))
    found = recommend(scores, probe=probe, labeled=scores[:100], labels=gold[:100])
    cc = (scores[:100] - probe[0]).argmax(axis=1) == gold[:100]
    assert found.measured["cc"].value == pytest.approx(cc.mean())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"labels": [0, 1]}, "labeled=.m, k. and labels=.m. together"),
        ({"labeled": [[-1.0, -2.0]]}, "labeled=.m, k. and labels=.m. together"),
        ({"probe": [[-1.0, -2.0]]}, "probe= only beside them"),
        (
            {"target_prior": [0.2, 0.2]},
            "target_prior: expected 2 shares of at least 0 that sum to 1",
        ),
        ({"labeled": [[-1.0, -2.0, -3.0]], "labels": [0]}, "labeled: expected 2 columns"),
    ],
)
def test_what_does_not_fit_is_a_sentence(given, sentence):
    with pytest.raises(InputError, match=sentence):
        recommend([[-1.0, -2.0], [-2.0, -1.0]], **given)
    with pytest.raises(InputError, match="the rows of one prompt"):
        recommend(np.zeros((2, 3, 2)))


@pytest.fixture(scope="module")
def reported(shared):
    """Name -> contexts of the half on which the rule was not found: models of odd index."""
    found = {}
    for name in ("orig", "neverA", "neverB"):
        with np.load(shared / "scores" / "mmlu_base" / f"{name}.npz") as file:
            gold = file["gold"].astype(int)
            found[name] = [(scores, gold) for scores in file["scores"][1::2]]
    for name in ("mmbench", "oodcv"):
        with np.load(shared / "scores" / "vlm" / f"{name}.npz") as file:
            gold, logits = file["gold"].astype(int), file["logits"][1::2].astype(np.float32)
        for k in (4, 6):
            found[f"{name} {k}"] = [(scores[:, :k], gold) for scores in logits]
    return found


def test_on_real_models_it_is_never_worse_than_nothing_and_better_than_bc(reported):
    means = []
    for contexts in reported.values():
        each = []
        for scores, gold in contexts:
            found = recommend(scores, from_probs=False)  # some are logits
            bias = scores.mean(axis=0, dtype=float)
            prior = found.options.get("target_prior", (1.0,))
            made = scores if found.method == "icl" else scores - bias + np.log(prior)
            ways = [way.argmax(axis=1) for way in (scores, scores - bias, made)]
            accuracies = [(way == gold).mean() for way in ways]
            each.append([*accuracies, *(balanced(way, gold) for way in ways)])
        means.append(100 * np.mean(each, axis=0))
        assert means[-1][5] > means[-1][3] + 0.4, each
    icl, bc, recommended = np.mean(means, axis=0)[:3]
    assert recommended > bc + 3 and recommended > icl + 3

"""Recommendations: signals against plain loops, rules, and the choice by labels."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from batch_calibration import calibrate, read, recommend, recommend_together
from batch_calibration.cli import correcting, prior
from batch_calibration.diagnosis import advice as advices
from batch_calibration.diagnosis import known_shares
from batch_calibration.diagnosis.recommend import CANDIDATES, choose_by_labels, signals
from batch_calibration.importers import Reading
from batch_calibration.methods import Evidence, run_methods
from batch_calibration.methods.run import task_of
from batch_calibration.scores import ScoreTable, make_block

WITH_LABELS = "bcl_empirical_bayes"


def world(right, rows=400, bias=(0.0, 1.0, 0.0), seed=0, separation=3.0):
    """Scores of three labels, of shares `right`, and the right labels."""
    rng = np.random.default_rng(seed)
    gold = rng.choice(3, rows, p=right)
    scores = rng.normal(-4, 1, (rows, 3)) + separation * np.eye(3)[gold] + bias
    return scores.astype(np.float32), gold


def test_signals_are_those_of_plain_loops():
    scores = world([0.6, 0.3, 0.1], rows=60)[0].astype(float)
    seen = signals(scores)
    bias = [sum(row[j] for row in scores) / 60 for j in range(3)]
    after = []
    for row in scores:
        raised = [np.exp(row[j] - bias[j]) for j in range(3)]
        after.append([x / sum(raised) for x in raised])
    mean = [sum(row[j] for row in after) / 60 for j in range(3)]
    gain = sum(sum(p * np.log(p / q) for p, q in zip(row, mean, strict=True)) for row in after)
    # A row's constant is no part of what is told: the core normalizes rows first.
    assert seen.information == pytest.approx(gain / 60, rel=0.02)
    high, low = np.argmax(bias), np.argmin(bias)
    more = scores[:, high] - scores[:, low]
    assert seen.preference == pytest.approx(more.mean())
    assert seen.error == pytest.approx(more.std(ddof=1) / np.sqrt(60))


def test_without_labels_the_likely_shift_is_recommended_with_what_to_expect():
    scores, _ = world([1 / 3] * 3, bias=(0.0, 2.0, 0.0))
    advice = recommend(scores, label_names=("a", "b", "c"))
    assert (advice.method, advice.source, advice.measured) == ("prior_matching", "estimated", {})
    corrected = np.asarray(calibrate(scores, "bc_empirical_bayes"), np.float64)
    shares = softmax(corrected, axis=1).mean(axis=0)
    assert advice.options == {"target_prior": pytest.approx(tuple(shares), abs=1e-5)}
    listed = ", ".join(
        f"{name} {100 * share:.3g} %" for name, share in zip("abc", shares, strict=True)
    )
    assert advice.reason[0].startswith(
        "If labels are about equally frequent, match equal shares; if you do not know, match the "
        f"shares estimated from these scores, {listed}: they favor 'b' by "
    )
    assert advice.if_balanced == ("prior_matching", {"share_error": 0.0})
    assert advice.short == "estimated shares" and advice.balanced.short == "equal shares"
    gain, risk, source = advice.expected
    assert gain.low < gain.value < gain.high and np.isnan(risk)
    assert "contexts of real models" in source and source in advice.reason[1]
    assert advice.accuracy is None
    assert str(advice).splitlines() == list(advice.reason)
    assert "favor &#x27;b&#x27; by" in advice._repr_html_()


def test_few_rows_and_scores_that_tell_nothing_are_left():
    scores, _ = world([1 / 3] * 3)
    few = recommend(scores[:19])
    assert few.method == "icl" and "19 rows (fewer than 20)" in few.reason[0]
    assert few.expected.gain.value == few.expected.risk == 0
    assert recommend(scores[:1]).method == "icl" and recommend(scores[:20]).method != "icl"
    advice = recommend(np.random.default_rng(0).normal([0.0, 1.0, 0.0], 0.1, (400, 3)))
    assert advice.method == "icl" and "nats, less than 0.05) is near guessing" in advice.reason[0]


@pytest.mark.parametrize("source", advices.RANGES)
def test_what_to_expect_is_of_contexts_that_promise_alike(source):
    ranges = advices.RANGES[source]
    ends = [bounds.most for bounds in ranges]
    assert ends == sorted(ends) and ends[-1] == np.inf
    for bounds in ranges:
        assert bounds.low <= bounds.gain <= bounds.high and 0 <= bounds.fell < 0.6
    before = np.log([[0.6, 0.4]])
    # Before it had 0.4 after the correction: promised are 20 points.
    expected = advices.expect(before, np.log([[0.4, 0.6]]), source)
    assert expected.gain.value == pytest.approx(ranges[-1].gain / 100)
    nothing = advices.expect(before, before, source)
    assert nothing.gain.value == pytest.approx(ranges[0].gain / 100)


def ranges_of(text, k=3):
    """Returns the middle [k] and the error of ranges by plain search and sums."""
    low, high = np.array(text, float).T
    low, high = np.maximum(low, 1 - (high.sum() - high)), np.minimum(high, 1 - (low.sum() - low))
    below, above = 0.0, 1.0
    for _ in range(60):
        part = (below + above) / 2
        total = (low + part * (high - low)).sum()
        below, above = (part, above) if total < 1 else (below, part)
    error = np.sqrt(
        np.mean([(top - least) ** 2 / 12 for least, top in zip(low, high, strict=True)])
    )
    return low + below * (high - low), error


def test_the_middle_of_ranges_is_matched_within_their_error():
    scores, _ = world([0.6, 0.3, 0.1])
    names = ("a", "b", "c")
    ranges = {"c": (0.0, 0.1), "a": (0.5, 0.9), "b": (0.2, 0.4)}
    middle, error = ranges_of([ranges[name] for name in names])
    advice = recommend(scores, share=ranges, label_names=names)
    assert (advice.method, advice.source) == ("prior_matching", "stated")
    assert advice.options["target_prior"] == pytest.approx(middle)
    assert advice.error == advice.options["share_error"] == pytest.approx(error)
    by_place = recommend(scores, share=[ranges[name] for name in names], label_names=names)
    assert by_place == advice
    of_first = recommend(scores[:, :2], share=(0.2, 0.4))
    assert of_first.options["target_prior"] == pytest.approx((0.3, 0.7))
    assert of_first.error == pytest.approx(0.2 / np.sqrt(12))
    # The second label's range may be the narrower one.
    both = recommend(scores[:, :2], share=[(0.0, 0.4), (0.6, 0.8)])
    assert both.options["target_prior"] == pytest.approx((0.3, 0.7))
    around = recommend(scores[:, :2], share=(0.4, 0.6))
    assert (around.source, around.short) == ("equal", "nearly equal shares")


def test_ranges_that_hold_no_shares_are_refused(refuses):
    scores, _ = world([1 / 3] * 3)
    for share in ((0.7, 0.3), (0.3,), (-0.1, 0.5), "balance", (np.nan, 0.5), [(0, 0.3), (0, 0.3)]):
        assert refuses(recommend, scores[:, :2], share=share).got == repr(share)
    for share in ("balanced:-1", "balanced:101", "balanced:x", "balanced:nan"):
        assert refuses(recommend, scores, share=share).got == repr(share)
    names = ("a", "b", "c")
    for share in ((0.3, 0.7), {"a": (0, 1), "b": (0, 1)}, [(0.4, 0.5)] * 3, [("x", 1)] * 3):
        assert refuses(recommend, scores, share=share, label_names=names).where == "share"
    both = {"share": (0.3, 0.7), "target_prior": (0.5, 0.5)}
    assert refuses(recommend, scores[:, :2], **both).got == "target_prior and share"


@pytest.mark.parametrize(
    ("stated", "error"),
    [
        ({"share": "balanced"}, 0.0),
        ({"share": "balanced:12"}, 0.12),
        ({"target_prior": np.ones(3) / 3}, 0.0),
    ],
)
def test_of_balanced_labels_equal_shares_are_matched(stated, error):
    scores, gold = world([1 / 3] * 3, bias=(0.0, 2.5, 0.0))
    advice = recommend(scores, **stated)
    assert (advice.method, advice.options) == ("prior_matching", {"share_error": error})
    assert advice.source == "equal" and advice.if_balanced is None
    within = f"shares within about {100 * error:.0f} points of " if error else ""
    because = "because you stated that labels are about equally frequent."
    assert advice.reason[0] == f"Match {within}equal shares, {because}"
    assert advice.expected.gain.low < advice.expected.gain.value < advice.expected.gain.high
    right = [of.argmax(axis=1) == gold for of in (scores, np.asarray(advice.apply(scores)))]
    assert right[1].mean() > right[0].mean()


def test_known_shares_that_a_match_moves_away_from_are_not_advised():
    """Unsure rows are predicted in the stated shares, but matched they all have one label."""
    margins = np.repeat([0.1, -0.1], [60, 40])
    rows = np.stack([margins, np.zeros(100)], axis=1) - 3
    matched = np.asarray(calibrate(rows, "prior_matching", target_prior=(0.6, 0.4)))
    assert (matched.argmax(axis=1) == 0).all()
    advice = recommend(rows, target_prior=(0.6, 0.4))
    assert advice.short == "leave it" and advice.if_balanced is None
    assert "would move the predictions away from them" in advice.reason[0]
    sure = recommend(50 * (rows + 3) - 9, target_prior=(0.6, 0.4))
    assert sure.options == {"target_prior": (0.6, 0.4)}


def test_shares_that_are_given_are_used():
    scores, _ = world([0.5, 0.5, 0.0], bias=(0.0, 0.6, -1.0))
    advice = recommend(scores, target_prior=[0.495, 0.495, 0.01])
    assert advice[:2] == ("prior_matching", {"target_prior": (0.495, 0.495, 0.01)})
    assert advice.source == "stated" and advice.error is None
    assert advice.expected.gain.low < advice.expected.gain.value


def test_counted_labels_move_the_estimated_shares(refuses):
    scores, _ = world([0.6, 0.3, 0.1])
    p0 = np.array([*recommend(scores).shares.values()])
    counts = np.array([2.0, 14.0, 0.0])
    estimate, smooth = counts / 16, (counts + 1) / 19
    variance, away = np.mean(smooth * (1 - smooth)) / 16, estimate - p0
    moved = p0 + max(0.0, 1 - 2 * variance * 3 / (away @ away)) * away
    moved = np.maximum(moved, 1 / (4 * 16 * 3))
    advice = recommend(scores, counts=counts)
    assert advice.options["target_prior"] == pytest.approx(moved / moved.sum(), abs=1e-4)
    assert advice.source == "labeled" and "by 16 counted labels" in advice.reason[0]
    by_name = recommend(pd.DataFrame(scores, columns=[*"abc"]), counts={"b": 14, "a": 2, "c": 0})
    assert by_name.options == advice.options
    agreeing = recommend(scores, counts=1000 * p0)
    assert agreeing.options["target_prior"] == pytest.approx(p0, abs=1e-3)
    for wrong in ([0, 0, 0], [1, -1, 3]):
        assert refuses(recommend, scores, counts=wrong).where == "counts"
    assert refuses(recommend, scores, counts=counts, share="balanced").got == "share and counts"


def test_labeled_rows_are_judged_by_folds_that_did_not_see_them():
    scores, gold = world([1 / 3] * 3)
    advice = recommend(scores, labeled=scores[:100], labels=gold[:100])
    assert {*advice.measured} == {*CANDIDATES} - {"cc"}
    bc = (scores[:100] - scores.mean(axis=0)).argmax(axis=1) == gold[:100]
    assert advice.measured["bc"].value == pytest.approx(bc.mean())
    icl = scores[:100].argmax(axis=1) == gold[:100]
    assert advice.measured["icl"].value == pytest.approx(icl.mean())
    fold_of_row = np.random.default_rng(0).permutation(100) % 8
    bias, hits = scores.mean(axis=0), []
    for fold in range(8):
        seen, out = np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)
        strengths = sorted(np.arange(-50, 51) / 10, key=lambda g: round(abs(g - 1), 6))
        curve = [((scores - g * bias).argmax(1) == gold)[seen].mean() for g in strengths]
        strength = strengths[np.argmax(curve)]
        hits += list((scores[out] - strength * bias).argmax(axis=1) == gold[out])
    assert advice.measured["bcl"].value == pytest.approx(np.mean(hits), abs=1e-6)


def test_a_fold_s_choice_and_fits_know_nothing_of_its_labels():
    """Turn the labels of a fold: what is chosen for it and predicted of it stays."""
    scores, gold = world([0.1, 0.3, 0.6], rows=200, bias=(1.5, 0.0, 0.0), separation=1.0)
    fold_of_row = np.random.default_rng(0).permutation(40) % 8
    turned = np.where(fold_of_row == 3, (gold[:40] + 1) % 3, gold[:40]).astype(np.int32)
    outs = []
    for labels in (gold[:40].astype(np.int32), turned):
        blocks = {"test": Evidence(scores[40:]), "labeled": Evidence(scores[:40], labels)}
        choice = choose_by_labels(blocks, "bcl_empirical_bayes", {})
        outs.append((choice.held_out[fold_of_row == 3], labels[fold_of_row == 3]))
    (first, labels), (second, second_labels) = outs
    # A prediction is right under one of both labels at most.
    assert not (first & second).any() and (labels != second_labels).all()


def test_a_method_that_is_clearly_ahead_is_taken():
    # Scores that speak for the wrong label: a scale below 0 alone sets them right.
    scores, gold = world([0.5, 0.3, 0.2], rows=400, bias=(0.0, 0.5, 0.0), separation=-3.0)
    advice = recommend(scores[100:], labeled=scores[:100], labels=gold[:100])
    assert advice.method in ("vector", "bcl")
    assert f"points ahead of {WITH_LABELS}" in advice.reason[0]
    assert advice.accuracy.value <= max(of.value for of in advice.measured.values()) + 1e-9
    assert "nested cross-validation" in advice.reason[1]


def test_few_labeled_rows_are_not_measured_and_unknown_ones_do_not_count():
    scores, gold = world([1 / 3] * 3)
    labels = np.where(np.arange(40) < 15, gold[:40], -1)
    advice = recommend(scores, labeled=scores[:40], labels=labels)
    assert advice.measured == {} and advice.source == "estimated"
    assert advice.reason[-1].startswith("15 labeled rows are too few")
    labels[15] = gold[15]
    advice = recommend(scores, labeled=scores[:40], labels=labels)
    assert advice.measured["icl"].value == pytest.approx((scores.argmax(1) == gold)[:16].mean())
    assert (advice.method, advice.source) == ("prior_matching", "labeled")
    assert f"learned by {WITH_LABELS}: on 16 labeled rows no other method" in advice.reason[0]
    learned = calibrate(scores, WITH_LABELS, labeled=scores[:16], labels=gold[:16])
    gaps = np.ptp(np.asarray(advice.apply(scores)) - np.asarray(learned), axis=1)
    np.testing.assert_allclose(gaps, 0, atol=1e-3)


def test_a_probe_is_measured_on_labeled_rows():
    scores, gold = world([1 / 3] * 3)
    probe = np.tile([-4.0, -3.0, -4.0], (3, 1))
    advice = recommend(scores, probe=probe, labeled=scores[:100], labels=gold[:100])
    cc = (scores[:100] - probe[0]).argmax(axis=1) == gold[:100]
    assert advice.measured["cc"].value == pytest.approx(cc.mean())


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"labels": [0, 1]}, "recommend"),
        ({"labeled": [[-1.0, -2.0]]}, "recommend"),
        ({"probe": [[-1.0, -2.0]]}, "recommend"),
        ({"target_prior": [0.2, 0.2]}, "target_prior"),
        ({"labeled": [[-1.0, -2.0, -3.0]], "labels": [0]}, "labeled"),
    ],
)
def test_what_does_not_fit_is_a_sentence(options, where, refuses):
    assert refuses(recommend, [[-1.0, -2.0], [-2.0, -1.0]], **options).where == where
    assert refuses(recommend, np.zeros((2, 3, 2))).got == "shape (2, 3, 2)"


def contexts_of(count, rows=80, seed=0):
    """Scores [c n 2] of the same rows under a bias of each context, 70 % of the first label."""
    random = np.random.default_rng(seed)
    gold = random.choice(2, rows, p=[0.7, 0.3])
    told = 2.0 * np.eye(2)[gold] + random.normal(size=(count, rows, 2))
    return told + 1.5 * random.normal(size=(count, 1, 2)) - 9, gold


def test_contexts_of_a_task_are_recommended_pooled_shares():
    scores, _ = contexts_of(6)
    found = recommend_together(scores, same_rows=True, label_names=("a", "b"))
    assert {advice.short for advice in found.contexts} == {"pooled shares"}
    # One answer, where agreement guards against a bias that all contexts have.
    assert all(advice.if_balanced is None for advice in found.contexts)
    assert found.contexts[0].reason[0].startswith("Match the shares estimated from 6 contexts, a ")
    assert "For one answer per row, ensemble(contexts) averages" in found.contexts[0].reason[-1]
    of_other_rows = recommend_together(scores, label_names=("a", "b")).contexts
    assert {advice.balanced.short for advice in of_other_rows} == {"equal shares"}
    assert "match the shares estimated from 6 contexts" in of_other_rows[0].reason[0]
    assert all(advice.shares == found.shares for advice in found.contexts)
    assert 0.5 < found.shares["a"] < 0.9 and sum(found.shares.values()) == pytest.approx(1)
    assert "Label shares, estimated from all contexts together: a " in str(found)
    two = recommend_together(scores[:2], label_names=("a", "b"))
    assert {advice.source for advice in two.contexts} == {"estimated"}
    assert two.shares == {}
    alone = recommend(scores[0], label_names=("a", "b"))
    assert two.contexts[0].method == alone.method and two.contexts[0].reason == alone.reason


def test_contexts_that_are_not_of_one_task_are_refused(refuses):
    scores, _ = contexts_of(3)
    assert refuses(recommend_together, []).where == "contexts"
    assert refuses(recommend_together, [scores[0], np.zeros((4, 3))]).got == "shape (4, 3)"
    assert refuses(recommend_together, [scores]).where == "contexts[0]"
    few = [scores[0], scores[1, :9]]
    assert refuses(recommend_together, few, same_rows=True).got == "shape (9, 2)"


def test_frames_of_one_task_are_read_by_their_names():
    scores, _ = contexts_of(4)
    frames = [pd.DataFrame(rows, columns=["a", "b"]) for rows in scores]
    in_words = [frame.set_axis([f"row {i}" for i in frame.index]) for frame in frames]
    usual = recommend_together(in_words, same_rows=True)
    moved = [in_words[0], in_words[1][["b", "a"]], in_words[2][::-1], in_words[3]]
    other = recommend_together(moved, same_rows=True)
    assert other.contexts == usual.contexts and other.shares == usual.shares


def test_the_console_pools_the_contexts_of_a_task():
    scores, gold = contexts_of(3)
    tables = []
    for seed, rows in enumerate(scores):
        context = {"task": "mine", "seed": seed}
        tables.append(ScoreTable(context, ("a", "b"), {"test": make_block(rows, gold)}))
    tables.append(tables[0]._replace(context={"task": "other"}))
    found = correcting.advise_contexts(tables, [prior.Stated()] * 4)
    assert [advice.source for advice in found] == 3 * ["pooled"] + ["estimated"]
    methods = 3 * ["bc_pooled_shares"] + ["bc_empirical_bayes"]
    groups = [table.context["task"] for table in tables]
    results = run_methods(tables, sorted(set(methods)), groups=groups).results
    for table, advice, method, corrected in zip(tables, found, methods, results, strict=True):
        followed = correcting.follow_advice(table, advice)
        gaps = np.ptp(followed.scores - corrected[method].scores, axis=1)
        np.testing.assert_allclose(gaps, 0, atol=2e-3)
    balanced = prior.Stated(known_shares.know_roughly("balanced", 2))
    stated = correcting.advise_contexts(tables, [balanced] * 4)
    # Of contexts that may have other rows, each is matched to equal shares.
    assert [advice.source for advice in stated] == 4 * ["equal"]


def write_prompts(folder, ids, golds):
    """Three prompts of one task: a CSV of each, a CSV of all, and a log of the harness of each."""
    scores, gold = contexts_of(3)
    parts = []
    for seed, rows in enumerate(scores):
        frame = pd.DataFrame(rows, columns=["a", "b"])
        frame = frame.assign(id=ids(seed), right=np.array(["a", "b"])[golds(seed, gold)])
        frame.to_csv(folder / f"p{seed}.csv", index=False)
        parts.append(frame.assign(prompt=f"prompt {seed}"))
        with (folder / f"samples_mine_2026-11-27T0{seed}-00-00.jsonl").open("w") as log:
            for i, row in enumerate(rows):
                line = {"doc_id": i, "doc": {"q": ids(seed)[i]}, "target": int(gold[i])}
                line["arguments"] = [[f"{seed}: {i}", label] for label in (" a", " b")]
                line["filtered_resps"] = [[float(score), False] for score in row]
                print(json.dumps(line), file=log)
    pd.concat(parts).to_csv(folder / "all.csv", index=False)


@pytest.mark.parametrize("door", ["files", "by", "logs"])
def test_prompts_of_one_task_are_pooled_at_the_console(program, tmp_path, door):
    write_prompts(tmp_path, lambda seed: [f"q{i}" for i in range(80)], lambda seed, gold: gold)
    files = {
        "files": [*map(str, sorted(tmp_path.glob("p*.csv"))), "--task=mine"],
        "by": [str(tmp_path / "all.csv"), "--by=prompt"],
        "logs": [f"{tmp_path}/samples*"],
    }[door]
    flags = [*files, *(["--ids=id", "--gold=right"] if door != "logs" else [])]
    said = program("recommend", *flags).stdout
    said = " ".join(said.split())
    assert said.count("Match the shares estimated from 3 contexts, a ") == 3
    assert "equally frequent, match" not in said
    assert "calibrate FILE --method=prior_matching --prior=" in said
    assert "batch-calibration ensemble FILES averages them" in " ".join(said.split())
    page = str(tmp_path / "page.html")
    shown = program("report", *flags, "--methods=icl,bc", f"--output={page}").stdout
    assert "--method=prior_matching --prior=0." in " ".join(shown.split())
    assert all(flag in shown for flag in flags)  # the command reads the files as the page did
    # One task, whose interval is over its contexts.
    assert shown.count("\nmine ") == (door != "by") and "mean" not in shown.split("Accuracy")[0]
    found = json.loads(program("recommend", *flags, "--json").stdout.splitlines()[0])
    assert (found["method"], found["source"]) == ("prior_matching", "pooled")


@pytest.mark.parametrize(
    ("ids", "golds"),
    [
        # Ids that differ, and right labels that do.
        (lambda seed: [f"{seed}-{i}" for i in range(80)], lambda seed, gold: gold),
        (lambda seed: [f"q{i}" for i in range(80)], lambda seed, gold: np.roll(gold, seed)),
    ],
)
def test_parts_of_a_file_that_ask_other_questions_are_not_pooled(program, tmp_path, ids, golds):
    write_prompts(tmp_path, ids, golds)
    flags = (f"{tmp_path}/all.csv", "--by=prompt", "--ids=id", "--gold=right")
    said = program("recommend", *flags).stdout
    assert "contexts, a " not in said
    files = sorted(map(str, tmp_path.glob("p*.csv")))
    # Files of other names may be other tasks: it is said how to tell that they are one.
    assert "--task=NAME" in program("recommend", *files, "--gold=right").stderr
    said = program("recommend", *files, "--gold=right", "--task=mine").stdout
    near = "if you do not know, match the shares estimated from 3 contexts"
    assert " ".join(said.split()).count(near) == 3
    # Other ids or right labels: not known to be the same questions.
    same = program("recommend", *files, "--gold=right", "--task=mine", "--ids=id").stdout
    assert same == said


@pytest.mark.parametrize("axis", ["models", "prompts"])
def test_contexts_of_one_array_are_pooled_where_they_share_right_labels(program, tmp_path, axis):
    scores, gold = contexts_of(3)
    names, subjects = np.array(["x", "y", "z"]), np.arange(80) % 2
    np.savez(tmp_path / "a.npz", scores=scores, gold=gold, subject=subjects, **{axis: names})
    said = program("recommend", str(tmp_path / "a.npz")).stdout
    assert " ".join(said.split()).count("Match the shares estimated from 3 contexts") == 3
    # A subject has its own shares of labels: its contexts alone are pooled.
    tables = read(tmp_path / "a.npz", Reading(by=("subject",)))
    assert len({task_of(table) for table in tables}) == (2 if axis == "models" else 6)
    np.savez(tmp_path / "b.npz", scores=scores, **{axis: names})
    said = program("recommend", str(tmp_path / "b.npz")).stdout
    assert "Match the shares estimated from 3 contexts" not in " ".join(said.split())


def test_ids_that_number_the_rows_tell_nothing_without_right_labels(program, tmp_path):
    write_prompts(tmp_path, lambda seed: range(80), lambda seed, gold: gold)
    flags = (str(tmp_path / "all.csv"), "--by=prompt", "--ids=id", "--labels=a,b")
    said = " ".join(program("recommend", *flags).stdout.split())
    assert "match the shares estimated from these scores" in said
    assert "Match the shares estimated from 3" not in said
    known = " ".join(program("recommend", *flags, "--gold=right").stdout.split())
    assert known.count("Match the shares estimated from 3 contexts") == 3


def test_labeled_rows_that_show_no_gain_are_said():
    said = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        gold = random.integers(0, 2, 40)
        rows = random.normal(size=(40, 2)) - 2.0  # they tell nothing of the labels
        advice = recommend(rows, labeled=rows, labels=gold)
        assert advice.expected.gain.value >= 0
        is_told = any("shows no gain" in sentence for sentence in advice.reason)
        assert advice.method == "icl" if is_told else advice.expected.risk <= 0.5
        said += is_told
    assert said

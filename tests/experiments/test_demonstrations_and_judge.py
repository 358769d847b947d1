"""Ten demonstrations and a judge of pairs: the studies' figures against plain numpy."""

import numpy as np
import pytest

from experiments.evidence import demonstrations, judge, sets


@pytest.fixture(scope="module")
def archive(shared):
    return sets.arrays(shared / "scores", "demonstrations")


@pytest.fixture(scope="module")
def judged(shared):
    """ICL and BC, by subject and prompt."""
    (score_set,) = sets.read_sets(shared / "scores", ["demonstrations"])
    return demonstrations.judge(score_set, ("icl", "bc"), 0)


@pytest.fixture(scope="module")
def judgments(shared):
    return judge.read_judgments(shared / "scores")


def accuracies(archive, is_corrected):
    """[subjects, prompts] in float64, from the archive itself."""
    by_subject = []
    for key in (name for name in archive if name.endswith("_scores")):
        scores = archive[key].astype(np.float64)
        gold = archive[key.replace("_scores", "_gold")]
        bias = scores.mean(axis=1, keepdims=True) if is_corrected else 0.0
        by_subject.append(100 * ((scores - bias).argmax(axis=-1) == gold).mean(axis=1))
    return np.array(by_subject)


def test_every_prompt_of_every_subject_is_a_context(shared, archive):
    (score_set,) = sets.read_sets(shared / "scores", ["demonstrations"])
    assert score_set.shape == (1, 160) and "2,886 questions" in score_set.about
    # The eleventh context is the second subject's first prompt.
    table = score_set.tables[10]
    subject = str(table.context["task"]).removesuffix(", prompt 0")
    scores = archive[f"{subject}_scores"][0].astype(np.float32)
    np.testing.assert_array_equal(table.blocks["test"].log_probs, scores)
    np.testing.assert_array_equal(table.blocks["test"].labels, archive[f"{subject}_gold"])


def test_accuracy_and_deviation_over_demonstrations(judged, archive):
    """The figures that were read off the archive before this study was: 40.1, 41.1, 2.22, 1.71."""
    for name, is_corrected, mean, deviation in (("icl", 0, 40.1, 2.22), ("bc", 1, 41.1, 1.71)):
        # A tie or a rounded sum may move a row of a context.
        np.testing.assert_allclose(judged[name].accuracy, accuracies(archive, is_corrected), atol=1)
        assert judged[name].accuracy.mean() == pytest.approx(mean, abs=0.05)
        assert judged[name].deviation.mean() == pytest.approx(deviation, abs=0.01)
    assert (judged["bc"].won, judged["bc"].lost) == (90, 59)


def test_a_change_is_of_subjects_and_a_star_needs_interval_and_test(judged):
    """One subject's ten prompts are one number; its p-value is exact."""
    gains, spreads = demonstrations.changes(judged, demonstrations.Options(draws=500))
    by_subject = (judged["bc"].accuracy - judged["icl"].accuracy).mean(axis=1)
    signs = 2 * ((np.arange(2**16)[:, None] >> np.arange(16)) & 1) - 1
    as_far = np.abs(signs @ by_subject) >= abs(by_subject.sum()) * (1 - 1e-9)
    assert gains["bc"].value == pytest.approx(by_subject.mean())
    assert gains["bc"].p == pytest.approx(as_far.mean())
    assert gains["bc"].low < 0 < gains["bc"].high and gains["bc"].sign == 0
    assert spreads["bc"].value == pytest.approx(-0.50, abs=0.01)
    change = demonstrations.Change
    assert change(1.0, 0.5, 1.5, 0.01).sign == 1 == -change(-1.0, -1.5, -0.5, 0.01).sign
    assert change(1.0, 0.5, 1.5, 0.2).sign == 0 == change(1.0, -0.1, 2.0, 0.01).sign


def test_the_judge_prefers_the_second_answer(shared, judgments):
    """Of 60 candidates 59, by two nats; 8.3 % of wins shown first, 16.8 % shown second."""
    biases = np.nanmean(judgments.margins, axis=1)
    assert judgments.margins.shape == (60, 805) and np.isnan(judgments.margins).sum() == 10
    assert (biases < 0).sum() == 59 and 2.0 < -biases.mean() < 2.3
    plain = judge.win_rates(judgments.margins, judgments.is_first)
    np.testing.assert_allclose(plain.mean(axis=0), [8.3, 16.8], atol=0.05)
    archive = sets.arrays(shared / "scores", "judge")
    first = archive["p_candidate"][:, archive["candidate_first"]]
    np.testing.assert_allclose(plain[:, 0], 100 * np.nanmean(first, axis=1), atol=1e-3)


def test_bc_from_one_order_evens_the_places(judgments):
    corrected = judge.correct(judgments.margins, "bc")
    oracle = judgments.margins - np.nanmean(judgments.margins, axis=1, keepdims=True)
    np.testing.assert_allclose(corrected, oracle, atol=1e-4)
    rates = judge.win_rates(corrected, judgments.is_first).mean(axis=0)
    np.testing.assert_allclose(rates, [11.2, 12.6], atol=0.05)
    # A bias of other instructions does as well.
    held_out = judge.correct_from_other_half(judgments.margins, 0)
    rates = judge.win_rates(held_out, judgments.is_first).mean(axis=0)
    np.testing.assert_allclose(rates, [11.2, 12.6], atol=0.2)


def test_a_half_s_bias_is_of_the_other_half():
    """Moving one row moves the rows of the other half, and in its own half itself alone."""
    margins = np.random.default_rng(0).normal(size=(2, 20))
    before = judge.correct_from_other_half(margins, 0)
    margins[0, 3] += 10.0
    moved = judge.correct_from_other_half(margins, 0) - before
    assert moved[0, 3] == pytest.approx(10.0) and not moved[1].any()
    assert sorted(np.round(np.delete(moved[0], 3), 9)) == [-1.0] * 10 + [0.0] * 9


def test_no_archive_is_a_sentence(tmp_path, refuses):
    assert refuses(judge.read_judgments, tmp_path).where == f"--scores={tmp_path}"

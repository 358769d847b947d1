"""Sources that judge recommendations: uneven shares, demonstrations, stored scores."""

from pathlib import Path

import numpy as np
import pytest

from batch_calibration import calibrate
from batch_calibration.diagnosis import experience
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Store
from experiments.evidence import recommend, sources, trials
from experiments.evidence.sets import ScoreSet, read_sets

ROOT = Path(__file__).resolve().parents[1]


def table_of(model: str, rows: int = 900) -> ScoreTable:
    gold = (np.arange(rows) % 3).astype(np.int32)
    scores = 1000 * len(model) + np.arange(rows)[:, None] + np.zeros(3)
    return ScoreTable(
        {"task": "all", "model": model}, ("a", "b", "c"), {"test": make_block(scores, gold)}
    )


def test_uneven_draws_have_the_drawn_shares_no_row_twice_and_one_for_all_models():
    tables = [table_of("x"), table_of("yy")]
    uneven = sources.draw_uneven(ScoreSet("s", "S, one batch", "two", tables, 2), seed=0)
    assert uneven.shape == (2, sources.UNEVEN_DRAWS) and uneven.name == "s_uneven"
    assert uneven.title == "S, uneven shares"
    for number in range(sources.UNEVEN_DRAWS):
        tests = [uneven.tables[i * sources.UNEVEN_DRAWS + number].blocks["test"] for i in range(2)]
        first, second = (test.log_probs[:, 0] for test in tests)
        np.testing.assert_array_equal(second - first, 1000.0)
        assert len(np.unique(first)) == len(first) <= sources.UNEVEN_ROWS
        shares = np.random.default_rng([0, number]).dirichlet(np.ones(3))
        counted = np.bincount(tests[0].labels, minlength=3) / len(first)
        np.testing.assert_allclose(counted, shares, atol=0.01)


def test_a_workdir_is_a_source_and_what_is_missing_is_a_sentence(tmp_path, refuses):
    store = Store(tmp_path, create=True)
    refuses(sources.read_workdir, tmp_path)
    store.put(table_of("m", rows=9))
    stored = sources.read_workdir(tmp_path)
    assert (stored.name, stored.shape) == ("m", (1, 1))


def test_the_rule_of_before_is_bc_with_a_prior_for_doubtful_labels():
    random = np.random.default_rng(0)
    gold = random.integers(0, 3, 400)
    rows = random.normal(-4, 1, (400, 3)) + 3 * np.eye(3)[gold] + [0.0, 2.0, 0.0]
    bias = trials.old_rule(rows)
    np.testing.assert_allclose(bias - bias.mean(), rows.mean(axis=0) - rows.mean())
    np.testing.assert_array_equal(trials.old_rule(rows[:49]), np.zeros(3))
    # The third label is never right: it gets less than BC would give it.
    gold = random.integers(0, 2, 400)
    rows = random.normal(-4, 1, (400, 3)) + 3 * np.eye(3)[gold] + [0.0, 0.6, -1.0]
    guesses = (rows - trials.old_rule(rows)).argmax(axis=1)
    assert (guesses == 2).sum() < ((rows - rows.mean(axis=0)).argmax(axis=1) == 2).sum() / 2


def test_an_outcome_is_points_and_harm_beyond_noise():
    before, after = np.arange(100) < 50, np.arange(100) < 42
    assert trials.outcome(before, after) == (-8.0, True)
    assert trials.outcome(after, before) == (8.0, False)
    assert trials.outcome(before, np.arange(100) < 47) == (-3.0, False)


def test_constants_are_chosen_on_other_rows():
    def trial(gains):
        grid = [trials.Outcome(gain, False) for gain in gains]
        return trials.Trial(50.0, {}, grid, {})

    score_sources = [sources.Source(ScoreSet(n, n, n, [], 1), rows) for n, rows in
            (("a", "x"), ("b", "x"), ("c", "y"))]  # fmt: skip
    by_source = [[trial([9.0, 0.0])], [trial([9.0, 0.0])], [trial([0.0, 1.0])]]
    assert recommend.choose_elsewhere(score_sources, by_source, "x") == 1
    assert recommend.choose_elsewhere(score_sources, by_source, "y") == 0


def test_a_trial_s_rule_is_the_method_s_own(shared: Path):
    """The shift that trials compute over padded rows is what the method of the table learns."""
    (score_set,) = read_sets(shared / "scores", ["oodcv"])
    for table in score_set.tables[:2]:
        rows, gold = table.blocks["test"].log_probs, table.blocks["test"].labels
        trial = trials.try_rules(table)
        corrected = calibrate(rows, "bc_empirical_bayes", from_probs=False)
        right = 100 * (corrected.argmax(axis=1) == gold).mean()
        assert trial.accuracy + trial.outcomes["bc_empirical_bayes"].gain == pytest.approx(right)
        assert trial.grid[trials.DEFAULT] == trial.outcomes["bc_empirical_bayes"]


def test_what_to_expect_is_what_the_page_says():
    text = (ROOT / "docs/evidence/evidence_experience.csv").read_text()
    for method, ranges in experience.RANGES.items():
        for score_range in ranges:
            line = (
                f"{method},{score_range.most:g},{score_range.contexts},{score_range.gain:+.1f},"
                f"{score_range.low:+.1f},{score_range.high:+.1f},{100 * score_range.fell:.0f} %"
            )
            assert line.replace("+0.0", "-0.0") in text or line in text


def test_the_law_s_strength_is_1_for_a_bias_and_0_for_uneven_shares():
    random = np.random.default_rng(0)
    gold = random.permutation(np.arange(64) % 2)
    rows = random.normal(-4, 0.5, (64, 2)) + np.eye(2)[gold]
    assert trials.law_strength(rows + np.array([3.0, 0.0]), gold, 1000) == 1.0
    # Without a bias the mean score of nine to one is all shares.
    gold = (np.arange(64) % 10 == 0).astype(int)
    rows = random.normal(-4, 0.5, (64, 2)) + 2 * np.eye(2)[gold]
    assert trials.law_strength(rows, gold, 1000) <= 0.1
    # Too few rows for the law's numbers: the scores are left as they are.
    assert trials.law_strength(rows[:6], gold[:6], 1000) == 0.0

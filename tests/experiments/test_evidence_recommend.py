"""Sources that judge recommendations: uneven shares, demonstrations, stored scores."""

from pathlib import Path

import numpy as np
import pytest

from batch_calibration.diagnosis import advice
from batch_calibration.methods import run_methods
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Store
from experiments.evidence import recommend, sources, trials
from experiments.evidence.sets import ScoreSet, read_sets

ROOT = Path(__file__).resolve().parents[2]


def table_of(model: str, rows: int = 900) -> ScoreTable:
    gold = (np.arange(rows) % 3).astype(np.int32)
    scores = 1000 * len(model) + np.arange(rows)[:, None] + np.zeros(3)
    context, blocks = {"task": "all", "model": model}, {"test": make_block(scores, gold)}
    return ScoreTable(context, ("a", "b", "c"), blocks)


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
    assert refuses(sources.read_workdir, tmp_path).where == f"workdir {tmp_path}"
    store.put(table_of("m", rows=9))
    stored = sources.read_workdir(tmp_path)
    assert (stored.name, stored.shape) == ("m", (1, 1))


def test_outcomes_are_points_and_harm_beyond_noise_of_present_rows_and_contexts():
    gold = np.zeros(100, np.int32)
    scores = np.zeros((3, 100, 2), np.float32)
    # Right are half of the rows; after the shift 42, 58 or 47 are.
    margins = np.where(np.arange(100) < 50, 2.0, -2.0)
    scores[..., 0] = margins
    scores[0, :8, 0], scores[1, 50:58, 0], scores[2, :3, 0] = 0.5, -0.5, 0.5
    blocks = [{"test": make_block(rows, gold)} for rows in scores]
    task = trials.stack([ScoreTable({"task": "one"}, ("a", "b"), own) for own in blocks])
    assert task.rows.shape == (8, 256, 2) and task.weight.sum() == 300
    shift = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]] + 5 * [[9.0, 0.0]])
    gain, harmed, promised = task.judge(shift)
    np.testing.assert_allclose(gain, [-8.0, 8.0, -3.0])
    assert harmed.tolist() == [True, False, False] and not promised.any()
    is_judged = np.arange(256)[None] >= 50  # none of the rows that the first context loses
    assert task.judge(shift, is_judged).gain.tolist() == [0.0, 16.0, 0.0]
    assert (task.judge(shift, promises=True).promised > 0).all()


def outcomes(*gains: float) -> trials.Outcomes:
    return trials.Outcomes(np.array(gains), np.zeros(len(gains)), np.full(len(gains), 0.1))


def test_constants_are_those_of_the_largest_mean_over_sources(monkeypatch):
    settings = (0.01, 0.5), (0.02, 0.0)
    monkeypatch.setattr(recommend, "SETTINGS", settings)
    low, high = (trials.pooled(*setting) for setting in settings)
    first = {low: outcomes(3.0, 3.0), high: outcomes(0.0, 0.0)}
    second = {low: outcomes(0.0), high: outcomes(2.0)}
    assert recommend.choose_setting([first, second]) == settings[0]
    rules = trials.MOVED_SCORED, "bcl_empirical_bayes"
    for best in rules:
        tried = {trials.labeled(r, m): outcomes(r == best) for r in rules for m in trials.LABELS}
        assert recommend.choose_rule([tried]) == best


def judged(kind: str, rows: str, **gains: float) -> recommend.Judged:
    source = sources.Source(ScoreSet(rows, rows, rows, [], 1), rows, kind)
    return recommend.Judged(source, 50.0, {rule: outcomes(gain) for rule, gain in gains.items()})


def test_contexts_are_grouped_by_their_distance_from_equal_shares():
    one, tables = judged(sources.BALANCED, "x"), []
    for first in (50, 55, 41):
        block = make_block(np.zeros((100, 2)), (np.arange(100) >= first).astype(np.int32))
        tables.append(ScoreTable({"task": f"{first}"}, ("a", "b"), {"test": block}))
    tried = dict.fromkeys(recommend.NEAR_RULES, outcomes(1.0, 2.0, 3.0))
    source = one.source._replace(set=one.source.set._replace(tables=tables))
    _, *lines = recommend.distance_cells([one._replace(source=source, tried=tried)])
    assert [line[3] for line in lines] == ["+1.0", "+2.0", "+3.0"]


def test_a_gain_is_stated_by_sources_of_other_rows():
    alone = [judged(sources.BALANCED, "x", bc_empirical_bayes=1.0)]
    alone += [judged(sources.MADE, "y", bc_empirical_bayes=5.0)]
    _, *lines = recommend.stated_cells(alone)
    by_title = {line[0]: line[1:] for line in lines}
    assert by_title[sources.BALANCED] == ["1", "+5.0", "+1.0", "0 %"]
    assert by_title[sources.MADE] == ["1", "+1.0", "+5.0", "0 %"]
    assert by_title[recommend.ALL] == by_title["promised up to 0.3"] == ["2", "+3.0", "+3.0", "0 %"]


def test_rules_are_the_methods_own(shared: Path):
    """The shifts that trials compute over padded contexts are what the methods learn."""
    (score_set,) = read_sets(shared / "scores", ["demonstrations"])
    tables = score_set.tables[:10]
    tables = [table._replace(context={**table.context, "rows": "same"}) for table in tables]
    tried = trials.try_source(tables)
    balanced = {"share_error": 0.0}
    variants = {
        "bc": ("bc", {}), "bc_empirical_bayes": ("bc_empirical_bayes", {}),
        trials.pooled(0.02, 0.5): ("bc_pooled_shares", {}),
        trials.EQUAL: ("prior_matching", {}), trials.ONE: ("prior_matching", balanced),
        trials.TOGETHER: ("bc_pooled_shares", balanced),
    }  # fmt: skip
    for rule, (method, options) in variants.items():
        corrections = run_methods(tables, [method], options={method: options}, groups=["one"] * 10)
        for place, (table, corrected) in enumerate(zip(tables, corrections.results, strict=True)):
            rows, gold = table.blocks["test"].log_probs, table.blocks["test"].labels
            hits = [of.argmax(axis=1) == gold for of in (rows, corrected[method].scores)]
            gain = 100 * (hits[1].mean() - hits[0].mean())
            assert tried[rule].gain[place] == pytest.approx(gain, abs=100.1 / len(gold))
    for rule in (trials.COUNTED, trials.MOVED_COUNTED, trials.MOVED_SCORED):
        few, many = (tried[trials.labeled(rule, trials.LABELS[k])] for k in (0, -1))
        assert many.gain.mean() > few.gain.mean()
    assert tried[trials.SHARES].gain.mean() > tried["bc"].gain.mean()


def test_what_to_expect_is_what_the_page_says():
    text = (ROOT / "docs/evidence/evidence_experience.csv").read_text()
    for shares, ranges in advice.RANGES.items():
        for score_range in ranges:
            gains = [score_range.gain, score_range.low, score_range.high]
            cells = [shares, f"{score_range.most:g}", str(score_range.contexts)]
            cells += [*(f"{gain:+.1f}" for gain in gains), f"{100 * score_range.fell:.0f} %"]
            line = ",".join(cells)
            assert line.replace("+0.0", "-0.0") in text or line in text

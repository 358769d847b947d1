"""Shares pooled over contexts: an oracle in float64, laws, and what the runner makes of groups."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize, root
from scipy.special import softmax

from batch_calibration.calibration.empirical_bayes import confidence, empirical_bayes, information
from batch_calibration.calibration.matching import newton_step
from batch_calibration.calibration.pooled_shares import (
    agreement,
    joint_shares,
    pool_shares,
)
from batch_calibration.methods import run_methods
from batch_calibration.methods.run import jit_quickly
from batch_calibration.scores import ScoreTable, make_block
from experiments.evidence.sets import read_sets, task_of

pool = jit_quickly(pool_shares)
joint = jit_quickly(joint_shares)
SHARES = np.array([0.5, 0.3, 0.2])


def draw(contexts: int, rows: int, shares: np.ndarray, seed: int = 0, clear: float = 1.5):
    """Scores [c n k] of the same rows with a bias of each context, and the rows' labels."""
    generator = np.random.default_rng(seed)
    k = len(shares)
    gold = generator.choice(k, rows, p=shares)
    # log p(x | label) up to a constant, where x is Gaussian around a mean of the label
    told = clear * (clear * np.eye(k)[gold] + generator.normal(size=(contexts, rows, k)))
    return (told + generator.normal(scale=0.7, size=(contexts, 1, k))).astype(np.float32), gold


def everywhere(scores: np.ndarray) -> np.ndarray:
    return np.ones(scores.shape[:2], np.float32)


def matched_bias(rows: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The bias that a context has if its shares are these, by scipy's root."""

    def miss(shift: np.ndarray) -> np.ndarray:
        return softmax(rows - shift, axis=1).mean(axis=0) - shares + shift.mean()

    found = root(miss, rows.mean(axis=0) - rows.mean() - np.log(shares), tol=1e-12)
    bias = found.x + np.log(shares)
    return bias - bias.mean()


def objective(place, rows, context_weight, expected, w) -> float:
    shares, k = softmax(place), len(place)
    sizes = [np.sum(matched_bias(context, shares) ** 2) / (2 * k) for context in rows]
    near = w * k * k / 2 * np.sum((shares - expected) ** 2)
    return k * context_weight @ np.log1p(sizes) + near


@pytest.mark.parametrize("w", [1.0, 7.0])
def test_joint_shares_are_where_the_objective_is_least(w):
    rows, _ = draw(4, 60, SHARES)
    weight, expected = np.array([0.3, 0.9, 0.5, 0.3], np.float32), np.array([0.5, 0.3, 0.2])
    shares = joint(rows, everywhere(rows), weight, expected.astype(np.float32), w)
    arguments = (rows.astype(float), weight, expected, w)
    found = minimize(objective, np.log(expected), arguments, "Nelder-Mead", tol=1e-9)
    assert objective(np.log(shares), *arguments) <= found.fun + 1e-4
    np.testing.assert_allclose(shares, softmax(found.x), atol=2e-3)


def test_agreement_is_the_mean_over_pairs_of_contexts():
    rows, _ = draw(5, 40, SHARES)
    weight, used = np.ones(40, np.float32), np.array([1, 1, 0, 1, 1], np.float32)
    weight[30:] = 0.0
    answers = rows.argmax(axis=-1)[:, :30]
    present = [0, 1, 3, 4]
    pairs = [(answers[a] == answers[b]).mean() for a in present for b in present if a < b]
    agreed, by_chance, others = jax.jit(agreement)(rows, weight, used)
    assert float(agreed) == pytest.approx(np.mean(pairs), abs=1e-6)
    shares = [np.bincount(answers[context], minlength=3) / 30 for context in range(5)]
    expected = np.mean([shares[a] @ shares[b] for a in present for b in present if a < b])
    assert float(by_chance) == pytest.approx(expected, abs=1e-6)
    most = np.mean([max(shares[context]) for context in present])
    assert float(others) == pytest.approx(1 - most, abs=1e-6)


def test_a_bias_that_all_contexts_have_is_not_taken_for_shares():
    """Contexts that give all rows one label always agree."""
    generator = np.random.default_rng(0)
    gold = generator.choice(2, 300)
    told = 1.4 * gold + 0.7 * generator.normal(size=300)
    own = 0.3 * generator.normal(size=(64, 300)) + 0.7 * generator.normal(size=(64, 1))
    rows = np.stack([np.zeros((64, 300)), told + own + 0.3], axis=-1).astype(np.float32)
    before = (rows.argmax(axis=-1) == gold).mean()
    right = {}
    for chance in (0.0, 0.5):
        pooled = pool(rows, everywhere(rows), np.array(True), chance=chance)
        right[chance] = ((rows - pooled.shifts[:, None]).argmax(axis=-1) == gold).mean()
    assert right[0.0] < before < right[0.5] - 0.1


def test_planted_shares_are_found_the_better_the_more_contexts():
    misses = []
    for contexts in (3, 12, 48):
        rows, gold = draw(contexts, 400, SHARES, seed=3)
        pooled = pool(rows, everywhere(rows), np.array(False))
        misses.append(np.abs(pooled.shares - np.bincount(gold) / 400).max())
        corrected = (rows - pooled.shifts[:, None]).argmax(axis=-1)
        assert (corrected == gold).mean() > (rows.argmax(axis=-1) == gold).mean()
    assert misses[2] < misses[0] and misses[2] < 0.06


@pytest.mark.parametrize("same", [True, False])
def test_order_of_contexts_rows_and_labels_is_nothing(same):
    rows, _ = draw(5, 64, SHARES, seed=5)
    usual = pool(rows, everywhere(rows), np.array(same))
    for turned, back in [
        (rows[::-1], lambda shifts: shifts[::-1]),
        (rows[:, ::-1], lambda shifts: shifts),
        (rows[:, :, ::-1], lambda shifts: shifts[:, ::-1]),
    ]:
        other = pool(turned, everywhere(rows), np.array(same))
        np.testing.assert_allclose(back(other.shifts), usual.shifts, atol=2e-3)
    # What all labels of a row share is nothing either.
    moved = pool(rows + 7.0, everywhere(rows), np.array(same))
    np.testing.assert_allclose(moved.shifts, usual.shifts, atol=2e-3)


def test_absent_rows_and_contexts_are_nothing():
    rows, _ = draw(4, 50, SHARES, seed=2)
    usual = pool(rows, everywhere(rows), np.array(True))
    padded = np.full((6, 64, 3), np.nan, np.float32)
    padded[:4, :50] = rows
    weight = np.zeros((6, 64), np.float32)
    weight[:4, :50] = 1.0
    other = pool(padded, weight, np.array(True))
    np.testing.assert_allclose(other.shifts[:4], usual.shifts, atol=1e-3)
    assert not other.used[4:].any() and not other.shifts[4:].any()


@pytest.mark.parametrize("contexts", [1, 2])
def test_one_context_or_two_are_each_alone(contexts):
    rows, gold = draw(contexts, 50, SHARES)
    scores = corrected(tables_of(rows, gold), ["one"] * contexts)
    for row, alone in zip(rows, scores, strict=True):
        np.testing.assert_allclose(row - alone, [empirical_bayes().fit(row).bias] * 50, atol=1e-4)
    assert not pool(rows, everywhere(rows), np.array(True)).used.any()


def test_contexts_that_tell_too_little_stay():
    rows, _ = draw(4, 50, SHARES)
    rows[1] = rows[1] * 0.01
    pooled = pool(rows, everywhere(rows), np.array(True))
    assert pooled.used.tolist() == [1, 0, 1, 1] and not pooled.shifts[1].any()
    assert float(information(jnp.asarray(rows[1]))) < 0.05


@pytest.mark.parametrize("k", [2, 5, 20, 60])
def test_any_number_of_labels(k):
    rows, _ = draw(3, 120, np.random.default_rng(k).dirichlet(np.ones(k)), seed=k)
    pooled = pool(rows, everywhere(rows), np.array(False))
    assert np.isfinite(pooled.shifts).all() and float(pooled.shares.sum()) == pytest.approx(1.0)
    # Each context that is used is matched to the shares.
    mean = softmax(rows - pooled.shifts[:, None], axis=-1).mean(axis=1)
    expected = np.stack([pooled.shares] * int(pooled.used.sum()))
    np.testing.assert_allclose(mean[pooled.used > 0], expected, atol=1e-4)


def test_it_runs_under_vmap():
    rows = np.stack([draw(3, 40, SHARES, seed=seed)[0] for seed in (0, 1)])
    weight = np.ones(rows.shape[:3], np.float32)
    both = jax.vmap(pool, in_axes=(0, 0, None))(rows, weight, np.array(True))
    for place in (0, 1):
        alone = pool(rows[place], weight[place], np.array(True))
        np.testing.assert_allclose(both.shifts[place], alone.shifts, atol=2e-3)


def test_expected_shares_go_with_confidence_squared():
    rows, _ = draw(3, 80, SHARES)
    none = np.zeros(3, np.float32)  # of no weight: the expected shares alone are left
    expected = confidence(jnp.asarray(rows[0])) ** 2
    found = joint(rows, everywhere(rows), none, expected / expected.sum(), jnp.ones(()))
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-3)


def tables_of(rows: np.ndarray, gold: np.ndarray, digest: str | None = "d") -> list[ScoreTable]:
    context = {} if digest is None else {"rows": digest}
    tests = [{"test": make_block(scores, gold)} for scores in rows]
    return [ScoreTable({**context, "seed": i}, ("a", "b", "c"), x) for i, x in enumerate(tests)]


def corrected(tables: list[ScoreTable], groups: list[str] | None, **options) -> list[np.ndarray]:
    found = run_methods(tables, ["bc_pooled_shares"], groups=groups, **options)
    return [methods["bc_pooled_shares"].scores for methods in found.results]


@pytest.mark.parametrize(("digest", "same"), [("d", True), (None, False)])
def test_the_runner_pools_each_group(digest, same):
    rows, gold = draw(5, 50, SHARES, seed=5)
    tables = tables_of(rows, gold, digest)
    together = corrected(tables, ["one"] * 4 + ["other"])
    pooled = pool(rows[:4], everywhere(rows[:4]), np.array(same))
    for place in range(4):
        np.testing.assert_allclose(together[place], rows[place] - pooled.shifts[place], atol=2e-3)
    alone = corrected(tables, None)
    np.testing.assert_array_equal(together[4], alone[4])
    assert np.abs(together[0] - alone[0]).max() > 0.01


def test_a_group_s_numbers_do_not_depend_on_other_groups():
    rows, gold = draw(6, 50, SHARES)
    tables = tables_of(rows, gold)
    usual = corrected(tables[:3], ["one"] * 3)
    beside = corrected(tables, ["one"] * 3 + ["other"] * 3)
    for first, second in zip(usual, beside, strict=False):
        np.testing.assert_array_equal(first, second)


def test_the_floor_and_options_reach_a_group():
    rows, gold = draw(3, 50, SHARES)
    rows[0, 0, 0] = -np.inf
    scores = corrected(tables_of(rows, gold), ["one"] * 3, floor=-9.0)
    assert all(np.isfinite(context).all() for context in scores)
    options = {"bc_pooled_shares": {"least_information": 99.0}}
    kept = corrected(tables_of(rows, gold), ["one"] * 3, floor=-9.0, options=options)
    np.testing.assert_array_equal(kept[1], rows[1])


def test_a_group_of_other_labels_is_a_sentence(refuses):
    rows, gold = draw(2, 10, SHARES)
    first, second = tables_of(rows, gold)
    turned = ScoreTable(second.context, ("b", "a", "c"), second.blocks)
    assert refuses(run_methods, [first, turned], groups=["one", "one"]).got == "b, a, c"


def test_rounding_of_pairs_of_predictions_is_no_obstacle():
    generator = np.random.default_rng(0)
    pairs = generator.uniform(0.01, 0.25, 500)
    rounded = pairs[:, None, None] * (1 + 2e-6 * generator.normal(size=(500, 2, 2)))
    steps = jax.vmap(newton_step, (0, None))(np.float32(rounded), jnp.array([0.01, -0.01]))
    np.testing.assert_allclose(steps[:, 0] - steps[:, 1], 0.01 / pairs, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "gate", "gain"),
    [
        ("mmlu", 0.05, 2.90),
        ("mmlu_batch", 0.05, 2.67),
        ("oodcv", 0.05, 3.57),
        ("mmbench", 0.05, 0.44),
        # The method's own, as measured here; the prototype subtracted no agreement by chance.
        ("demonstrations", 0.05, 0.21),
        ("mmlu", 0.02, 3.23),
        ("mmlu_neverA", 0.02, 14.29),
        ("demonstrations", 0.02, 1.33),
        ("smollm_prompts_balanced", 0.02, 14.61),
    ],
)
def test_gains_on_real_scores_are_those_of_the_prototype(name, gate, gain, shared):
    """Mean gains in points over contexts of ../shared/design/METHODS.md, in float64 by scipy."""
    (score_set,) = read_sets(shared / "scores", [name])
    tables = [table._replace(context={**table.context, "rows": name}) for table in score_set.tables]
    groups, gains = [task_of(table) for table in tables], []
    options = {"bc_pooled_shares": {"least_information": gate}}
    for table, scores in zip(tables, corrected(tables, groups, options=options), strict=True):
        test = table.blocks["test"]
        before, after = (rows.argmax(axis=-1) == test.labels for rows in (test.log_probs, scores))
        gains.append(after.mean() - before.mean())
    assert 100 * np.mean(gains) == pytest.approx(gain, abs=0.2)


def test_agreement_keeps_a_small_model_from_one_label(shared):
    """docs/evidence.md, Where the advice fails: 65 prompts of SST-2, with and without agreement."""
    (score_set,) = read_sets(shared / "scores", ["smollm_prompts_balanced"])
    tests = [table.blocks["test"] for table in score_set.tables if task_of(table) == "sst2"]
    rows, gold = np.stack([test.log_probs for test in tests]), tests[0].labels
    right = []
    for same in (False, True):
        shifts = pool(rows, everywhere(rows), np.array(same)).shifts
        right.append(100 * ((rows - shifts[:, None]).argmax(axis=-1) == gold).mean())
    assert right == pytest.approx([57.6, 83.9], abs=0.1)

"""The laws that teach the paper, each by its name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from batch_calibration import calibrate, metrics
from batch_calibration.calibration import running
from batch_calibration.calibration.learned_shift import STRENGTHS, best_strength
from batch_calibration.calibration.objective import accuracy
from batch_calibration.calibration.shift import apply, shrinkage
from batch_calibration.methods import METHODS, compare

ROWS, LABELS = 16, 3
nats = st.floats(-12.0, 0.0, width=32)
tables = arrays(np.float32, (ROWS, LABELS), elements=nats).map(jnp.asarray)
row_constants = arrays(np.float32, (ROWS, 1), elements=nats).map(jnp.asarray)
label_constants = arrays(np.float32, (LABELS,), elements=nats).map(jnp.asarray)


def learner(name, **options):
    calibrator = METHODS[name].make(**options)
    return jax.jit(lambda probe, rows: calibrator.apply(calibrator.fit(probe), rows))


ICL, CC, BC, DC = (learner(name) for name in ("icl", "cc", "bc", "dc"))
MEAN_PROB = learner("bc_mean_prob")
LOO, SHRUNK = learner("bc_loo"), learner("bc_shrunk")
NO_STRENGTH, FULL_STRENGTH = learner("bc", strength=0.0), learner("bc", strength=1.0)


def same_decisions(first, second):
    """Each label is as far behind the best one: equal predictions, ties and all, up to rounding."""
    behind = [scores - jnp.max(scores, axis=-1, keepdims=True) for scores in (first, second)]
    np.testing.assert_allclose(*behind, atol=2e-5)


@given(tables, row_constants)
def test_bc_predicts_the_same_under_per_row_constants(rows, constants):
    same_decisions(BC(rows + constants, rows + constants), BC(rows, rows))


@pytest.mark.parametrize("name", METHODS)
def test_methods_that_need_log_probs_are_those_that_row_constants_change(name, planted):
    """Bare logits and cosines miss one constant per row: of which methods that is the ruin."""
    rows, gold, _ = planted(42, 3)
    method = METHODS[name]
    calibrator = method.make(**({"starts": 4} if method.needs_key else {}))
    moved = rows + jnp.asarray(np.random.default_rng(0).normal(0.0, 5.0, (42, 1)), jnp.float32)
    key = jax.random.key(0) if method.needs_key else None
    labels = jnp.where(jnp.arange(42) < 20, -1, gold)

    @jax.jit
    def differences(probe):
        scores = calibrator.apply(calibrator.fit(probe, labels, key=key), rows)
        return scores - scores[:, :1]

    change = float(jnp.max(jnp.abs(differences(moved) - differences(rows))))
    assert (change > 0.05) == method.needs_log_probs


@given(tables, label_constants)
def test_bc_predicts_the_same_under_per_label_constants(rows, constants):
    same_decisions(BC(rows + constants, rows + constants), BC(rows, rows))


WIDE = 1e6  # arrays.LARGEST
wide = arrays(np.float32, (9, 3), elements=st.floats(-WIDE, WIDE, width=32)).map(jnp.asarray)
BLOCKS = {"test", *(block for method in METHODS.values() for block in method.probe.blocks)}


@jax.jit
def together(rows):
    """Every method, of which each block has these rows."""
    block = rows[None], jnp.arange(9, dtype=jnp.int32)[None] % 3
    return compare(dict.fromkeys(BLOCKS, block), methods=tuple(METHODS), key=jax.random.key(0))


@pytest.mark.slow
@given(wide)
def test_no_finite_score_within_bounds_becomes_nan(rows):
    for name, (_, scores) in together(rows).items():
        assert bool(jnp.all(jnp.isfinite(scores))), name
    for name, value in metrics.summary(rows, jnp.arange(9) % 3).items():
        assert np.isfinite(value), name
    assert bool(jnp.all(jnp.isfinite(running.update(running.empty(3), rows).mean)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matrix", "vector"])
def test_scores_whose_squares_overflow_are_scaled_to_finite_ones(name):
    generator, (fit, apply) = np.random.default_rng(0), METHODS[name].make()
    signs = generator.choice([0.0, 1.0, -1.0, 0.5], (3000, 9, 3), p=[0.6, 0.2, 0.1, 0.1])
    rows = signs * 10 ** generator.uniform(3.0, 6.0, (3000, 1, 1))

    def scale(rows):
        return apply(fit(rows, jnp.arange(9, dtype=jnp.int32) % 3), rows)

    assert bool(jnp.all(jnp.isfinite(jax.jit(jax.vmap(scale))(jnp.asarray(rows, jnp.float32)))))


# PriDe reads whole questions, and its prior of normalized rows is rounded.
LEARNING = [n for n, m in METHODS.items() if m.probe.blocks and not m.needs_key and not m.in_order]


TAKING_NOTHING_FROM_ONE = ("bc_loo",)
# bc_shrunk adds a row of no bias, so that it never takes the whole mean off; sld_em takes what rows
# prefer for frequent, so that equal rows are all of one label; bc_empirical_bayes,
# bc_pooled_shares and ensemble of a context alone leave rows that tell nothing as they are.
PARTIAL = ("bc_shrunk", "sld_em", "bc_empirical_bayes", "bc_pooled_shares", "ensemble")
WHOLE = [n for n in LEARNING if not METHODS[n].probe.labels and n not in PARTIAL]


@pytest.mark.slow_except("2-*")
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("labels", [2, 3, 5])
def test_equal_rows_leave_nothing_to_tell_apart(name, labels):
    """Every label is as far from the bias: the first is predicted, whatever rounding says."""
    learn, random = learner(name), np.random.default_rng(0)
    for rows in (3, 20) if name in TAKING_NOTHING_FROM_ONE else (1, 3, 20):
        row = random.normal(-5.0, 3.0, (1, labels))
        repeated = jnp.asarray(np.repeat(row, rows, axis=0), jnp.float32)
        assert not jnp.argmax(learn(repeated, repeated), axis=-1).any()


@given(tables)
def test_bc_after_bc_predicts_as_bc(rows):
    once = BC(rows, rows)
    same_decisions(BC(once, once), once)


@given(tables)
def test_bc_by_the_others_predicts_as_bc(rows):
    """m / (m - 1) times BC's scores; with a prior or another strength it is a method of its own."""
    left_out = LOO(rows, rows)
    np.testing.assert_allclose(left_out, ROWS / (ROWS - 1) * BC(rows, rows), atol=2e-5)
    same_decisions(left_out * (ROWS - 1) / ROWS, BC(rows, rows))


@given(arrays(np.float32, (1, LABELS), elements=nats).map(jnp.asarray))
def test_one_row_has_no_others_and_shows_no_bias(row):
    np.testing.assert_array_equal(LOO(row, row), row)
    np.testing.assert_array_equal(SHRUNK(row, row), row)


def test_a_shrunk_bias_goes_from_icl_to_bc(planted):
    rows, _, _ = planted(3000, 3)
    factors = [float(shrinkage(rows[:m])) for m in (1, 4, 40, 3000)]
    assert factors[0] == 0.0 and factors == sorted(factors) and factors[-1] > 0.99
    assert float(shrinkage(rows - rows.mean(axis=0))) == 0.0


def test_a_bias_shrunk_to_what_is_expected_goes_from_there_to_bc(planted):
    rows, _, _ = planted(3000, 3)
    expected = (0.9, -0.6, -0.3)
    fit = METHODS["bc_shrunk"].make(expected_bias=expected).fit
    np.testing.assert_allclose(fit(rows[:1]).bias, expected, atol=1e-6)
    centered = [np.asarray(bias) - np.mean(bias) for bias in (fit(rows).bias, rows.mean(axis=0))]
    np.testing.assert_allclose(*centered, atol=0.01)
    # Expecting nothing is the method as it was; what is expected and found is no less for it.
    zero = METHODS["bc_shrunk"].make(expected_bias=(0.0, 0.0, 0.0)).fit(rows[:9]).bias
    np.testing.assert_array_equal(zero, METHODS["bc_shrunk"].make().fit(rows[:9]).bias)
    mean_bias = tuple((rows.mean(axis=0) - rows.mean()).tolist())
    few = METHODS["bc_shrunk"].make(expected_bias=mean_bias).fit(rows[:9]).bias
    plain = METHODS["bc_shrunk"].make().fit(rows[:9]).bias
    distance = [np.std(np.asarray(bias) - np.asarray(mean_bias)) for bias in (few, plain)]
    assert distance[0] <= distance[1]


@pytest.mark.parametrize("wrong", [(0.1, 0.2), "icl", (np.nan, 0.0, 0.0), 3.0])
def test_an_expected_bias_is_a_number_for_each_label(wrong, refuses):
    scores = np.full((12, 3), -1.0)
    assert refuses(calibrate, scores, "bc_shrunk", expected_bias=wrong).got == repr(wrong)


@given(tables, arrays(np.float32, (3, LABELS), elements=nats).map(jnp.asarray))
def test_bc_after_cc_predicts_as_bc(rows, content_free):
    corrected = CC(content_free, rows)
    same_decisions(BC(corrected, corrected), BC(rows, rows))


@given(tables)
def test_strength_zero_is_icl(rows):
    np.testing.assert_array_equal(NO_STRENGTH(rows, rows), rows)
    np.testing.assert_array_equal(ICL(rows, rows), rows)


@given(tables)
def test_strength_one_is_bc(rows):
    np.testing.assert_array_equal(FULL_STRENGTH(rows, rows), BC(rows, rows))


@given(tables)
def test_cc_whose_probe_is_the_batch_is_bc(rows):
    np.testing.assert_array_equal(CC(rows, rows), BC(rows, rows))
    np.testing.assert_array_equal(DC(rows, rows), BC(rows, rows))


@given(tables, row_constants)
def test_mean_probability_is_taken_of_normalized_rows(rows, constants):
    same_decisions(MEAN_PROB(rows + constants, rows + constants), MEAN_PROB(rows, rows))


def test_cc_original_takes_probabilities_as_they_are():
    calibrator = METHODS["cc_original"].make()
    rows = jnp.log(jnp.asarray([[0.4, 0.1], [0.001, 0.009]], jnp.float32))
    biases = [calibrator.fit(rows + jnp.asarray([[c], [0.0]])).bias for c in (0.0, -6.0)]
    assert float(jnp.max(jnp.abs(biases[0] - biases[1]))) > 0.5


@given(tables, st.integers(1, ROWS))
def test_running_over_any_chunks_is_the_whole(rows, size):
    last = METHODS["bc_running"].make(batch_size=size).fit(rows).means[-1]
    np.testing.assert_allclose(last, np.asarray(rows, np.float64).mean(0), atol=1e-6)


def test_a_planted_bias_is_recovered(planted):
    rows, gold, bias = planted(6000, 3)
    learned = np.asarray(METHODS["bc"].make().fit(rows).bias, np.float64)
    centered = learned - learned.mean()
    np.testing.assert_allclose(centered, bias - bias.mean(), atol=0.05)
    assert float(accuracy(BC(rows, rows), gold)) > float(accuracy(rows, gold))


def test_bcl_of_a_curve_peaked_at_one_is_bc(planted):
    rows, gold, _ = planted(300, 3)
    doubled = jnp.concatenate([rows, rows])
    labels = jnp.concatenate([jnp.full(300, -1, jnp.int32), gold])
    state = METHODS["bcl"].make().fit(doubled, labels)
    np.testing.assert_allclose(state.bias, METHODS["bc"].make().fit(rows).bias, rtol=1e-6)
    assert float(state.curve[60]) == float(accuracy(BC(rows, rows), gold))
    assert float(state.curve[50]) == float(accuracy(rows, gold))
    assert float(accuracy(apply(state, rows), gold)) == float(jnp.max(state.curve))


def test_strength_grid_holds_zero_and_one_exactly():
    assert STRENGTHS.shape == (101,)
    assert {0.0, 1.0, -5.0, 5.0} <= set(STRENGTHS.tolist())


@pytest.mark.parametrize(
    ("tied", "chosen"), [((0.0, 2.0, 5.0), 0.0), ((0.5, 1.1), 1.1), ((0.9, 1.1), 0.9)]
)
def test_ties_of_strength_go_to_the_one_nearest_one(tied, chosen):
    curve = jnp.asarray(np.isin(STRENGTHS, tied), jnp.float32)
    assert float(best_strength(curve)) == pytest.approx(chosen)


def test_bias_from_labeled_reads_the_labeled_rows(planted):
    rows, gold, _ = planted(40, 3)
    labels = jnp.where(jnp.arange(40) < 20, -1, gold)
    state = METHODS["bcl"].make(bias_from="labeled", metric="macro_f1").fit(rows, labels)
    np.testing.assert_allclose(state.bias, jnp.mean(rows[20:], axis=0), rtol=1e-6)


def test_bcl_without_unlabeled_rows_takes_the_bias_from_the_labeled(planted):
    rows, gold, _ = planted(40, 3)
    absent = jnp.append(gold, -1), jnp.append(jnp.ones(40), 0.0)
    fit = METHODS["bcl"].make().fit
    for state in (fit(rows, gold), fit(jnp.append(rows, rows[:1] - 9.0, axis=0), *absent)):
        np.testing.assert_allclose(state.bias, jnp.mean(rows, axis=0), rtol=1e-6)


@pytest.mark.parametrize("labels", [[1, -1, -1, -1], [0, 0, 1, -1]])
def test_bcl_works_with_one_labeled_row_and_with_a_label_missing(labels, planted):
    rows, _, _ = planted(4, 3)
    state = METHODS["bcl"].make().fit(rows, jnp.asarray(labels, jnp.int32))
    assert bool(jnp.isfinite(state.strength))
    assert state.curve.shape == (101,)


def test_on_an_uneven_split_of_a_sure_model_a_target_prior_or_mean_prob_beats_plain_bc():
    random = np.random.default_rng(0)
    gold = (random.random(3000) < 0.2).astype(np.int32)
    scores = random.normal(0, 1.5, (3000, 2)) + 5.0 * np.eye(2)[gold] + [0.0, 1.0]
    rows = jnp.asarray(scores, jnp.float32)
    with_prior = METHODS["bc"].make(target_prior=(0.8, 0.2))
    plain = float(accuracy(BC(rows, rows), gold))
    assert plain < float(accuracy(MEAN_PROB(rows, rows), gold))
    assert plain < float(accuracy(with_prior.apply(with_prior.fit(rows), rows), gold))


@pytest.mark.parametrize("name", ["bc", "bc_mean_prob", "bc_prob_shift", "prior_matching"])
def test_only_the_proportions_of_weights_count(name, planted):
    rows, _, _ = planted(20, 3)
    rows -= 200.0  # a probability of which float32 knows nothing
    weight = jnp.linspace(0.1, 1.0, 20)
    fit = METHODS[name].make().fit
    bias = fit(rows, None, weight).bias
    for scale in (1e-3, 1e3):
        np.testing.assert_allclose(fit(rows, None, scale * weight).bias, bias, atol=1e-4)


def test_mean_is_exact_to_a_millionth_over_many_rows():
    rows = (np.random.default_rng(0).normal(0, 1.0, (200_000, 2)) - 9.0).astype(np.float32)
    bias = METHODS["bc"].make().fit(jnp.asarray(rows)).bias
    np.testing.assert_allclose(bias, rows.astype(np.float64).mean(0), rtol=1.2e-7)

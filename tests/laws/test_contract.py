"""Every method of the table keeps one contract: shapes, jit, vmap, weights, labels, order."""

import re
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration.methods import METHODS, compare, correct, fit, gather
from batch_calibration.methods.fitting import make_calibrator
from batch_calibration.reporting.curves import is_over_shots
from batch_calibration.reporting.two_labels import has_boundary

KEY = jax.random.key(0)
ROWS, LABELS = 24, 3
PRIOR = (0.5, 0.3, 0.2)
PER_LABEL = ("target_prior", "expected_bias")
"""Options with a number for each label."""
# Of 25 rows: a row that transport splits goes where rounding says.
WHOLE_ROWS = (0.48, 0.32, 0.2)


def method_of_a_page():
    """The method that docs/architecture.md writes as an example."""
    page = (Path(__file__).resolve().parents[2] / "docs/architecture.md").read_text()
    (block,) = re.findall(r"## A method\n.*?```python\n(.*?)```", page, flags=re.DOTALL)
    before = dict(METHODS)
    try:
        exec(block, {})
        return next(METHODS[name] for name in METHODS if name not in before)
    finally:
        METHODS.clear()
        METHODS.update(before)


EXAMPLE = "the example of docs/architecture.md"
TABLE = METHODS | {EXAMPLE: method_of_a_page()}
# Every method with its defaults, and a line for each other choice of options.
CONTRACT = {name: (name, {}) for name in TABLE} | {
    "cc, strength": ("cc", {"strength": 0.5}),
    "dc, floor": ("dc", {"floor": -7.0}),
    "pc": ("pc", {"starts": 6}),
    "pc, likelihood": ("pc", {"starts": 6, "select": "likelihood", "fitted_weights": True}),
    "bc, strength": ("bc", {"strength": -0.5}),
    "bc, prior": ("bc", {"target_prior": PRIOR}),
    "bc, floor": ("bc", {"floor": -7.0}),
    "bcl, macro-F1": ("bcl", {"metric": "macro_f1"}),
    "bcl, bias from labeled": ("bcl", {"bias_from": "labeled"}),
    "bcl, prior": ("bcl", {"target_prior": PRIOR}),
    "bc_running, prior": ("bc_running", {"batch_size": 7, "target_prior": PRIOR}),
    "bc_running, strength": ("bc_running", {"batch_size": 8, "strength": 0.5}),
    "bc_running, per batch": ("bc_running", {"batch_size": 8, "per_batch": True}),
    "dc_original": ("dc_original", {"strength": 0.5, "target_prior": PRIOR}),
    "bc_mean_prob, prior": ("bc_mean_prob", {"target_prior": PRIOR}),
    "prior_matching, prior": ("prior_matching", {"target_prior": PRIOR}),
    "prior_matching, rounds": ("prior_matching", {"rounds": 10, "target_prior": PRIOR}),
    "otter, prior": ("otter", {"target_prior": WHOLE_ROWS}),
    "sld_em, damped": ("sld_em", {"damping": 0.2, "least_share": 0.05}),
    "bc_prob_shift, prior": ("bc_prob_shift", {"target_prior": PRIOR, "strength": 0.5}),
    "pmi, strength": ("pmi", {"strength": 0.5, "target_prior": PRIOR}),
    "looc, prior": ("looc", {"target_prior": PRIOR, "strength": 0.5}),
    "pride, prior": ("pride", {"target_prior": PRIOR, "strength": 0.5}),
    "order_average, then bc": ("order_average_bc", {"target_prior": PRIOR, "strength": 0.5}),
    "order_average, then a prior": ("order_average_prior", {"target_prior": PRIOR}),
    "bc_loo, prior": ("bc_loo", {"target_prior": PRIOR, "strength": 0.5}),
    "bc_shrunk, prior": ("bc_shrunk", {"target_prior": PRIOR, "strength": 0.5}),
    "bc_shrunk, expected": ("bc_shrunk", {"expected_bias": (0.5, -0.3, -0.2), "strength": 0.5}),
    "pc_raw": ("pc_raw", {"starts": 6}),
    "rbcorr, prior": ("rbcorr", {"target_prior": PRIOR, "strength": 0.5}),
    "vector, toward icl": ("vector", {"toward": "icl", "regularization": 1.0}),
    "matrix, toward zero": ("matrix", {"toward": "zero"}),
}


def roundtrip(case, **changed):
    name, options = CONTRACT[case]
    calibrator = make_calibrator(TABLE[name], **(options | changed))

    def both(rows, labels, weight, test):
        return calibrator.apply(calibrator.fit(rows, labels, weight, key=KEY), test)

    return both


def method(case):
    return TABLE[CONTRACT[case][0]]


def options(case):
    return CONTRACT[case][1]


@pytest.fixture(scope="module")
def example(planted):
    rows, gold, _ = planted(ROWS, LABELS)
    return rows, jnp.where(jnp.arange(ROWS) < ROWS // 2, -1, gold), jnp.ones(ROWS)


COMPARE = jax.jit(compare, static_argnames="methods")
JITTED = {case: jax.jit(roundtrip(case)) for case in CONTRACT}
every_case = pytest.mark.parametrize("case", CONTRACT)
USUAL = ("icl", "cc", "bc", "bc, prior", "bcl", "bc_running", "pmi", "vector")
usual_methods = pytest.mark.slow_except(*USUAL, *(f"{case}-2" for case in USUAL))
# What draws starts by row is another draw for other rows; test_prototypes has its laws on
# separated clusters.
drawing_nothing = [case for case in CONTRACT if not method(case).needs_key]
# What reads rows in their order has laws of its own, in test_running and test_probe_methods.
any_order = [case for case in drawing_nothing if not method(case).in_order]
# By its definition a mini-batch weighs the same however many rows it has.
by_row = [case for case in any_order if not options(case).get("per_batch")]


def test_every_method_and_every_option_is_under_contract():
    assert {name for name, _ in CONTRACT.values()} == {*METHODS, EXAMPLE}


@usual_methods
@every_case
def test_eager_jit_and_vmaps_agree(case, example):
    rows, labels, weight = example
    eager = roundtrip(case)(rows, labels, weight, rows)
    assert eager.shape == rows.shape
    assert eager.dtype == jnp.float32
    assert bool(jnp.all(jnp.isfinite(eager)))
    jitted = JITTED[case](rows, labels, weight, rows)
    np.testing.assert_allclose(jitted, eager, rtol=1e-4, atol=1e-4)

    def four(x):
        return jnp.broadcast_to(x, (2, 2, *x.shape))

    twice = jax.vmap(jax.vmap(roundtrip(case)))
    if not method(case).looped:  # two nested vmaps hold one: a looped method compiles for seconds
        once = jax.vmap(roundtrip(case))(*(four(x)[0] for x in (*example, rows)))
        np.testing.assert_allclose(once[1], eager, atol=1e-4)
    nested = jax.jit(twice)(*(four(x) for x in (*example, rows)))
    np.testing.assert_allclose(nested[1, 1], eager, rtol=1e-3, atol=1e-3)


@usual_methods
@every_case
def test_second_call_does_not_recompile(case, example):
    rows, labels, weight = example
    JITTED[case](rows, labels, weight, rows)
    before = JITTED[case]._cache_size()
    JITTED[case](rows + 1.0, labels, weight, rows - 1.0)
    assert JITTED[case]._cache_size() == before


@pytest.mark.slow
@every_case
def test_products_are_of_float32_on_every_device(case, example):
    rows, labels, weight = example
    lowered = JITTED[case].lower(rows, labels, weight, rows).as_text().splitlines()
    products = [line for line in lowered if "dot_general" in line]
    assert all("precision = [HIGHEST, HIGHEST]" in line for line in products)


@usual_methods
@pytest.mark.parametrize("case", any_order)
def test_order_of_probe_rows_is_nothing(case, example):
    rows, labels, weight = example
    order = np.random.default_rng(1).permutation(ROWS)
    mixed = JITTED[case](rows[order], labels[order], weight, rows)
    np.testing.assert_allclose(mixed, JITTED[case](rows, labels, weight, rows), atol=1e-5)


@usual_methods
@every_case
def test_weight_zero_is_absent_even_where_the_row_is_nan(case, example):
    rows, labels, weight = example
    poisoned = rows.at[3].set(jnp.nan).at[20].set(jnp.nan)
    hidden = JITTED[case](poisoned, labels, weight.at[3].set(0.0).at[20].set(0.0), rows)
    present = jnp.asarray([i for i in range(ROWS) if i not in (3, 20)])
    assert bool(jnp.all(jnp.isfinite(hidden)))
    if case in by_row:
        gone = roundtrip(case)(rows[present], labels[present], None, rows[present])
        np.testing.assert_allclose(hidden[present], gone, atol=1e-5)


@usual_methods
@pytest.mark.parametrize("case", by_row)
def test_weight_two_is_there_twice(case, example):
    rows, labels, weight = example
    extended = jnp.concatenate([rows, rows[5:6]])
    expected = roundtrip(case)(extended, jnp.append(labels, labels[5]), None, rows)
    got = JITTED[case](rows, labels, weight.at[5].set(2.0), rows)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@usual_methods
@every_case
def test_all_rows_absent_is_finite(case, example):
    rows, labels, weight = example
    assert bool(jnp.all(jnp.isfinite(JITTED[case](rows, labels, 0.0 * weight, rows))))


@usual_methods
@pytest.mark.parametrize("case", drawing_nothing)
def test_relabelling_permutes_the_scores(case, example):
    rows, labels, weight = example
    order = jnp.asarray([2, 0, 1])
    renamed = jnp.where(labels < 0, -1, jnp.argsort(order)[jnp.maximum(labels, 0)])
    stated = [name for name in PER_LABEL if name in options(case)]
    also = {name: tuple(np.take(options(case)[name], order)) for name in stated}
    moved = roundtrip(case, **also)(rows[:, order], renamed, weight, rows[:, order])
    straight = JITTED[case](rows, labels, weight, rows)
    np.testing.assert_allclose(moved, straight[:, order], atol=1e-5)


@usual_methods
@pytest.mark.parametrize("labels", [2, 4, 100])
@pytest.mark.parametrize("case", [c for c in CONTRACT if method(c).most_labels is None])
def test_any_number_of_labels(case, labels, planted):
    rows, gold, _ = planted(2 * labels, labels)
    also = {name: (1 / labels,) * labels for name in PER_LABEL if name in options(case)}
    scores = roundtrip(case, **also)(rows, gold.at[: labels // 2].set(-1), None, rows[:1])
    assert scores.shape == (1, labels)
    assert bool(jnp.all(jnp.isfinite(scores)))


@usual_methods
@every_case
def test_floor_lifts_minus_infinity(case, example):
    rows, labels, weight = example
    cut, lifted = rows.at[1, 2].set(-jnp.inf), rows.at[1, 2].set(-30.0)
    scores = roundtrip(case, floor=-30.0)(cut, labels, weight, cut)
    if "floor" in options(case):
        return
    expected = JITTED[case](lifted, labels, weight, lifted)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


SIZES = {"test": 24, "cc": 3, "dc": 20, "labeled": 12, "pmi": 1, "looc": 6, "permutations": 72}
SIZES |= {"cc_original": 3, "dc_original": 20}


@pytest.fixture(scope="module")
def blocks(planted):
    by_name = {}
    for name, count in SIZES.items():
        rows, gold, _ = zip(*(planted(count, LABELS, seed) for seed in (1, 2)), strict=True)
        by_name[name] = jnp.stack(rows), jnp.stack(gold)
    return by_name


def test_compare_is_every_method_on_every_context(blocks):
    together = COMPARE(blocks)
    assert set(together) == {name for name in METHODS if not METHODS[name].needs_key}
    for name, (_, scores) in together.items():
        correct_alone = jax.jit(partial(correct, METHODS[name]))
        for context in range(2):
            alone = {name: (rows[context], gold[context]) for name, (rows, gold) in blocks.items()}
            expected = correct_alone(alone, alone["test"][0]).scores
            np.testing.assert_allclose(scores[context], expected, atol=1e-5)


def test_compare_pads_contexts_with_weight_zero(blocks):
    rows, gold = blocks["test"]
    padded = jnp.pad(rows, ((0, 0), (0, 8), (0, 0)), constant_values=jnp.nan)
    weight = jnp.pad(jnp.ones((2, 24)), ((0, 0), (0, 8)))
    longer = {**blocks, "test": (padded, jnp.pad(gold, ((0, 0), (0, 8))), weight)}
    names = ("bc", "bcl", "bc_running", "bc_mean_prob", "bc_prob_shift", "bc_loo", "bc_shrunk")
    straight, cut = COMPARE(blocks, methods=names), COMPARE(longer, methods=names)
    for name in names:
        np.testing.assert_allclose(cut[name].scores[:, :24], straight[name].scores, atol=1e-5)


def test_compare_loops_over_contexts_where_the_method_asks_for_it(blocks):
    looped = tuple(name for name in METHODS if METHODS[name].looped)
    assert looped
    for _, scores in compare(blocks, methods=looped, key=KEY).values():
        assert scores.shape == (2, 24, 3)
        assert bool(jnp.all(jnp.isfinite(scores)))


def test_test_labels_are_hidden_from_every_method(blocks):
    alone = {block_name: (rows[0], gold[0]) for block_name, (rows, gold) in blocks.items()}
    for row in METHODS.values():
        learned = gather(row, alone)
        labeled_rows = sum(SIZES[block] for block in row.probe.labeled)
        assert int(jnp.sum(learned.labels >= 0)) == labeled_rows
    state = fit(METHODS["bcl"], alone)
    np.testing.assert_allclose(state.bias, jnp.mean(alone["test"][0], axis=0), rtol=1e-6)


def test_missing_block_is_a_sentence(blocks, refuses):
    assert "cc is missing" in str(refuses(fit, METHODS["cc"], {"test": blocks["test"]}))
    assert "block 'test', which is missing" in str(refuses(compare, {"cc": blocks["cc"]}))


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].probe.labels])
def test_a_method_that_reads_labels_asks_for_them(name, refuses):
    assert "got no labels" in str(refuses(METHODS[name].make().fit, jnp.zeros((2, 2))))


def test_the_table_says_what_each_method_learns_from():
    assert all(row.probe.description for row in METHODS.values())
    assert [METHODS[name].make for name in ("cc", "dc")] == [METHODS["bc"].make] * 2


def test_what_is_drawn_and_recorded_is_the_paper_s():
    def having(quality):
        return {name for name, row in METHODS.items() if getattr(row, quality)}

    paper = {"icl", "cc", "dc", "pc", "bc", "bcl"}
    assert having("over_stream") == {"bc_running"} and set(filter(is_over_shots, METHODS)) == paper
    assert having("over_probe_sizes") == {"pc", "bc", "bc_shrunk"}
    assert set(filter(has_boundary, METHODS)) == (paper - {"bcl"}) | {"pc_raw"}
    assert having("has_curve") == {"bcl"}
    matched = {"prior_matching", "otter", "sld_em", "prior_counted", "prior_moved", "bbse"}
    likely = {"bc_empirical_bayes", "bcl_empirical_bayes", "bc_pooled_shares"}
    assert having("keeps_bias") == {"cc", "dc", "bc", "bcl", "bc_shrunk"} | matched | likely
    assert having("own_rows") == {"bc_loo", "bc_running"}
    orders = {"order_average", "order_average_bc", "order_average_prior"}
    assert having("in_order") == {"bc_running", "pmi", "pride"} | orders

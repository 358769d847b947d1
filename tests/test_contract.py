"""Every method of the table keeps one contract: shapes, jit, vmap, weights, labels, order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, compare, correct, fit, gather, get_method

OPTIONS = {"pc": {"starts": 6}}
KEY = jax.random.key(0)
ROWS, LABELS = 24, 3


def calibrator(name):
    return METHODS[name].make(**OPTIONS.get(name, {}))


def roundtrip(name):
    made = calibrator(name)

    def both(rows, labels, weight, test):
        return made.apply(made.fit(rows, labels, weight, key=KEY), test)

    return both


@pytest.fixture(scope="module")
def example(planted):
    rows, gold, _ = planted(ROWS, LABELS)
    labels = jnp.where(jnp.arange(ROWS) < ROWS // 2, -1, gold)
    return rows, labels, jnp.ones(ROWS)


JITTED = {name: jax.jit(roundtrip(name)) for name in METHODS}
every_method = pytest.mark.parametrize("name", METHODS)


@every_method
def test_eager_jit_and_vmaps_agree(name, example):
    rows, labels, weight = example
    eager = roundtrip(name)(rows, labels, weight, rows)
    assert eager.shape == rows.shape
    assert eager.dtype == jnp.float32
    assert bool(jnp.all(jnp.isfinite(eager)))
    np.testing.assert_allclose(
        JITTED[name](rows, labels, weight, rows), eager, rtol=1e-4, atol=1e-4
    )

    def four(x):
        return jnp.broadcast_to(x, (2, 2, *x.shape))

    twice = jax.vmap(jax.vmap(roundtrip(name)))
    if name != "pc":  # two nested vmaps hold one: PC compiles for seconds
        once = jax.vmap(roundtrip(name))(*(four(x)[0] for x in (*example, rows)))
        np.testing.assert_allclose(once[1], eager, atol=1e-4)
    np.testing.assert_allclose(
        jax.jit(twice)(*(four(x) for x in (*example, rows)))[1, 1], eager, rtol=1e-3, atol=1e-3
    )


@every_method
def test_second_call_does_not_recompile(name, example):
    rows, labels, weight = example
    JITTED[name](rows, labels, weight, rows)
    before = JITTED[name]._cache_size()
    JITTED[name](rows + 1.0, labels, weight, rows - 1.0)
    assert JITTED[name]._cache_size() == before


# PC draws its starts by row; test_prototypes has it on separated clusters.
@pytest.mark.parametrize("name", [name for name in METHODS if name != "pc"])
def test_order_of_probe_rows_is_nothing(name, example):
    rows, labels, weight = example
    order = np.random.default_rng(1).permutation(ROWS)
    mixed = JITTED[name](rows[order], labels[order], weight, rows)
    np.testing.assert_allclose(mixed, JITTED[name](rows, labels, weight, rows), atol=1e-5)


@every_method
def test_weight_zero_is_absent_even_where_the_row_is_nan(name, example):
    rows, labels, weight = example
    poisoned = rows.at[3].set(jnp.nan).at[20].set(jnp.nan)
    hidden = JITTED[name](poisoned, labels, weight.at[3].set(0.0).at[20].set(0.0), rows)
    kept = jnp.asarray([i for i in range(ROWS) if i not in (3, 20)])
    if name == "pc":
        assert bool(jnp.all(jnp.isfinite(hidden)))  # other rows, other random starts
    else:
        gone = roundtrip(name)(rows[kept], labels[kept], None, rows)
        np.testing.assert_allclose(hidden, gone, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "pc"])
def test_weight_two_is_there_twice(name, example):
    rows, labels, weight = example
    again = jnp.concatenate([rows, rows[5:6]])
    expected = roundtrip(name)(again, jnp.append(labels, labels[5]), None, rows)
    got = JITTED[name](rows, labels, weight.at[5].set(2.0), rows)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@every_method
def test_all_rows_absent_is_finite(name, example):
    rows, labels, weight = example
    assert bool(jnp.all(jnp.isfinite(JITTED[name](rows, labels, 0.0 * weight, rows))))


@pytest.mark.parametrize("name", [name for name in METHODS if name != "pc"])
def test_relabelling_permutes_the_scores(name, example):
    rows, labels, weight = example
    order = jnp.asarray([2, 0, 1])
    renamed = jnp.where(labels < 0, -1, jnp.argsort(order)[jnp.maximum(labels, 0)])
    moved = JITTED[name](rows[:, order], renamed, weight, rows[:, order])
    straight = JITTED[name](rows, labels, weight, rows)
    np.testing.assert_allclose(moved, straight[:, order], atol=1e-5)


@pytest.mark.parametrize("labels", [2, 4, 100])
@pytest.mark.parametrize("name", [name for name in METHODS if name != "pc"])
def test_any_number_of_labels(name, labels, planted):
    rows, gold, _ = planted(labels + 1, labels)
    scores = roundtrip(name)(rows, gold.at[: labels // 2].set(-1), None, rows[:1])
    assert scores.shape == (1, labels)
    assert bool(jnp.all(jnp.isfinite(scores)))


@every_method
def test_floor_lifts_minus_infinity(name, example):
    rows, labels, weight = example
    made = METHODS[name].make(floor=-30.0, **OPTIONS.get(name, {}))
    cut, lifted = rows.at[1, 2].set(-jnp.inf), rows.at[1, 2].set(-30.0)
    scores = made.apply(made.fit(cut, labels, weight, key=KEY), cut)
    np.testing.assert_allclose(
        scores, JITTED[name](lifted, labels, weight, lifted), rtol=1e-4, atol=1e-4
    )


@pytest.fixture(scope="module")
def blocks(planted):
    parts = {}
    for name, count in {"test": 24, "cc": 3, "dc": 20, "labeled": 12}.items():
        tables = [planted(count, LABELS, seed) for seed in (1, 2)]
        parts[name] = (
            jnp.stack([rows for rows, _, _ in tables]),
            jnp.stack([gold for _, gold, _ in tables]),
        )
    return parts


def test_compare_is_every_method_on_every_context(blocks):
    together = jax.jit(compare, static_argnames="methods")(blocks)
    assert set(together) == set(METHODS) - {"pc"}
    for name, scores in together.items():
        for context in range(2):
            alone = {part: (rows[context], gold[context]) for part, (rows, gold) in blocks.items()}
            expected = correct(METHODS[name], alone, alone["test"][0])
            np.testing.assert_allclose(scores[context], expected, atol=1e-5)


def test_compare_pads_contexts_with_weight_zero(blocks):
    rows, gold = blocks["test"]
    padded = jnp.pad(rows, ((0, 0), (0, 8), (0, 0)), constant_values=jnp.nan)
    weight = jnp.pad(jnp.ones((2, 24)), ((0, 0), (0, 8)))
    longer = {**blocks, "test": (padded, jnp.pad(gold, ((0, 0), (0, 8))), weight)}
    names = ("bc", "bcl", "bc_running", "bc_mean_prob", "bc_prob_shift")
    straight, cut = compare(blocks, methods=names), compare(longer, methods=names)
    for name in names:
        np.testing.assert_allclose(cut[name][:, :24], straight[name], atol=1e-5)


def test_compare_loops_pc_over_contexts(blocks):
    scores = compare(blocks, methods=("pc",), key=KEY)["pc"]
    assert scores.shape == (2, 24, 3)
    assert bool(jnp.all(jnp.isfinite(scores)))


def test_test_labels_are_hidden_from_every_method(blocks):
    alone = {part: (rows[0], gold[0]) for part, (rows, gold) in blocks.items()}
    for method in METHODS.values():
        learned = gather(method, alone)
        kept = 12 if method.probe.labels else 0
        assert int(jnp.sum(learned.labels >= 0)) == kept
    state = fit(METHODS["bcl"], alone)
    np.testing.assert_allclose(state.bias, jnp.mean(alone["test"][0], axis=0), rtol=1e-6)


def test_missing_block_is_a_sentence(blocks):
    with pytest.raises(InputError, match="reads the blocks cc; cc did not come, only test"):
        fit(METHODS["cc"], {"test": blocks["test"]})
    with pytest.raises(InputError, match="'test', which did not come, only cc"):
        compare({"cc": blocks["cc"]})


def test_unknown_method_names_the_nearest():
    with pytest.raises(InputError, match="no method named 'bcl2'; did you mean 'bcl'"):
        get_method("bcl2")


def test_the_table_says_where_each_method_is_from():
    for method in METHODS.values():
        assert len(method.source) > 10
        assert method.probe.description
    assert [METHODS[name].make for name in ("cc", "dc")] == [METHODS["bc"].make] * 2

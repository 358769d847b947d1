"""The running estimate: a monoid that does not drift, and the streams it corrects."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration.calibration.running import (
    Running,
    empty,
    merge,
    running_shift,
    stream,
    update,
)


@pytest.fixture(scope="module")
def rows(planted):
    return planted(50, 3)[0]


def estimate(rows):
    return update(empty(rows.shape[-1]), rows)


def test_empty_changes_nothing(rows):
    seen = estimate(rows)
    for merged in (merge(seen, empty(3)), merge(empty(3), seen)):
        np.testing.assert_array_equal(merged.mean, seen.mean)
        assert int(merged.count) == 50
    np.testing.assert_array_equal(merge(empty(3), empty(3)).mean, np.zeros(3))


def test_merge_is_associative_and_commutative(rows):
    a, b, c = estimate(rows[:7]), estimate(rows[7:9]), estimate(rows[9:])
    one_way, right = merge(merge(a, b), c), merge(a, merge(b, c))
    np.testing.assert_allclose(one_way.mean, right.mean, atol=1e-6)
    np.testing.assert_allclose(merge(a, b).mean, merge(b, a).mean, atol=1e-6)
    np.testing.assert_allclose(one_way.mean, jnp.mean(rows, axis=0), atol=1e-6)
    assert int(one_way.count) == int(right.count) == 50


def test_absent_rows_neither_count_nor_weigh(rows):
    weight = jnp.asarray([1.0] * 20 + [0.0] * 30)
    seen = update(empty(3), rows.at[30].set(jnp.nan), weight)
    np.testing.assert_allclose(seen.mean, jnp.mean(rows[:20], axis=0), atol=1e-6)
    assert int(seen.count) == 20
    assert int(update(empty(3), rows, 0.0 * weight, per_batch=True).count) == 0


def test_a_long_stream_does_not_drift():
    batch = jnp.asarray([[-4.3, -7.1]] * 1000, jnp.float32)
    halves = Running(jnp.asarray([-4.3, -7.1], jnp.float32), jnp.int32(2**28), jnp.zeros(2))

    @jax.jit
    def run(state):
        return jax.lax.scan(lambda s, _: (update(s, batch), None), state, None, length=3000)[0]

    seen = run(halves)
    np.testing.assert_allclose(seen.mean, [-4.3, -7.1], atol=1e-6)
    assert int(seen.count) == 2**28 + 3_000_000


def test_single_rows_far_from_zero_do_not_drift():
    # 100,000 updates at -1000 nats, where a unit in the last place is 6.1e-5.
    random = np.random.default_rng(0)
    rows = (random.normal(0.0, 1.0, (100_000, 2)) - 1000.0).astype(np.float32)
    last, _ = stream(empty(2), jnp.asarray(rows), batch_size=1)
    np.testing.assert_allclose(last.mean, rows.astype(np.float64).mean(0), atol=3.1e-5, rtol=0)
    # The halves of a stream merge to the same, and the rest comes along.
    first, second = (stream(empty(2), half, batch_size=1)[0] for half in np.split(rows, [30_000]))
    np.testing.assert_allclose(merge(first, second).mean, last.mean, atol=6.2e-5, rtol=0)


def test_single_rows_still_count_past_two_to_the_24():
    state = empty(2)._replace(count=jnp.int32(2**24))
    assert int(update(state, jnp.ones((1, 2))).count) == 2**24 + 1


def test_a_full_count_stays_full():
    full = jnp.int32(np.iinfo(np.int32).max)
    merged = merge(empty(2)._replace(count=full), estimate(jnp.ones((5, 2))))
    assert int(merged.count) == int(full)
    assert bool(jnp.all(jnp.isfinite(merged.mean)))


def test_stream_hands_back_the_estimate_after_each_batch(rows):
    final, seen = stream(empty(3), rows, batch_size=20)
    assert seen.count.tolist() == [20, 40, 50]
    np.testing.assert_allclose(seen.mean[0], jnp.mean(rows[:20], axis=0), atol=1e-6)
    np.testing.assert_allclose(seen.mean[1], jnp.mean(rows[:40], axis=0), atol=1e-6)
    np.testing.assert_array_equal(seen.mean[-1], final.mean)


def corrected(rows, weight=None, **options):
    method = running_shift(**options)
    # One program, where each operation alone would be one.
    return np.asarray(jax.jit(lambda r, w: method.apply(method.fit(r, None, w), r))(rows, weight))


@pytest.mark.parametrize("options", [{"batch_size": 7}, {"batch_size": 8, "per_batch": True}])
@pytest.mark.parametrize("absent", [range(50, 64), range(0, 3), (4, 11, 12, 30), range(9, 33)])
def test_absent_rows_leave_no_gap_in_a_mini_batch(absent, options, rows):
    rows = np.asarray(rows)
    padded = np.concatenate([rows, rows[:14] - np.float32(3.0)])
    absent = np.array(absent)
    present = np.setdiff1d(np.arange(64), absent)
    weight, nans = np.ones(64, np.float32), padded.copy()
    weight[absent], nans[absent] = 0.0, np.nan
    hidden = corrected(nans, weight, **options)
    np.testing.assert_allclose(hidden[present], corrected(padded[present], **options), atol=2e-6)
    # Scores that are there stay finite, whether their weight counts them or not.
    assert np.isfinite(corrected(padded, weight, **options)).all()


def test_a_row_of_weight_two_weighs_twice_in_its_mini_batch(rows):
    weight = jnp.ones(50).at[3].set(2.0)
    twice = jnp.concatenate([rows[:20], rows[3:4]])
    scores = corrected(rows, weight, batch_size=20)
    np.testing.assert_allclose(scores[:20], rows[:20] - jnp.mean(twice, axis=0), atol=2e-6)


def test_rows_beyond_the_stream_are_corrected_by_its_last_estimate(rows):
    calibrator = running_shift(batch_size=8)
    later = calibrator.apply(calibrator.fit(rows[:20]), rows)
    np.testing.assert_allclose(later[20:], rows[20:] - jnp.mean(rows[:20], axis=0), atol=2e-6)


def test_many_mini_batches_keep_the_float64_mean():
    rows = (np.random.default_rng(3).normal(0.0, 2.0, (3001, 3)) - 40.0).astype(np.float32)
    means = np.cumsum(rows.astype(np.float64), axis=0) / np.arange(1, 3002)[:, None]
    for size in (1, 13, 256):
        last = np.minimum(np.arange(3001) // size * size + size, 3001) - 1
        found = corrected(jnp.asarray(rows), batch_size=size)
        np.testing.assert_allclose(found, rows - means[last], atol=1e-5)


def test_a_mini_batch_has_32_rows(rows):
    usual, other = corrected(rows, batch_size=32), corrected(rows, batch_size=33)
    default = running_shift()
    np.testing.assert_array_equal(default.apply(default.fit(rows), rows), usual)
    assert (usual != other).any()


def test_strength_and_target_prior_act_on_the_running_mean(rows):
    calibrator = running_shift(batch_size=50, strength=0.5, target_prior=(0.2, 0.3, 0.5))
    expected = rows - 0.5 * (jnp.mean(rows, axis=0) - jnp.log(jnp.asarray([0.2, 0.3, 0.5])))
    np.testing.assert_allclose(calibrator.apply(calibrator.fit(rows), rows), expected, atol=2e-6)


def test_a_batch_of_no_rows_is_a_sentence(refuses):
    assert refuses(running_shift, batch_size=0).where == "batch_size"

"""The Flax layer: what it returns under plain jit advances, and evaluation leaves it alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from batch_calibration.calibration.running import running_shift
from batch_calibration.layer import BatchCalibration


@pytest.fixture
def rows(planted):
    return planted(48, 3)[0]


def compiled(layer):
    graph = nnx.split(layer)[0]
    return jax.jit(lambda state, batch: nnx.merge(graph, state)(batch))


def test_count_advances_under_jit(rows):
    layer = BatchCalibration(3)
    step = compiled(layer)
    for done in (16, 32, 48):
        _, seen = step(nnx.state(layer), rows[done - 16 : done])
        layer.remember(seen)
        assert int(layer.seen.count) == done
    np.testing.assert_allclose(layer.seen.mean, jnp.mean(rows, axis=0), atol=1e-6)
    assert step._cache_size() == 1


def test_scores_are_those_of_the_causal_stream(rows):
    layer = BatchCalibration(3, strength=0.5)
    made = running_shift(batch_size=16, causal=True, strength=0.5)
    scores = []
    for start in (0, 16, 32):
        corrected, seen = layer(rows[start : start + 16])
        layer.remember(seen)
        scores.append(corrected)
    expected = made.apply(made.fit(rows), rows)
    np.testing.assert_allclose(jnp.concatenate(scores), expected, atol=2e-6)


def test_calling_changes_nothing(rows):
    layer = BatchCalibration(3)
    layer(rows)
    assert int(layer.seen.count) == 0


def test_evaluation_uses_the_bias_as_it_is(rows):
    layer = BatchCalibration(3)
    layer.remember(layer(rows[:16])[1])
    layer.eval()
    scores, seen = compiled(layer)(nnx.state(layer), rows[16:])
    assert int(seen.count) == 16
    np.testing.assert_allclose(scores, rows[16:] - jnp.mean(rows[:16], axis=0), atol=2e-6)
    layer.train()
    assert int(layer(rows[16:])[1].count) == 48


def test_absent_rows_do_not_enter(rows):
    weight = jnp.asarray([1.0] * 10 + [0.0] * 38)
    _, seen = BatchCalibration(3)(rows, weight)
    assert int(seen.count) == 10
    np.testing.assert_allclose(seen.mean, jnp.mean(rows[:10], axis=0), atol=1e-6)


def test_per_batch_counts_batches(rows):
    layer = BatchCalibration(3, per_batch=True)
    layer.remember(layer(rows[:40])[1])
    layer.remember(layer(rows[40:])[1])
    assert int(layer.seen.count) == 2
    expected = (jnp.mean(rows[:40], axis=0) + jnp.mean(rows[40:], axis=0)) / 2.0
    np.testing.assert_allclose(layer.seen.mean, expected, atol=1e-6)


def test_it_sits_in_a_network_and_lets_gradients_through(rows):
    class Head(nnx.Module):
        def __init__(self):
            self.linear = nnx.Linear(3, 3, rngs=nnx.Rngs(0))
            self.calibrate = BatchCalibration(3)

        def __call__(self, x):
            return self.calibrate(jax.nn.log_softmax(self.linear(x)))

    def loss(head):
        scores, seen = head(rows)
        return jnp.mean(scores[:, 0] ** 2), seen

    gradient, seen = nnx.grad(loss, has_aux=True)(Head())
    assert int(seen.count) == 48
    assert float(jnp.abs(gradient["linear"]["kernel"][...]).sum()) > 0.0

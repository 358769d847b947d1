"""The Flax layer: it keeps its estimate as nnx.BatchNorm does, outside of jit and within."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from batch_calibration.calibration.running import merge, running_shift, update
from batch_calibration.layer import BatchCalibration


@pytest.fixture
def rows(planted):
    return planted(48, 3)[0]


@nnx.jit
def called(layer, batch):
    return layer(batch)


def test_it_keeps_what_it_saw_and_returns_scores_alone(rows):
    layer = BatchCalibration(3)
    scores = layer(rows)
    assert scores.shape == rows.shape and int(layer.seen.count) == 48
    np.testing.assert_allclose(layer.seen.mean, jnp.mean(rows, axis=0), atol=1e-6)
    np.testing.assert_allclose(scores, rows - jnp.mean(rows, axis=0), atol=2e-6)


def test_count_advances_under_nnx_jit(rows):
    layer = BatchCalibration(3)
    outside = BatchCalibration(3)
    for done in (16, 32, 48):
        batch = rows[done - 16 : done]
        np.testing.assert_allclose(called(layer, batch), outside(batch), atol=2e-6)
        assert int(layer.seen.count) == done
    np.testing.assert_allclose(layer.seen.mean, jnp.mean(rows, axis=0), atol=1e-6)


def test_count_advances_in_the_state_that_plain_jit_returns(rows):
    layer = BatchCalibration(3)
    graph, state = nnx.split(layer)

    @jax.jit
    def step(state, batch):
        merged = nnx.merge(graph, state)
        return merged(batch), nnx.state(merged)

    for start in (0, 16, 32):
        _, state = step(state, rows[start : start + 16])
    assert int(layer.seen.count) == 0
    nnx.update(layer, state)
    assert int(layer.seen.count) == 48
    np.testing.assert_allclose(layer.seen.mean, jnp.mean(rows, axis=0), atol=1e-6)
    assert step._cache_size() == 1


def test_scores_are_those_of_the_causal_stream(rows):
    layer = BatchCalibration(3, strength=0.5)
    calibrator = running_shift(batch_size=16, strength=0.5)
    scores = [layer(rows[start : start + 16]) for start in (0, 16, 32)]
    expected = calibrator.apply(calibrator.fit(rows), rows)
    np.testing.assert_allclose(jnp.concatenate(scores), expected, atol=2e-6)


def test_it_is_switched_as_batch_norm_is(rows):
    class Network(nnx.Module):
        def __init__(self):
            self.norm = nnx.BatchNorm(3, rngs=nnx.Rngs(0))
            self.calibrate = BatchCalibration(3)

    network = Network()
    for switch, average in ((network.eval, True), (network.train, False)):
        switch()
        assert network.norm.use_running_average is network.calibrate.use_running_average is average
    for layer in (network.norm, network.calibrate):
        before = layer.mean[...]
        layer(rows, True)
        layer(rows, use_running_average=True)
        np.testing.assert_array_equal(layer.mean[...], before)
        layer.use_running_average = True
        layer(rows)
        np.testing.assert_array_equal(layer.mean[...], before)
        layer(rows, use_running_average=False)
        assert not np.array_equal(layer.mean[...], before)
    assert BatchCalibration(3, use_running_average=True).use_running_average is True


def test_evaluation_uses_the_estimate_as_it_is(rows):
    layer = BatchCalibration(3)
    layer(rows[:16])
    layer.eval()
    for call in (layer, lambda batch: called(layer, batch)):
        scores = call(rows[16:])
        assert int(layer.seen.count) == 16
        np.testing.assert_allclose(scores, rows[16:] - jnp.mean(rows[:16], axis=0), atol=2e-6)
    layer.train()
    called(layer, rows[16:])
    assert int(layer.seen.count) == 48


def test_absent_rows_do_not_enter(rows):
    layer = BatchCalibration(3)
    layer(rows, weight=jnp.asarray([1.0] * 10 + [0.0] * 38))
    assert int(layer.seen.count) == 10
    np.testing.assert_allclose(layer.seen.mean, jnp.mean(rows[:10], axis=0), atol=1e-6)


def test_per_batch_counts_batches(rows):
    layer = BatchCalibration(3, per_batch=True)
    layer(rows[:40])
    layer(rows[40:])
    assert int(layer.seen.count) == 2
    expected = (jnp.mean(rows[:40], axis=0) + jnp.mean(rows[40:], axis=0)) / 2.0
    np.testing.assert_allclose(layer.seen.mean, expected, atol=1e-6)


def test_the_estimates_of_two_devices_become_one(rows):
    first, second = BatchCalibration(3), BatchCalibration(3)
    first(rows[:20])
    second(rows[20:])
    first.remember(merge(first.seen, second.seen))
    np.testing.assert_allclose(first.seen.mean, jnp.mean(rows, axis=0), atol=1e-6)
    assert int(first.seen.count) == 48


def test_it_trains_in_a_network(rows):
    linear = nnx.Linear(3, 3, rngs=nnx.Rngs(0))
    network = nnx.Sequential(linear, jax.nn.log_softmax, BatchCalibration(3))

    @nnx.jit
    def step(network, batch):
        return nnx.grad(lambda network: jnp.mean(network(batch)[:, 0] ** 2))(network)

    assert float(jnp.abs(step(network, rows)["layers"][0]["kernel"][...]).sum()) > 0.0
    assert int(network.layers[2].seen.count) == 48
    step(network, rows)
    assert int(network.layers[2].seen.count) == 96

    # The gradient goes through the batch's own mean, as that of BatchNorm does.
    def loss(kernel):
        scores = jax.nn.log_softmax(rows @ kernel)
        return jnp.mean((scores - jnp.mean(scores, axis=0))[:, 0] ** 2)

    fresh = nnx.Sequential(linear, jax.nn.log_softmax, BatchCalibration(3))
    expected = jax.grad(loss)(linear.kernel[...])
    kernel = step(fresh, rows)["layers"][0]["kernel"][...]
    np.testing.assert_allclose(kernel, expected, atol=1e-5)


def test_one_layer_per_context_by_vmap(rows):
    layers = nnx.vmap(lambda _: BatchCalibration(3), axis_size=2)(jnp.arange(2))
    batches = jnp.stack([rows[:24], rows[24:]])
    scores = nnx.vmap(lambda layer, batch: layer(batch))(layers, batches)
    for i, batch in enumerate(batches):
        np.testing.assert_allclose(scores[i], batch - batch.mean(0), atol=2e-6)
        mean = update(BatchCalibration(3).seen, batch).mean
        np.testing.assert_allclose(layers.mean[...][i], mean, atol=1e-6)

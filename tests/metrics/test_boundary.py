"""Decision boundaries for two labels: each line where the method itself changes its mind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration.calibration.shift import Shift
from batch_calibration.methods import METHODS
from batch_calibration.metrics import boundary

KEY = jax.random.key(0)


def offset(state):
    """A shift moves the boundary by s0 - s1 = gamma (b0 - b1), in nats."""
    return state.strength * (state.bias[0] - state.bias[1])


@pytest.fixture(scope="module")
def rows(planted):
    return planted(60, 2)[0]


@pytest.mark.parametrize("name", ["icl", "cc", "dc", "bc", "cc_original", "bc_mean_prob"])
def test_a_shift_s_margin_is_zero_on_its_line(name, rows):
    calibrator = METHODS[name].make()
    state = calibrator.fit(rows)
    s1 = jnp.linspace(-9.0, -1.0, 7)
    line = s1 + offset(state)
    margin = boundary.decision_margin(calibrator, state, jnp.stack([line, s1], axis=-1))
    np.testing.assert_allclose(margin, 0.0, atol=2e-6)
    above = boundary.decision_margin(calibrator, state, jnp.stack([line + 0.1, s1], axis=-1))
    np.testing.assert_allclose(above, 0.1, atol=1e-5)


def test_icl_s_line_is_the_diagonal(rows):
    assert float(offset(METHODS["icl"].make().fit(rows))) == 0.0


def test_bcl_s_line_moves_by_its_strength(planted):
    rows = planted(60, 2)[0] + jnp.asarray([3.0, 0.0])
    # Labels as twice the bias would have them, so that another strength than 1 is best.
    gold = jnp.argmax(rows - 2.0 * rows.mean(0), axis=-1).astype(jnp.int32)
    calibrator = METHODS["bcl"].make()
    state = calibrator.fit(rows, jnp.where(jnp.arange(60) < 30, -1, gold))
    assert float(state.strength) > 1.5
    bias = np.asarray(rows[:30], np.float64).mean(0)
    s1 = np.linspace(-9.0, -1.0, 7)
    line = s1 + float(state.strength) * (bias[0] - bias[1])
    margin = boundary.decision_margin(calibrator, state, np.stack([line, s1], axis=-1))
    np.testing.assert_allclose(margin, 0.0, atol=5e-6)


def test_cc_rotates_about_the_origin_in_probabilities():
    state = Shift(jnp.log(jnp.asarray([0.6, 0.2])), jnp.float32(1.0))
    p1 = jnp.asarray([0.0, 0.1, 0.3])
    np.testing.assert_allclose(p1 * jnp.exp(offset(state)), [0.0, 0.3, 0.9], rtol=1e-5)
    calibrator = METHODS["cc"].make()
    points = jnp.log(jnp.stack([p1[1:] * jnp.exp(offset(state)), p1[1:]], axis=-1))
    np.testing.assert_allclose(boundary.decision_margin(calibrator, state, points), 0.0, atol=1e-6)


def test_pc_s_margin_is_the_difference_of_densities(rows):
    calibrator = METHODS["pc"].make(starts=8)
    state = calibrator.fit(rows, key=KEY)
    points = boundary.plane(-9.0, -1.0, 11)
    margin = boundary.decision_margin(calibrator, state, points)
    assert margin.shape == (11, 11)
    densities = calibrator.apply(state, points[4])
    np.testing.assert_allclose(margin[4], densities[:, 0] - densities[:, 1], rtol=1e-5)
    assert float(margin.min()) < 0.0 < float(margin.max())
    # Normalized over the labels first: the curve is constant along the diagonal.
    np.testing.assert_allclose(margin[2, 3], margin[5, 6], rtol=1e-3)


def test_raw_pc_s_margin_bends_off_the_diagonal():
    random = np.random.default_rng(0)
    gold = np.arange(400) % 2
    # One label's rows are wide and the other's narrow: where densities are equal is an ellipse.
    spread = np.where(gold == 0, 0.2, 1.2)[:, None]
    rows = random.normal(0, 1, (400, 2)) * spread + np.where(gold[:, None] == [0, 1], -1.5, -3.0)
    calibrator = METHODS["pc_raw"].make(start_means=np.array([[[-1.5, -3.0], [-3.0, -1.5]]]))
    state = calibrator.fit(np.asarray(rows, np.float32), key=KEY)
    margin = np.asarray(boundary.decision_margin(calibrator, state, boundary.plane(-8.0, 2.0, 41)))
    # Where s0 - s1 = 1.5, through the middle of the narrow one: in, and out again on both sides.
    along = np.sign(np.diagonal(margin, -6))
    assert along[0] == along[-1] == -1.0 and along.max() == 1.0
    assert not METHODS["pc"].needs_log_probs and METHODS["pc_raw"].needs_log_probs


def test_plane_puts_s0_first():
    assert boundary.plane(-4.0, 0.0, 5)[3, 1].tolist() == [-1.0, -3.0]


def test_three_labels_is_a_sentence(planted, refuses):
    rows = planted(9, 3)[0]
    calibrator = METHODS["bc"].make()
    state = calibrator.fit(rows)
    assert refuses(boundary.decision_margin, calibrator, state, rows).got == "shape (9, 3)"

"""`calibrate`: what it gives, and one test for each sentence it answers with."""

import sys
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import batch_calibration
from batch_calibration import METHODS, calibrate
from batch_calibration.estimator import LabelBiasCorrector

pytestmark = pytest.mark.filterwarnings("ignore:.*which is rough:UserWarning")

PACKAGE = Path(batch_calibration.__file__).parent
GOOD = [[-1.0, -3.0], [-2.0, -2.5], [-0.5, -4.0]]


@pytest.fixture(scope="module")
def rows(planted):
    return planted(30, 3)[:2]


def test_bc_is_the_default():
    expected = np.array(GOOD) - np.mean(GOOD, axis=0)
    scores = calibrate(GOOD)
    assert scores.dtype == jnp.float32
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_an_array_is_read_once_in_few_calls():
    calls = Counter()

    def count(frame, event, _):
        if event == "call" and PACKAGE in Path(frame.f_code.co_filename).parents:
            calls[frame.f_code.co_name] += 1

    array = np.tile(np.float32(GOOD), (20, 1))
    calibrate(array)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        calibrate(array)
    finally:
        sys.setprofile(before)
    assert calls["read_scores"] == calls["read_numbers"] == calls["refuse_unusable"] == 1
    assert not calls["read_rows"] + calls["read_floats"] and calls.total() <= 35


@pytest.mark.slow
def test_every_method_goes_through(rows):
    scores, gold = rows
    for name, method in METHODS.items():
        orders = scores.shape[-1] if method.probe.in_orders else 1
        probe = np.tile(np.asarray(scores), (orders, 1))
        blocks = set(method.probe.blocks)
        needs = {"probe": probe} if blocks - {"test", "labeled"} else {}
        needs |= {"labeled": scores} if "labeled" in blocks else {}
        needs |= {"labels": gold} if method.probe.labels else {}
        needs |= {"key": 0} if method.needs_key else {}
        corrected = calibrate(scores, name, **needs)
        assert corrected.shape == scores.shape
        assert bool(jnp.all(jnp.isfinite(corrected)))


def test_leading_axes_are_contexts_of_their_own(rows):
    scores, gold = np.asarray(rows[0]), np.asarray(rows[1])
    seeds = np.stack([scores, scores[::-1] * 0.5]).reshape(2, 1, 30, 3)
    np.testing.assert_allclose(calibrate(seeds)[1, 0], calibrate(seeds[1, 0]), atol=1e-6)
    shared = calibrate(seeds, "cc", probe=scores[:3])
    np.testing.assert_allclose(shared[1, 0], seeds[1, 0] - scores[:3].mean(0), atol=1e-5)
    corrected = calibrate(seeds, "cc", probe=seeds[:, :, :3])
    np.testing.assert_allclose(corrected[1, 0], seeds[1, 0] - seeds[1, 0, :3].mean(0), atol=1e-5)
    learned = calibrate(seeds, "bcl", labeled=seeds, labels=np.broadcast_to(gold, (2, 1, 30)))
    alone = calibrate(seeds[1, 0], "bcl", labeled=seeds[1, 0], labels=gold)
    np.testing.assert_allclose(learned[1, 0], alone, atol=1e-6)


def test_a_key_and_a_seed_are_the_same(rows):
    scores, _ = rows
    seeded, keyed = (calibrate(scores, "pc", key=k, starts=3) for k in (3, jax.random.key(3)))
    np.testing.assert_array_equal(seeded, keyed)


def test_a_second_call_compiles_nothing(rows):
    scores, gold = np.asarray(rows[0]), np.asarray(rows[1])
    compiled = []

    def calls(values):
        for name in ("bc", "bc_running", "pc"):
            calibrate(values, name, key=0)
        calibrate(values, "bcl", labeled=values, labels=gold)

    calls(scores)
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compiled.append(event) if "backend_compile" in event else None
    )
    try:
        calls(scores + 1.0)
    finally:
        jax.monitoring.clear_event_listeners()
    assert compiled == []


def test_the_input_is_not_changed():
    scores = np.array([[-1.0, -np.inf], [-2.0, -2.5]], np.float32)
    before = scores.copy()
    calibrate(scores, floor=-20.0)
    np.testing.assert_array_equal(scores, before)


def test_what_a_row_of_the_table_has_set_is_no_option(refuses):
    refuses(calibrate, GOOD, estimate=jnp.mean)


def test_floor_is_where_minus_infinity_goes():
    cut, lifted = [[-1.0, -np.inf], [-2.0, -2.5]], [[-1.0, -20.5], [-2.0, -2.5]]
    np.testing.assert_allclose(calibrate(cut, floor=-20.5), calibrate(lifted), atol=1e-6)


def test_numbers_come_as_numpy_and_jax_hold_them(rows):
    scores, _ = rows
    half = calibrate(scores, strength=0.5)
    for kind in (np.float32, np.array, jnp.float32, jnp.bfloat16):
        np.testing.assert_array_equal(calibrate(scores, strength=kind(0.5)), half)


@pytest.mark.parametrize(
    ("method", "rows", "is_warned"),
    [
        ("bc", 1, "scores: bc has one row to learn from, so all corrected scores"),
        ("bc", 9, "scores: bc learns its bias from 9 rows, which is rough; give 10 rows of one"),
        ("bc_running", 2, "scores: bc_running learns its bias from 2 rows"),
        ("bc", 10, None),
        ("cc", 1, None),
        ("icl", 1, None),
    ],
)
def test_few_rows_are_warned_of(method, rows, is_warned, planted, recwarn):
    scores = np.asarray(planted(rows, 2)[0])
    calibrate(scores, method, **({"probe": scores} if method == "cc" else {}))
    LabelBiasCorrector(method).fit(scores)
    heard = [str(warning.message) for warning in recwarn]
    assert len(heard) == (2 if is_warned else 0)
    if is_warned:
        assert is_warned in heard[0] and heard[1] == heard[0].replace("scores:", "X:")
        assert all(warning.filename == __file__ for warning in recwarn)


LABELED = {"labeled": GOOD, "labels": [0, 1, 0]}
HALF_KNOWN = {"labeled": [GOOD, GOOD], "labels": [[0, 1, 0], [-1, -1, -1]]}
ABOVE, LOGITS = -np.asarray(GOOD), {"key": 0, "from_probs": False}
SENTENCES = {
    "not an array": ((["a", "b"],), {}),
    "complex": ((np.array(GOOD) + 1j,), {}),
    "one axis": (([-1.0, -2.0],), {}),
    "no rows": ((np.zeros((0, 2)),), {}),
    "one label": (([[-1.0], [-2.0]],), {}),
    "nan": (([[-1.0, -2.0], [-1.0, np.nan]],), {}),
    "nan in a context": ((np.full((2, 2, 2), np.nan),), {}),
    "method that is no name": ((GOOD, ["bc"]), {}),
    "unknown method": ((GOOD, "bcx"), {}),
    "unknown option": ((GOOD,), {"strenght": 0.5}),
    "strength that is no number": ((GOOD,), {"strength": "a"}),
    "strength that is nan": ((GOOD,), {"strength": np.nan}),
    "strength beyond float32": ((GOOD,), {"strength": 1e39}),
    "strength per label": ((GOOD,), {"strength": [1.0, 0.5]}),
    "batch size that is no whole number": ((GOOD, "bc_running"), {"batch_size": 1.5}),
    "flag that is a word": ((GOOD, "bc_running"), {"per_batch": "no"}),
    "logits for what reads their level": ((ABOVE, "pc_raw"), LOGITS),
    "logits for an option that reads their level": ((ABOVE, "pc"), {**LOGITS, "features": "raw"}),
    "metric that is no name": ((GOOD, "bcl"), {**LABELED, "metric": ["f1"]}),
    "start means of another shape": ((GOOD, "pc"), {"start_means": np.zeros((3, 2))}),
    "start means that are words": ((GOOD, "pc"), {"start_means": "abc"}),
    "probe of logits for probabilities": ((GOOD, "cc_original"), {"probe": [[-1, -2], [0.5, -1]]}),
    "probe for a method that reads none": ((GOOD,), {"probe": GOOD}),
    "labeled for a method that reads none": ((GOOD, "icl"), {"labeled": GOOD}),
    "labels for a method that reads none": ((GOOD, "cc"), {"probe": GOOD, "labels": [0, 1, 0]}),
    "cc without a probe": ((GOOD, "cc"), {}),
    "dc without a probe": ((GOOD, "dc"), {}),
    "probe of another width": ((GOOD, "cc"), {"probe": [[-1.0, -1.0, -1.0]]}),
    "probe with nan": ((GOOD, "cc"), {"probe": [[-1.0, np.nan]]}),
    "probe of other contexts": ((np.zeros((2, 3, 2)), "cc"), {"probe": np.zeros((3, 1, 2))}),
    "bcl without labels": ((GOOD, "bcl"), {"labeled": GOOD}),
    "bcl without a labeled set": ((GOOD, "bcl"), {"labels": [0]}),
    "labels out of range": ((GOOD, "bcl"), {"labeled": GOOD, "labels": [0, 1, 2]}),
    "labels of another length": ((GOOD, "bcl"), {"labeled": GOOD, "labels": [0, 1]}),
    "labels that are words": ((GOOD, "bcl"), {"labeled": GOOD, "labels": ["yes", "no", "yes"]}),
    "ragged labels": ((GOOD, "bcl"), {**LABELED, "labels": [[0], [0, 1]]}),
    "all labels unknown": ((GOOD, "bcl"), {"labeled": GOOD, "labels": [-1, -1, -1]}),
    "all labels of one context unknown": (([GOOD, GOOD], "bcl"), HALF_KNOWN),
    "prior of another length": ((GOOD,), {"target_prior": (1.0,)}),
    "prior that is none": ((GOOD,), {"target_prior": (0.8, 0.8)}),
    "prior that is a word": ((GOOD,), {"target_prior": "abc"}),
    "ragged prior": ((GOOD,), {"target_prior": [[1.0], [0.5, 0.5]]}),
    "unknown metric": ((GOOD, "bcl"), {**LABELED, "metric": "f1"}),
    "unknown bias_from": ((GOOD, "bcl"), {**LABELED, "bias_from": "labelled"}),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_bad_input_is_answered_in_a_sentence(case, refuses):
    arguments, named = SENTENCES[case]
    assert str(refuses(calibrate, *arguments, **named)).endswith(".")


@pytest.mark.parametrize("floor", [np.nan, -np.inf, -1e39, 0.0, 5, "x", [-1.0, -2.0]])
def test_a_floor_is_a_finite_number_below_zero(floor, refuses):
    refuses(calibrate, GOOD, floor=floor)


@pytest.mark.parametrize("key", [0.5, "a", 2**80, 2**40, jax.random.split(jax.random.key(0))])
def test_a_key_is_one_key_or_a_seed(key, refuses):
    refuses(calibrate, GOOD, "pc", key=key)


def test_the_face_says_what_it_has_not():
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        _ = batch_calibration.colour


def test_score_table_comes_when_asked_for():
    assert batch_calibration.ScoreTable.__name__ == "ScoreTable"

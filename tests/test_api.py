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
    assert refuses(calibrate, GOOD, estimate=jnp.mean).got == "estimate"


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
    "scores: list of <U1": ((["a", "b"],), {}),
    "scores: ndarray of complex128": ((np.array(GOOD) + 1j,), {}),
    "scores: shape (2,)": (([-1.0, -2.0],), {}),
    "scores: shape (0, 2)": ((np.zeros((0, 2)),), {}),
    "scores: 1 column": (([[-1.0], [-2.0]],), {}),
    "scores: NaN in row 1, label 1 (1 in all)": (([[-1.0, -2.0], [-1.0, np.nan]],), {}),
    "scores: NaN in context (0,), row 0, label 0 (8 in all)": ((np.full((2, 2, 2), np.nan),), {}),
    "method: ['bc']": ((GOOD, ["bc"]), {}),
    "method: bcx": ((GOOD, "bcx"), {}),
    "option of bc: strenght": ((GOOD,), {"strenght": 0.5}),
    "strength: 'a'": ((GOOD,), {"strength": "a"}),
    "strength: nan": ((GOOD,), {"strength": np.nan}),
    "strength: 1e+39": ((GOOD,), {"strength": 1e39}),
    "strength: True": ((GOOD,), {"strength": True}),
    "strength: masked": ((GOOD,), {"strength": np.ma.masked}),
    "strength: [1.0, 0.5]": ((GOOD,), {"strength": [1.0, 0.5]}),
    "batch_size: 1.5": ((GOOD, "bc_running"), {"batch_size": 1.5}),
    "per_batch: 'no'": ((GOOD, "bc_running"), {"per_batch": "no"}),
    "scores: pc_raw needs": ((ABOVE, "pc_raw"), LOGITS),
    "scores: pc needs": ((ABOVE, "pc"), {**LOGITS, "features": "raw"}),
    "metric: ['f1']": ((GOOD, "bcl"), {**LABELED, "metric": ["f1"]}),
    "start_means: shape (3, 2)": ((GOOD, "pc"), {"start_means": np.zeros((3, 2))}),
    "start_means: str": ((GOOD, "pc"), {"start_means": "abc"}),
    "probe: cc_original needs": ((GOOD, "cc_original"), {"probe": [[-1, -2], [0.5, -1]]}),
    "probe: expected none, as bc reads": ((GOOD,), {"probe": GOOD}),
    "labeled: expected none, as icl reads": ((GOOD, "icl"), {"labeled": GOOD}),
    "labels: expected none, as cc reads": ((GOOD, "cc"), {"probe": GOOD, "labels": [0, 1, 0]}),
    "cc learns its bias from probe prompts": ((GOOD, "cc"), {}),
    "dc learns its bias from probe prompts": ((GOOD, "dc"), {}),
    "probe: 3": ((GOOD, "cc"), {"probe": [[-1.0, -1.0, -1.0]]}),
    "probe: NaN in row 0, label 1 (1 in all)": ((GOOD, "cc"), {"probe": [[-1.0, np.nan]]}),
    "probe or labeled: shape": ((np.zeros((2, 3, 2)), "cc"), {"probe": np.zeros((3, 1, 2))}),
    "bcl learns from a labeled set, but labels": ((GOOD, "bcl"), {"labeled": GOOD}),
    "bcl learns from a labeled set, but labeled": ((GOOD, "bcl"), {"labels": [0]}),
    "labels: 2 in row 2": ((GOOD, "bcl"), {"labeled": GOOD, "labels": [0, 1, 2]}),
    "labels: (2,)": ((GOOD, "bcl"), {"labeled": GOOD, "labels": [0, 1]}),
    "labels: list of <U3": ((GOOD, "bcl"), {"labeled": GOOD, "labels": ["yes", "no", "yes"]}),
    "labels: list (setting an array element": ((GOOD, "bcl"), {**LABELED, "labels": [[0], [0, 1]]}),
    "labels: expected at least one known label;": ((GOOD, "bcl"), {**LABELED, "labels": [-1] * 3}),
    "labels: expected at least one known label in": (([GOOD, GOOD], "bcl"), HALF_KNOWN),
    "target_prior: (1.0,)": ((GOOD,), {"target_prior": (1.0,)}),
    "target_prior: (0.8, 0.8)": ((GOOD,), {"target_prior": (0.8, 0.8)}),
    "target_prior: 'abc'": ((GOOD,), {"target_prior": "abc"}),
    "target_prior: [[1.0], [0.5, 0.5]]": ((GOOD,), {"target_prior": [[1.0], [0.5, 0.5]]}),
    "metric: f1": ((GOOD, "bcl"), {**LABELED, "metric": "f1"}),
    "bias_from: labelled": ((GOOD, "bcl"), {**LABELED, "bias_from": "labelled"}),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_bad_input_is_answered_in_a_sentence(case, refuses):
    arguments, named = SENTENCES[case]
    error = refuses(calibrate, *arguments, **named)
    text = f"{error.where or error.key}: {error.got}" if error.got else str(error)
    assert text.startswith(case)


@pytest.mark.parametrize("floor", [np.nan, -np.inf, -1e39, 0.0, 5, "x", [-1.0, -2.0]])
def test_a_floor_is_a_finite_number_below_zero(floor, refuses):
    assert refuses(calibrate, GOOD, floor=floor).where == "floor"


@pytest.mark.parametrize("key", [0.5, "a", 2**80, 2**40, jax.random.split(jax.random.key(0))])
def test_a_key_is_one_key_or_a_seed(key, refuses):
    assert refuses(calibrate, GOOD, "pc", key=key).where == "key"


def test_the_face_says_what_it_has_not():
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        _ = batch_calibration.colour

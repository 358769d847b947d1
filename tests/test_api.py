"""`calibrate`: what it gives, and one test for each sentence it answers with."""

import sys
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import batch_calibration
from batch_calibration import METHODS, InputError, calibrate
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


def test_every_method_goes_through(rows):
    scores, gold = rows
    for name, method in METHODS.items():
        orders = scores.shape[-1] if method.probe.in_orders else 1
        probe = np.tile(np.asarray(scores), (orders, 1))
        needs = {
            "probe": probe if set(method.probe.blocks) - {"test", "labeled"} else None,
            "labeled": scores if "labeled" in method.probe.blocks else None,
            "labels": gold if method.probe.labels else None,
            "key": 0 if method.needs_key else None,
        }
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
    cut, lifted = [[-1.0, -np.inf], [-2.0, -2.5]], [[-1.0, -20.0], [-2.0, -2.5]]
    np.testing.assert_allclose(calibrate(cut, floor=-20.0), calibrate(lifted), atol=1e-6)


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
SENTENCES = {
    "not an array": (
        (["a", "b"],),
        {},
        r"scores: expected real numbers in an array \[n, k\].*got list",
    ),
    "ragged": (([[-1.0], [-1.0, -2.0]],), {}, "that is not one: give one row per input"),
    "complex": (
        (np.array(GOOD) + 1j,),
        {},
        "scores: expected real numbers.*got ndarray of complex128 that is no",
    ),
    "one axis": (([-1.0, -2.0],), {}, r"expected an array \[n, k\].*got shape \(2,\): reshape it"),
    "no rows": ((np.zeros((0, 2)),), {}, r"at least one row.*got shape \(0, 2\)"),
    "one label": (([[-1.0], [-2.0]],), {}, "at least 2 labels; got 1 column"),
    "nan": (([[-1.0, -2.0], [-1.0, np.nan]],), {}, r"got NaN in row 1, label 1 \(1 in all\)"),
    "nan in a context": (
        (np.full((2, 2, 2), np.nan),),
        {},
        r"got NaN in context \(0,\), row 0, label 0 \(8 in all\)",
    ),
    "minus infinity": (
        ([[-1.0, -np.inf]],),
        {},
        "got -inf in row 0, label 1.*give missing='least'",
    ),
    "plus infinity": (([[-1.0, np.inf]],), {"floor": -9.0}, r"got \+inf in row 0.*at most 0"),
    "method that is no name": ((GOOD, ["bc"]), {}, "no method named .*'bc'.*; did you mean 'bc'"),
    "unknown method": ((GOOD, "bcx"), {}, "no method named 'bcx'; did you mean 'bc'"),
    "unknown option": (
        (GOOD,),
        {"strenght": 0.5},
        "no option of bc named 'strenght'; did you mean 'strength'",
    ),
    "strength that is no number": (
        (GOOD,),
        {"strength": "a"},
        r"strength: expected a finite number; got 'a': give one such as strength=1\.0",
    ),
    "strength that is nan": ((GOOD,), {"strength": np.nan}, "a finite number; got nan"),
    "strength beyond float32": ((GOOD,), {"strength": 1e39}, r"a finite number; got 1e\+39"),
    "strength per label": ((GOOD,), {"strength": [1.0, 0.5]}, r"a finite number; got \[1.0, 0.5\]"),
    "batch size that is no whole number": (
        (GOOD, "bc_running"),
        {"batch_size": 1.5},
        "batch_size: expected a whole number; got 1.5: give one such as batch_size=32",
    ),
    "batch size that is a word": ((GOOD, "bc_running"), {"batch_size": "a"}, "number; got 'a'"),
    "batch size of no row": ((GOOD, "bc_running"), {"batch_size": 0}, "batch_size is 0: give a"),
    "flag that is a word": (
        (GOOD, "bc_running"),
        {"per_batch": "no"},
        "per_batch: expected True or False; got 'no': give one such as per_batch=False",
    ),
    "logits for what reads their level": (
        (-np.asarray(GOOD), "pc_raw"),
        {"key": 0, "from_probs": False},
        "scores: pc_raw needs log-probabilities over the whole vocabulary, and the probabilities",
    ),
    "logits for an option that reads their level": (
        (-np.asarray(GOOD), "pc"),
        {"key": 0, "features": "raw", "from_probs": False},
        "or use pc with its defaults, which takes any",
    ),
    "metric that is no name": (
        (GOOD, "bcl"),
        {**LABELED, "metric": ["f1"]},
        r"metric: expected a name; got \['f1'\]: give one such as metric='accuracy'",
    ),
    "no start": (
        (GOOD, "pc"),
        {"key": 0, "starts": 0},
        "starts is 0, steps is 100 and searched is 131072: give whole numbers from 1 on",
    ),
    "start means of another shape": (
        (GOOD, "pc"),
        {"start_means": np.zeros((3, 2))},
        r"start_means: expected finite numbers \[s, 2, 2\].*got shape \(3, 2\): give s times 2",
    ),
    "start means that are words": (
        (GOOD, "pc"),
        {"start_means": "abc"},
        "each of s starts; got str",
    ),
    "probe of logits for a method of probabilities": (
        (GOOD, "cc_original"),
        {"probe": [[-1.0, -2.0], [0.5, -1.0]]},
        "needs log-probabilities over the whole vocabulary, and the probabilities of row 1 sum to "
        r"2\.02: give these, or use cc",
    ),
    "probe for a method that reads none": (
        (GOOD,),
        {"probe": GOOD},
        "probe: expected none, for bc reads the test batch itself.*got list: leave probe= out",
    ),
    "labeled for a method that reads none": (
        (GOOD, "icl"),
        {"labeled": GOOD},
        "labeled: expected none, for icl reads nothing: the scores stay as they are; got list",
    ),
    "labels for a method that reads none": (
        (GOOD, "cc"),
        {"probe": GOOD, "labels": [0, 1, 0]},
        "labels: expected none, for cc reads N/A.*leave labels= out",
    ),
    "cc without a probe": ((GOOD, "cc"), {}, r"cc learns its bias from probe prompts.*probe=\[m"),
    "dc without a probe": ((GOOD, "dc"), {}, "dc learns its bias from probe prompts"),
    "probe of another width": (
        (GOOD, "cc"),
        {"probe": [[-1.0, -1.0, -1.0]]},
        "probe: expected 2 columns, one per label as in scores; got 3",
    ),
    "probe with nan": ((GOOD, "cc"), {"probe": [[-1.0, np.nan]]}, "probe: .*got NaN in row 0"),
    "probe of other contexts": (
        (np.zeros((2, 3, 2)), "cc"),
        {"probe": np.zeros((3, 1, 2))},
        r"leading axes \(2,\) as in scores; got shape \(3, 1, 2\)",
    ),
    "bcl without labels": ((GOOD, "bcl"), {"labeled": GOOD}, "labels did not come: give"),
    "bcl without a labeled set": ((GOOD, "bcl"), {"labels": [0]}, "labeled did not come: give"),
    "labels out of range": (
        (GOOD, "bcl"),
        {"labeled": GOOD, "labels": [0, 1, 2]},
        "labels: expected indices from 0 to 1, or -1 for unknown; got 2 in row 2",
    ),
    "labels of another length": (
        (GOOD, "bcl"),
        {"labeled": GOOD, "labels": [0, 1]},
        r"one label per row, shape \(3,\); got \(2,\)",
    ),
    "labels that are words": (
        (GOOD, "bcl"),
        {"labeled": GOOD, "labels": ["yes", "no", "yes"]},
        "labels: expected an array of whole numbers.*got list of <U3 that is not one",
    ),
    "ragged labels": (
        (GOOD, "bcl"),
        {**LABELED, "labels": [[0], [0, 1]]},
        "labels: expected an arr",
    ),
    "all labels unknown": (
        (GOOD, "bcl"),
        {"labeled": GOOD, "labels": [-1, -1, -1]},
        "all 3 came as -1, unknown: give the label of at least one row",
    ),
    "all labels of one context unknown": (
        ([GOOD, GOOD], "bcl"),
        {"labeled": [GOOD, GOOD], "labels": [[0, 1, 0], [-1, -1, -1]]},
        r"at least one known label in context \(1,\); all 3 came as -1",
    ),
    "pc without a key": ((GOOD, "pc"), {}, "no key came: give .* key=0 to calibrate"),
    "prior of another length": (
        (GOOD,),
        {"target_prior": (1.0,)},
        r"target_prior: expected 2 shares of at least 0 that sum to 1.*got \(1.0,\)",
    ),
    "prior that is none": (
        (GOOD,),
        {"target_prior": (0.8, 0.8)},
        "shares of at least 0 that sum to 1",
    ),
    "prior that is a word": (
        (GOOD,),
        {"target_prior": "abc"},
        "at least 0 that sum to 1.*got 'abc'",
    ),
    "ragged prior": ((GOOD,), {"target_prior": [[1.0], [0.5, 0.5]]}, "target_prior: expected 2"),
    "unknown metric": (
        (GOOD, "bcl"),
        {**LABELED, "metric": "f1"},
        "no metric named 'f1'; did you mean 'macro_f1'",
    ),
    "unknown bias_from": (
        (GOOD, "bcl"),
        {**LABELED, "bias_from": "labelled"},
        "no bias_from named 'labelled'; did you mean 'labeled'",
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_bad_input_is_answered_in_a_sentence(case):
    arguments, named, sentence = SENTENCES[case]
    with pytest.raises(InputError, match=sentence) as caught:
        calibrate(*arguments, **named)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("floor", [np.nan, -np.inf, -1e39, 0.0, 5, "x", [-1.0, -2.0]])
def test_a_floor_is_a_finite_number_below_zero(floor, refuses):
    refuses(calibrate, GOOD, floor=floor)


@pytest.mark.parametrize("key", [0.5, "a", 2**80, 2**40, jax.random.split(jax.random.key(0))])
def test_a_key_is_one_key_or_a_seed(key):
    with pytest.raises(InputError, match=r"key: expected one jax.random key or an int seed of at"):
        calibrate(GOOD, "pc", key=key)


def test_bcl_fitted_without_labels_is_a_sentence(refuses):
    refuses(METHODS["bcl"].make().fit, jnp.zeros((2, 2)))


def test_the_face_says_what_it_has_not():
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        _ = batch_calibration.colour


def test_score_table_comes_when_asked_for():
    assert batch_calibration.ScoreTable.__name__ == "ScoreTable"

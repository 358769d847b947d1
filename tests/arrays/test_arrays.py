"""Whatever comes as an array is read in one place: numbers are taken, all else is a sentence."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from batch_calibration import (
    METHODS,
    InputError,
    accuracy,
    calibrate,
    compare,
    diagnose,
    metrics,
    predict,
    summary,
)
from batch_calibration.arrays.missing_scores import LARGEST
from batch_calibration.arrays.numbers import check_key
from batch_calibration.calibration.running import empty, update
from batch_calibration.estimator import LabelBiasCorrector
from batch_calibration.layer import BatchCalibration
from batch_calibration.methods import fit
from batch_calibration.metrics import decision_margin
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import run_calibration

ROWS = [[-1.0, -3.0], [-2.0, -2.5]] * 5
GOLD = [0, 1] * 5
BC = METHODS["bc"].make()
STATE = BC.fit(ROWS)


# Every public function that takes scores.
def _indices(labels):
    """Predicted labels as columns: of a frame they are names."""
    return labels.map({"no": 0, "yes": 1}) if str(getattr(labels, "dtype", "")) == "str" else labels


DOORS = {
    "calibrate": calibrate,
    "probe": lambda x: calibrate(ROWS, "cc", probe=x),
    "labeled": lambda x: calibrate(ROWS, "bcl", labeled=x, labels=GOLD),
    "estimator": lambda x: LabelBiasCorrector().fit(x),
    "transform": lambda x: LabelBiasCorrector().fit(ROWS).transform(x),
    "fit": lambda x: BC.fit(x),
    "apply": lambda x: BC.apply(STATE, x),
    "block": lambda x: fit(METHODS["bc"], {"test": (x,)}),
    "predict": lambda x: _indices(predict(x)),
    "accuracy": lambda x: accuracy(x, GOLD),
    "summary": lambda x: summary(x, GOLD),
    "bootstrap": lambda x: metrics.bootstrap_interval(accuracy, x, GOLD, jax.random.key(0)),
    "update": lambda x: update(empty(2), x),
    "layer": lambda x: BatchCalibration(2)(x),
    "margin": lambda x: decision_margin(BC, STATE, x),
    "make_block": make_block,
}
REFUSED = {
    "ndarray of bool": np.asarray(ROWS) < -2,
    "ndarray of complex128": np.asarray(ROWS) + 1j,
    "ndarray of datetime64[s]": np.asarray(ROWS).astype("datetime64[s]"),
    "ndarray of timedelta64[s]": np.asarray(ROWS).astype("timedelta64[s]"),
    "list of <U4": [["-1.0", "-3.0"]] * 10,
    "ndarray of [('a', '<f4'), ('b', '<f4')]": np.zeros(10, [("a", "f4"), ("b", "f4")]),
    "ndarray of object": np.array([[None, -1.0]] * 10),
    "list (setting an array element": [[-1.0], [-1.0, -2.0]],
    "MaskedArray with 5 masked entries": np.ma.masked_less(ROWS, -2.9),
    "MaskedArray of [('f0', '<f4'), ": np.ma.zeros((2, 2), "f4,f4"),
    "str of <U3": "abc",
    "shape (0, 2)": np.zeros((0, 2)),
}


# One reader is behind all doors: each kind at one door, and one kind at each.
CASES = [*product(["accuracy"], REFUSED), *product(DOORS, ["list (setting an array element"])]
ARGUMENTS = {"probe": "probe", "labeled": "labeled", "estimator": "X", "transform": "X"}
ARGUMENTS |= {"margin": "boundary", "make_block": "log_probs"}


@pytest.mark.parametrize(("door", "kind"), CASES)
def test_what_is_no_array_of_numbers_is_refused_at_every_door(door, kind, refuses):
    error = refuses(DOORS[door], REFUSED[kind])
    assert error.where == ARGUMENTS.get(door, "scores") and error.got.startswith(kind)


class Tensor:
    """Shares its numbers by numpy's protocol alone, as torch and polars do."""

    def __array__(self, dtype=None, copy=None):
        return np.asarray(ROWS, dtype)


@pytest.mark.parametrize(
    "array",
    [
        ROWS,
        np.asarray(ROWS, np.float16),
        np.asarray(ROWS, object),
        np.ma.array(ROWS),
        jnp.asarray(ROWS, jnp.bfloat16),
        [jnp.asarray(row) for row in ROWS],
        pd.DataFrame(ROWS, columns=["no", "yes"]),
        pd.DataFrame(ROWS, dtype="Float64"),
        Tensor(),
    ],
    ids=lambda given: type(given).__name__,
)
@pytest.mark.filterwarnings("ignore:X has feature names, but LabelBiasCorrector:UserWarning")
@pytest.mark.parametrize("door", DOORS)
def test_every_array_of_numbers_is_taken_at_every_door(door, array):
    answers = [DOORS[door](x) for x in (array, np.asarray(ROWS, np.float32))]
    for got, expected in zip(*map(jax.tree.leaves, answers), strict=True):
        if isinstance(expected, jax.Array | np.ndarray | float):
            np.testing.assert_allclose(np.asarray(got, np.float32), expected, atol=1e-6)


def test_whole_numbers_are_scores_too():
    np.testing.assert_allclose(BC.apply(BC.fit([[-1, -3], [-2, -2]]), [[-1, -3]]), [[0.5, -0.5]])
    assert predict([[0, 1], [3, 2]]).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "weight", "got"),
    [
        ([0.0] * 10, None, "list of float64"),
        (["no"] * 10, None, "list of <U2"),
        ([2**40] * 10, None, "list of int64"),
        (np.ma.masked_equal(GOLD, 1), None, "MaskedArray with 5 masked entries"),
        ([0], None, "(1,)"),
        (GOLD, [1.0], "(1,)"),
        (GOLD, ["a"] * 10, "list of <U1"),
    ],
)
def test_labels_and_weights_are_read_with_the_scores(labels, weight, got, refuses):
    for door in (accuracy, summary, metrics.nll, METHODS["bcl"].make().fit):
        error = refuses(door, ROWS, labels, weight)
        assert (error.where, error.got) == ("weight" if weight else "labels", got)


def test_a_mask_is_a_weight():
    mask = np.arange(10) < 5
    expected = accuracy(ROWS, GOLD, mask.astype(np.float32))
    assert accuracy(ROWS, GOLD, mask) == expected
    np.testing.assert_array_equal(BC.fit(ROWS, None, mask).bias, BC.fit(ROWS[:5]).bias)


SENTINELS = [np.finfo(np.float32).min, -2 * LARGEST, -1e300, -np.inf]


@pytest.mark.parametrize("low", SENTINELS)
def test_a_sentinel_is_refused_or_raised_to_the_floor_like_minus_infinity(low, refuses):
    rows = np.array(ROWS)
    rows[3, 1] = low
    lifted = np.where(rows == low, -50.5, rows)
    table = ScoreTable({}, ("no", "yes"), {"test": make_block(rows, GOLD)})
    for door in (calibrate, LabelBiasCorrector().fit, lambda x: run_calibration([table], ["bc"])):
        assert "in row 3, label 1 (1 in all)" in refuses(door, rows).got
    np.testing.assert_array_equal(calibrate(rows, floor=-50.5), calibrate(lifted))
    (record,) = run_calibration([table], ["bc"], floor=-50.5)
    np.testing.assert_allclose(record.methods["bc"].bias, lifted.mean(0), rtol=1e-6)


@pytest.mark.parametrize("high", [np.finfo(np.float32).max, 2 * LARGEST, np.inf])
def test_a_sentinel_above_is_refused_whatever_the_floor(high, refuses):
    rows = np.array(ROWS)
    rows[3, 1] = high
    assert refuses(calibrate, rows, floor=-50.0).got.startswith("+")
    table = ScoreTable({}, ("no", "yes"), {"test": make_block(rows, GOLD)})
    error = refuses(run_calibration, [table], ["bc"], floor=-50.0)
    assert f"row 3, label 'yes' is {high}" in str(error)


def test_predictions_or_labels_that_are_traced_are_refused_each_by_itself(refuses):
    guess, gold = jnp.array([0, 1, 1]), jnp.array([0, 1, 0])
    for judge in (lambda x: metrics.accuracy(x, gold), lambda x: metrics.accuracy(guess, x)):
        assert "traced by jax.jit or jax.vmap" in str(refuses(jax.jit(judge), guess))


@pytest.mark.parametrize("seed", [-(2**31), 2**32 - 1])
def test_a_seed_has_32_bits(seed):
    assert check_key(seed) == jax.random.key(seed)
    with pytest.raises(InputError, match="32 bits"):
        check_key(seed + (1 if seed > 0 else -1))


def test_rows_of_weight_zero_have_no_known_label():
    scores, labels = np.array([[0.0, -1.0], [-1.0, 0.0]]), np.array([0, 1])
    assert accuracy(scores, labels, weight=np.array([1.0, 0.0])) == 1.0
    assert np.isnan(accuracy(scores, labels, weight=np.zeros(2)))


@pytest.mark.parametrize(("k", "got"), [(2, "-1 to 1"), (3, "-1 to 1"), (4, "-1 to 2")])
def test_labels_counted_from_minus_one(k, got, refuses):
    rows = np.log(np.random.default_rng(0).dirichlet(np.ones(k), 80))
    labels = np.arange(80) % k - 1 if k > 2 else np.arange(80) % 2 * 2 - 1
    for door in (metrics.accuracy, diagnose, compare):
        error = refuses(door, rows, labels)
        assert error.where == "labels" and error.got.startswith(f"{got}, where -1 may")
    # A few known labels without the last one are no sign, and neither are all labels with -1.
    assert np.isfinite(metrics.accuracy(rows[:9], labels[:9]))
    assert np.isfinite(metrics.accuracy(rows, np.where(labels < 0, 0, -1 + k)))

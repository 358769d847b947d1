"""The table of methods as a scikit-learn estimator."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from batch_calibration import METHODS, calibrate
from batch_calibration.errors import InputError
from batch_calibration.estimator import LabelBiasCorrector


@pytest.fixture(scope="module")
def rows(planted):
    scores, gold, _ = planted(60, 3)
    return np.asarray(scores, np.float64), np.asarray(gold)


@pytest.mark.parametrize(
    "name",
    [name for name in METHODS if not (METHODS[name].needs_key or METHODS[name].probe.labels)],
)
def test_transform_is_fit_and_apply(name, rows):
    made = METHODS[name].make()
    scores = np.asarray(rows[0], np.float32)
    expected = made.apply(made.fit(scores), scores)
    got = LabelBiasCorrector(name).fit(rows[0]).transform(rows[0])
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_predict_and_score(rows):
    scores, gold = rows
    corrector = LabelBiasCorrector().fit(scores)
    np.testing.assert_array_equal(corrector.predict(scores), np.argmax(calibrate(scores), -1))
    assert corrector.score(scores, gold) == pytest.approx(
        np.mean(corrector.predict(scores) == gold)
    )
    assert corrector.classes_.tolist() == [0, 1, 2]


def test_bcl_reads_labels(rows):
    scores, gold = rows
    half = np.where(np.arange(60) < 30, -1, gold)
    learned = LabelBiasCorrector("bcl").fit(scores, half)
    np.testing.assert_allclose(learned.state_.bias, scores[:30].mean(0), rtol=1e-5)
    everything = LabelBiasCorrector("bcl").fit(scores, gold)
    np.testing.assert_allclose(everything.state_.bias, scores.mean(0), rtol=1e-5)


def test_pc_takes_a_seed(rows):
    one, other = (
        LabelBiasCorrector("pc", {"starts": 4}, random_state=7).fit(rows[0]).predict(rows[0])
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, other)


def test_it_clones_and_sits_in_a_pipeline(rows):
    scores, _ = rows
    corrector = clone(LabelBiasCorrector("bc", {"strength": 0.5}))
    assert corrector.get_params()["options"] == {"strength": 0.5}
    piped = make_pipeline(FunctionTransformer(np.log), corrector).fit(np.exp(scores))
    expected = calibrate(scores, strength=0.5)
    np.testing.assert_allclose(piped.transform(np.exp(scores)), expected, atol=1e-5)


def test_it_lifts_minus_infinity_to_the_floor(rows):
    cut = rows[0].copy()
    cut[0, 0] = -np.inf
    corrected = LabelBiasCorrector(options={"floor": -50.0}).fit(cut).transform(cut)
    np.testing.assert_allclose(corrected, calibrate(cut, floor=-50.0), atol=1e-6)


REFUSED = {
    "unknown option": ("bc", {"strenght": 1}, "no option of bc named 'strenght'; did you mean"),
    "prior of another length": ("bc", {"target_prior": (1.0,)}, "expected 3 positive shares"),
    "prior below zero": ("bc", {"target_prior": (-1.0, 1.0, 1.0)}, "expected 3 positive shares"),
    "strength that is nan": ("bc", {"strength": np.nan}, "strength: expected a finite number"),
    "floor above zero": ("bc", {"floor": 5.0}, "floor: expected a finite number of nats below 0"),
    "method that is no name": (["bc"], None, "no method named .*; did you mean 'bc'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_are_checked_as_by_calibrate(case, rows):
    method, options, sentence = REFUSED[case]
    with pytest.raises(InputError, match=sentence):
        LabelBiasCorrector(method, options).fit(rows[0])


def test_labels_all_unknown_a_third_axis_and_a_seed_that_is_none_are_refused(rows):
    scores, gold = rows
    with pytest.raises(InputError, match="y: expected at least one known label; all 60 came as -1"):
        LabelBiasCorrector("bcl").fit(scores, np.full_like(gold, -1))
    with pytest.raises(InputError, match=r"X: expected one context.*got shape \(1, 60, 3\)"):
        LabelBiasCorrector().fit(scores[None])
    with pytest.raises(InputError, match=r"random_state: expected one jax.random key or an int"):
        LabelBiasCorrector("pc", random_state=0.5).fit(scores)


def test_unfitted_wrong_width_and_nan_are_refused(rows):
    with pytest.raises(NotFittedError):
        LabelBiasCorrector().transform(rows[0])
    with pytest.raises(InputError, match="X: expected 3 columns"):
        LabelBiasCorrector().fit(rows[0]).transform(rows[0][:, :2])
    with pytest.raises(InputError, match="X: expected finite log-probabilities; got NaN in row 0"):
        LabelBiasCorrector().fit(rows[0] * np.nan)

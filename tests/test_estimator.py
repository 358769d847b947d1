"""The table of methods as a scikit-learn estimator."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from batch_calibration import METHODS, calibrate
from batch_calibration.estimator import LabelBiasCorrector


@pytest.fixture(scope="module")
def rows(planted):
    scores, gold, _ = planted(60, 3)
    return np.asarray(scores, np.float64), np.asarray(gold)


PLAIN = [name for name, row in METHODS.items() if not (row.needs_key or row.probe.labels)]


@pytest.mark.parametrize("name", PLAIN)
def test_transform_is_fit_and_apply(name, planted):
    calibrator = METHODS[name].make()
    scores = np.asarray(planted(24, 3)[0])  # the contract's shape, whose programs are there
    expected = calibrator.apply(calibrator.fit(scores), scores)
    rows = scores.astype(np.float64)
    got = LabelBiasCorrector(name).fit(rows).transform(rows)
    np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].own_rows])
def test_a_method_of_its_own_rows_refuses_others(name, rows, refuses):
    fitted = LabelBiasCorrector(name).fit(rows[0])
    for unseen in (rows[0][:20], rows[0][::-1]):
        assert refuses(fitted.transform, unseen).got == f"{len(unseen)} different rows"


def test_predict_and_score(rows):
    scores, gold = rows
    corrector = LabelBiasCorrector().fit(scores)
    np.testing.assert_array_equal(corrector.predict(scores), np.argmax(calibrate(scores), -1))
    right = np.mean(corrector.predict(scores) == gold)
    assert corrector.score(scores, gold) == pytest.approx(right)
    assert corrector.classes_.tolist() == [0, 1, 2]


def test_bcl_reads_labels(rows):
    scores, gold = rows
    half = np.where(np.arange(60) < 30, -1, gold)
    learned = LabelBiasCorrector("bcl").fit(scores, half)
    np.testing.assert_allclose(learned.state_.bias, scores[:30].mean(0), rtol=1e-5)
    everything = LabelBiasCorrector("bcl").fit(scores, gold)
    np.testing.assert_allclose(everything.state_.bias, scores.mean(0), rtol=1e-5)


def test_pc_takes_a_seed(rows):
    fits = [LabelBiasCorrector("pc", {"starts": 4}, random_state=7).fit(rows[0]) for _ in range(2)]
    np.testing.assert_array_equal(*(fitted.predict(rows[0]) for fitted in fits))


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


def test_options_are_checked_as_by_calibrate(rows, refuses):
    assert refuses(LabelBiasCorrector("bc", {"strenght": 1}).fit, rows[0]).got == "strenght"


def test_labels_all_unknown_a_third_axis_and_a_seed_that_is_none_are_refused(rows, refuses):
    scores, gold = rows
    assert refuses(LabelBiasCorrector("bcl").fit, scores, np.full_like(gold, -1)).where == "y"
    assert refuses(LabelBiasCorrector().fit, scores[None]).got == "shape (1, 60, 3)"
    drawing = LabelBiasCorrector("pc", random_state=0.5)
    assert refuses(drawing.fit, scores).where == "random_state"


def test_unfitted_wrong_width_and_sparse_are_refused(rows, refuses):
    with pytest.raises(NotFittedError):
        LabelBiasCorrector().transform(rows[0])
    for few in (rows[0][:, :2], rows[0][:, :2].tolist()):
        with pytest.raises(ValueError, match="X has 2 features, but LabelBiasCorrector is expecti"):
            LabelBiasCorrector().fit(rows[0]).transform(few)
    assert refuses(LabelBiasCorrector().fit, csr_array(rows[0])).got == "a sparse csr_array"


OURS = "it is refused, in a sentence of ours, which is not the one that the check asks for: "
FAILS = {
    "check_complex_data": OURS + "complex numbers are no log-probabilities",
    "check_dtype_object": OURS + "an InputError, where the check asks for a TypeError",
    "check_estimators_empty_data_messages": OURS + "no column is no label",
    "check_fit2d_1feature": OURS + "one column is one label, with nothing to choose from",
    "check_fit2d_predict1d": OURS + "one row is an array [1, k]",
    "check_classifiers_one_label": "its labels are the columns of X, whatever y has, so "
    "that it may predict one that y never has",
    "check_classifiers_classes": "X has 2 columns there and y 3 texts, so that one has no column",
    "check_classifiers_train": "X has 2 columns there and y 3 classes: a decision function of a "
    "value per column has no third",
}
# Of bcl, which reads y, each class has to have a column.
COLUMN = "X has 2 columns there and y 3 classes, of which one has no scores to learn from"
FAILS_OF_BCL = FAILS | {"check_readonly_memmap_input": COLUMN}
FAILS_OF_BCL |= {"check_estimators_overwrite_params": COLUMN}
FAILS_OF_BCL |= {"check_estimators_fit_returns_self": COLUMN}


@pytest.mark.slow_except("bcl-*")
@pytest.mark.filterwarnings("ignore:X. bc:UserWarning", "ignore:y. the class 2 has no:UserWarning")
@pytest.mark.parametrize(("method", "fails"), [("bc", FAILS), ("bcl", FAILS_OF_BCL)])
def test_scikit_learn_s_checks_pass_but_those_that_are_named(method, fails):
    # Its numbers from 0 to 1 are no probabilities.
    checked = LabelBiasCorrector(method, from_probs=False)
    how = {"expected_failed_checks": fails, "on_skip": None, "on_fail": "raise"}
    done = check_estimator(checked, **how)
    assert {check["check_name"] for check in done if check["status"] == "xfail"} == set(fails)
    skipped = {check["check_name"] for check in done if check["status"] == "skipped"}
    # SCIPY_ARRAY_API is set by nobody; older versions of scikit-learn have no such check.
    assert skipped == {"check_array_api_input"} & {check["check_name"] for check in done}


FITTED = {
    "bc": {},
    "pc": {"random_state": 0, "options": {"starts": 3}},
    "bcl": {"metric": "macro_f1"},
    "bc_running": {"options": {"batch_size": 7}},
    "bc_prob_shift": {"strength": 0.5, "floor": -9.0},
}


@pytest.mark.parametrize("method", FITTED)
def test_it_is_pickled_whatever_its_method(method, rows, tmp_path):
    scores, gold = rows
    fitted = LabelBiasCorrector(method, **FITTED[method]).fit(scores, gold)
    joblib.dump(fitted, tmp_path / "corrector.joblib")
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "corrector.joblib")):
        np.testing.assert_array_equal(copy.transform(scores), fitted.transform(scores))
        assert copy.get_params() == fitted.get_params()


def test_what_was_fitted_does_not_change_with_the_parameters(rows):
    scores, _ = rows
    fitted = LabelBiasCorrector(strength=0.5).fit(scores)
    before = fitted.transform(scores)
    fitted.set_params(strength=1.0, method="icl")
    np.testing.assert_array_equal(fitted.transform(scores), before)
    np.testing.assert_allclose(before, calibrate(scores, strength=0.5), atol=1e-6)


def test_options_are_parameters_and_go_before_those_of_the_mapping(rows, refuses):
    scores, _ = rows
    prior = (0.5, 0.3, 0.2)
    fitted = LabelBiasCorrector("bc", {"strength": 0.1}, strength=0.5, target_prior=prior)
    expected = calibrate(scores, strength=0.5, target_prior=prior)
    np.testing.assert_allclose(fitted.fit(scores).transform(scores), expected, atol=1e-6)
    assert refuses(LabelBiasCorrector("bc", metric="accuracy").fit, scores).got == "metric"


def test_a_grid_of_strengths_and_folds(rows):
    scores, gold = rows
    grid = GridSearchCV(LabelBiasCorrector(), {"strength": [0.0, 0.5, 1.0]}, cv=3)
    grid.fit(scores, gold)
    means = grid.cv_results_["mean_test_score"]
    for strength, mean in zip((0.0, 0.5, 1.0), means, strict=True):
        alone = cross_val_score(LabelBiasCorrector(strength=strength), scores, gold, cv=3)
        assert mean == pytest.approx(alone.mean())
    assert grid.best_params_["strength"] == (0.0, 0.5, 1.0)[int(np.argmax(means))]
    assert means[2] > means[0]
    piped = make_pipeline(FunctionTransformer(np.log), LabelBiasCorrector())
    grid = GridSearchCV(piped, {"labelbiascorrector__strength": [0.0, 1.0]}, cv=3)
    assert grid.fit(np.exp(scores), gold).best_params_ == {"labelbiascorrector__strength": 1.0}


def test_probabilities_and_the_decision_of_two_labels(rows):
    scores, gold = rows
    fitted = LabelBiasCorrector().fit(scores)
    odds = np.exp(fitted.transform(scores).astype(np.float64))
    expected = odds / odds.sum(-1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(scores), expected, atol=1e-6)
    np.testing.assert_array_equal(fitted.decision_function(scores), fitted.transform(scores))
    auc = get_scorer("roc_auc_ovr")(fitted, scores, gold)
    assert auc == pytest.approx(roc_auc_score(gold, expected, multi_class="ovr"))
    two, labels = scores[gold < 2, :2], gold[gold < 2]
    fitted = LabelBiasCorrector().fit(two, labels)
    decision = fitted.decision_function(two)
    assert decision.shape == (len(two),)
    np.testing.assert_array_equal(fitted.predict(two), (decision > 0).astype(int))
    auc = get_scorer("roc_auc")(fitted, two, labels)
    assert auc == pytest.approx(roc_auc_score(labels, decision))


NAMES = np.array(["no", "perhaps", "yes"])


def test_frames_in_and_out(rows, refuses):
    scores, gold = rows
    frame = pd.DataFrame(scores, columns=NAMES[::-1], index=np.arange(60) + 100)
    fitted = LabelBiasCorrector().fit(frame)
    assert fitted.feature_names_in_.tolist() == NAMES[::-1].tolist() and fitted.n_features_in_ == 3
    assert fitted.get_feature_names_out().tolist() == NAMES[::-1].tolist()
    assert isinstance(fitted.transform(frame), np.ndarray)
    for kind, frame_in in (("pandas", frame), ("polars", pl.from_pandas(frame))):
        moved = LabelBiasCorrector().set_output(transform=kind).fit_transform(frame_in)
        assert type(moved) is type(frame_in) and list(moved.columns) == NAMES[::-1].tolist()
        np.testing.assert_allclose(moved.to_numpy(), calibrate(scores), atol=1e-6)
    shown = LabelBiasCorrector().set_output(transform="pandas").fit_transform(frame)
    pd.testing.assert_index_equal(shown.index, frame.index)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(frame[["no", "yes", "perhaps"]])
    assert "column 'label'" in refuses(LabelBiasCorrector().fit, frame.assign(label=gold)).got


def test_classes_are_names_of_columns_or_numbers_or_given(rows):
    scores, gold = rows
    frame = pd.DataFrame(scores, columns=NAMES[::-1])
    named = LabelBiasCorrector().fit(frame, NAMES[::-1][gold])
    assert named.column_classes_.tolist() == NAMES[::-1].tolist()
    in_order = LabelBiasCorrector(classes=NAMES).fit(scores, NAMES[gold])
    assert in_order.classes_.tolist() == NAMES.tolist()
    chosen = LabelBiasCorrector(classes=NAMES[::-1]).fit(scores)
    columns = LabelBiasCorrector().fit(scores, gold).predict(scores)
    for fitted in (named, in_order, chosen):
        given = frame if hasattr(fitted, "feature_names_in_") else scores
        np.testing.assert_array_equal(fitted.predict(given), fitted.column_classes_[columns])
    assert named.score(frame, NAMES[::-1][gold]) == np.mean(columns == gold)
    assert LabelBiasCorrector().fit(scores, gold * 10 + 5).classes_.tolist() == [5, 15, 25]
    assert LabelBiasCorrector().fit(scores, gold.astype(float)).classes_.tolist() == [0, 1, 2]


def test_metrics_do_not_depend_on_the_order_of_columns(rows):
    scores, gold = rows
    for k in (2, 3):
        kept, y = scores[gold < k, :k], NAMES[gold[gold < k]]
        frame = pd.DataFrame(kept, columns=NAMES[:k])
        by_order = []
        for columns in (frame, frame[frame.columns[::-1]]):
            fitted = LabelBiasCorrector().fit(columns, y)
            assert fitted.classes_.tolist() == NAMES[:k].tolist()
            metrics = ("neg_log_loss", "roc_auc" if k == 2 else "roc_auc_ovr", "accuracy")
            by_order.append([get_scorer(name)(fitted, columns, y) for name in metrics])
            best = fitted.predict_proba(columns).argmax(axis=1)
            np.testing.assert_array_equal(fitted.classes_[best], fitted.predict(columns))
        np.testing.assert_allclose(*by_order, atol=1e-6)
        assert by_order[0][1] > 0.7


def test_a_class_of_minus_one_is_a_question_and_unknown_rows_do_not_count(rows, refuses):
    scores, gold = rows
    for columns, y in ((scores, gold - 1), (scores[:, :2], np.where(gold > 0, 1, -1))):
        assert "-1 may be" in refuses(LabelBiasCorrector().fit, columns, y).got
    fitted = LabelBiasCorrector(classes=[-1, 0, 1]).fit(scores, gold - 1)
    expected = LabelBiasCorrector().fit(scores, gold).score(scores, gold)
    assert fitted.score(scores, gold - 1) == expected
    half = np.where(np.arange(60) < 30, -1, gold)
    fitted, weights = LabelBiasCorrector().fit(scores, half), np.arange(60.0)
    assert fitted.score(scores, half) == np.mean(fitted.predict(scores)[30:] == gold[30:])
    expected = fitted.score(scores[30:], gold[30:], weights[30:])
    assert fitted.score(scores, half, weights) == pytest.approx(expected)


def test_classes_of_another_order_than_the_columns_are_asked_about(rows):
    scores, gold = rows
    frame = pd.DataFrame(scores, columns=NAMES)
    for method in ("bc", "bcl"):
        with pytest.warns(UserWarning, match="y: The highest score is right"):
            LabelBiasCorrector(method).fit(frame, (gold + 1) % 3)


def test_named_classes_reach_the_methods_that_read_labels(rows):
    scores, gold = rows
    half = np.where(np.arange(60) < 30, -1, gold)
    expected = LabelBiasCorrector("bcl").fit(scores, half).transform(scores)
    turned = LabelBiasCorrector("bcl", classes=[9, 7, 5])
    reordered = turned.fit(scores, np.where(half < 0, -1, 9 - 2 * gold))
    np.testing.assert_array_equal(reordered.transform(scores), expected)
    by_number = LabelBiasCorrector("bcl").fit(scores, gold)
    texts = LabelBiasCorrector("bcl", classes=NAMES).fit(scores, NAMES[gold])
    np.testing.assert_array_equal(texts.transform(scores), by_number.transform(scores))


@pytest.mark.parametrize(
    ("parameters", "y", "got"),
    [
        ({"classes": ["a", "b"]}, None, "['a', 'b']"),
        ({"classes": ["a", "b", "b"]}, None, "['a', 'b', 'b']"),
        ({"classes": ["a", "b", "c"]}, ["a", "d"] * 30, "2 classes with 'd' among them"),
        ({"classes": [5, 6, 7]}, [5, 8] * 30, "2 classes with 8 among them"),
        ({}, ["a", "b"] * 30, "['a', 'b'], and their columns are unknown"),
        ({}, ["a", "b", "c"] * 20, "['a', 'b', 'c'], and their columns are unknown"),
        ({"method": "bcl"}, [0, 3] * 30, "2 classes with 3 among them"),
    ],
)
def test_a_class_without_a_column_is_refused(parameters, y, got, rows, refuses):
    error = refuses(LabelBiasCorrector(**parameters).fit, rows[0], y)
    assert (error.where, error.got) == ("classes" if y is None else "y", got)


def test_a_class_without_a_column_is_warned_of_where_no_label_is_read(rows):
    scores, gold = rows
    with pytest.warns(UserWarning, match="y: the class 3 has no column in X") as heard:
        fitted = LabelBiasCorrector().fit(scores, np.where(gold > 0, 3, 0))
    assert heard[0].filename == __file__ and fitted.classes_.tolist() == [0, 1, 2]
    for y in (gold[:10], np.full(60, 0.5), [[0, 1]] * 60):
        with pytest.raises(ValueError):
            LabelBiasCorrector().fit(scores, y)


def test_parts_give_what_the_whole_gives(rows):
    scores, gold = rows
    complete = LabelBiasCorrector(strength=0.5, target_prior=(0.5, 0.3, 0.2)).fit(scores, gold)
    incremental = clone(complete)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # few rows at a time are the point
        for start in range(0, 60, 7):
            incremental.partial_fit(scores[start : start + 7], gold[start : start + 7])
    np.testing.assert_allclose(incremental.transform(scores), complete.transform(scores), atol=2e-6)
    assert int(incremental.seen_.count) == int(complete.seen_.count) == 60
    more = clone(complete).fit(scores[:20]).partial_fit(scores[20:])
    np.testing.assert_allclose(more.transform(scores), complete.transform(scores), atol=2e-6)
    assert int(more.fit(scores[:20]).seen_.count) == 20
    named = LabelBiasCorrector(classes=NAMES[::-1])
    named.partial_fit(scores[:5], NAMES[gold[:5]], classes=NAMES)
    assert named.column_classes_.tolist() == NAMES[::-1].tolist()
    with pytest.raises(ValueError, match="X has 2 features, but LabelBiasCorrector is expecting 3"):
        incremental.partial_fit(scores[:, :2])


def test_rows_of_pandas_are_matched_by_index_and_shares_by_class(rows, refuses):
    scores, gold = rows
    frame = pd.DataFrame(scores, columns=NAMES, index=[f"row {i}" for i in range(60)])
    y = pd.Series(NAMES[gold], index=frame.index)
    shuffled = y.sample(frac=1, random_state=0)
    fitted = LabelBiasCorrector("bcl").fit(frame, y)
    refitted = LabelBiasCorrector("bcl").fit(frame, shuffled)
    np.testing.assert_array_equal(refitted.transform(frame), fitted.transform(frame))
    assert fitted.score(frame, shuffled) == fitted.score(frame, y)
    weights = pd.Series(np.arange(60.0), index=frame.index)
    expected = fitted.score(frame, y, weights)
    assert fitted.score(frame, shuffled, weights[::-1]) == expected
    for misaligned in (y.reset_index(drop=True), shuffled.rename(lambda row: row + " again")):
        assert "['row 0', 'row 1'," in refuses(fitted.score, frame, misaligned).got
    shares = {"yes": 0.5, "no": 0.3, "perhaps": 0.2}
    by_place = LabelBiasCorrector(target_prior=[shares[name] for name in NAMES]).fit(frame)
    for prior in (shares, pd.Series(shares)):
        by_name = LabelBiasCorrector(target_prior=prior).fit(frame)
        np.testing.assert_array_equal(by_name.transform(frame), by_place.transform(frame))
        by_class = LabelBiasCorrector(target_prior=prior, classes=NAMES).fit(scores)
        np.testing.assert_array_equal(by_class.transform(scores), by_place.transform(frame))


def test_texts_without_columns_are_not_put_in_alphabetical_order(refuses):
    """Scores whose columns are negative, positive; the answers' names sort the other way."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 200)
    logits = random.normal(size=(200, 2))
    logits[np.arange(200), y] += 3
    scores = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    texts = np.array(["positive", "negative"])[y]
    assert "['negative', 'positive']" in refuses(LabelBiasCorrector().fit, scores, texts).got
    named = LabelBiasCorrector(classes=["positive", "negative"]).fit(scores, texts)
    assert named.score(scores, texts) > 0.95


def test_only_bc_has_parts(rows):
    assert hasattr(LabelBiasCorrector(), "partial_fit")
    estimator = LabelBiasCorrector("pc", random_state=0)
    assert not hasattr(estimator, "partial_fit")
    with pytest.raises(AttributeError) as caught:
        estimator.partial_fit(rows[0])
    assert "partial_fit: expected method='bc'" in str(caught.value.__cause__)
    fitted = LabelBiasCorrector().fit(rows[0]).set_params(method="cc").fit(rows[0])
    assert not hasattr(fitted, "seen_")


def test_probabilities_are_taken_where_they_are_announced(rows):
    probs = np.exp(rows[0])
    transformed = LabelBiasCorrector(from_probs=True).fit(probs).transform(probs)
    np.testing.assert_allclose(transformed, calibrate(rows[0]), atol=1e-5)


def test_missing_labels_are_settled_as_by_calibrate(rows):
    cut = rows[0].copy()
    cut[::5, 2] = -np.inf
    expected = calibrate(cut, missing="least")
    transformed = LabelBiasCorrector(missing="least").fit(cut).transform(cut)
    np.testing.assert_allclose(transformed, expected, atol=1e-6)


def test_an_estimator_pickled_by_an_earlier_version_predicts_as_it_did(rows):
    scores, _ = rows
    fitted = LabelBiasCorrector(classes=["c", "a", "b"]).fit(scores)
    state = dict(fitted.__getstate__())
    state["classes_"] = state.pop("column_classes_")  # in the order of the columns
    opened = LabelBiasCorrector()
    opened.__setstate__(state)
    assert opened.predict(scores).tolist() == fitted.predict(scores).tolist()
    assert opened.predict_proba(scores).tolist() == fitted.predict_proba(scores).tolist()
    assert opened.classes_.tolist() == ["a", "b", "c"]

"""Rows of pandas are brought together by index, labels by name: the right number or a sentence."""

from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from batch_calibration import METHODS, InputError, calibrate, diagnose, metrics, predict, recommend
from batch_calibration.arrays.alignment import in_label_order, in_row_order
from batch_calibration.calibration import running
from batch_calibration.diagnosis.recommend import Choice
from batch_calibration.integrations.streams import correct_stream
from batch_calibration.layer import BatchCalibration
from batch_calibration.methods import correct

NAMES = ["no", "perhaps", "yes"]
ROWS, K = 24, 3
random = np.random.default_rng(3)
GOLD = np.arange(ROWS) % K
VALUES = random.normal(-4, 0.7, (ROWS, K)) + 1.5 * np.eye(K)[GOLD] + [0.0, 1.2, 0.3]
IDS = [f"row {number}" for number in range(ROWS)]
WEIGHTS = random.integers(0, 3, ROWS).astype(float)
BOUNDS = VALUES.min(axis=1) - random.uniform(0.1, 3, ROWS)
PRIOR = {"no": 0.2, "perhaps": 0.1, "yes": 0.7}
FRAME = pd.DataFrame(VALUES, IDS, NAMES)
TEXTS = pd.Series(np.array(NAMES)[GOLD], IDS)


def report(scores, labels, weight):
    """Fields of summary without the interval whose draws go by the order of the columns."""
    numbers = metrics.summary(scores, labels, weight > 0)
    return {name: numbers[name] for name in numbers if not name.startswith("balanced_accuracy_")}


def mean_of_layer(scores, weight):
    layer = BatchCalibration(K)
    layer(scores, weight=weight)
    return layer.seen.mean


# Functions of scores f and what belongs to their rows: other frames p, right labels g, weights w,
# bounds b. Pure functions go by place where columns are concerned.
DOORS = {
    "probe": lambda f, p, g, w, b: calibrate(f, "cc", probe=p),
    "a probe for each row": lambda f, p, g, w, b: calibrate(f, "pmi", probe=p),
    "labeled": lambda f, p, g, w, b: calibrate(f, "bcl", labeled=p, labels=g),
    "labeled probe": lambda f, p, g, w, b: calibrate(f, "looc", probe=p, labels=g),
    "bound": lambda f, p, g, w, b: calibrate(f.where(f > -5), missing="least", bound=b),
    "nll": lambda f, p, g, w, b: metrics.nll(f, g, w),
    "balanced accuracy": lambda f, p, g, w, b: metrics.balanced_accuracy(f, g, w),
    "summary": lambda f, p, g, w, b: report(f, g, w),
    "answers": lambda f, p, g, w, b: metrics.accuracy(predict(f[NAMES]), predict(p[NAMES]), w),
    "diagnose": lambda f, p, g, w, b: diagnose(f, g, corrected=p - p.mean()).after.accuracy,
    "layer": lambda f, p, g, w, b: mean_of_layer(f[NAMES], w),
    "running": lambda f, p, g, w, b: running.update(running.empty(K), f[NAMES], w).mean,
    "fit": lambda f, p, g, w, b: METHODS["bc"].make().fit(f[NAMES], None, w).bias,
}  # fmt: skip
INDEXES = {
    "texts": pd.Index(IDS),
    "numbers": pd.Index(7 + 3 * np.arange(ROWS)),
    "two levels": pd.MultiIndex.from_product([range(ROWS // 2), list("ab")]),
    "hours": pd.date_range("2026-01-01", periods=ROWS, freq="h"),
    "counting": pd.RangeIndex(ROWS),
    "pairs": pd.Index(np.arange(ROWS) // 2),
}


@pytest.mark.parametrize("door", DOORS)
@given(
    index=st.sampled_from(sorted(INDEXES)),
    rows=st.lists(st.permutations(range(ROWS)), min_size=1, max_size=3),
    columns=st.lists(st.permutations(range(K)), min_size=1, max_size=2),
)
@example(index="counting", rows=[[*range(ROWS)], [*range(ROWS)][::-1]], columns=[[0, 1, 2]])
@settings(max_examples=5)
def test_permuted_rows_and_columns_give_the_same_or_a_sentence(door, index, rows, columns):
    def call(rows, columns):
        # What belongs together has the permutations in turn; of one permutation, all have that.
        frames = []
        for number, values in enumerate((VALUES, 0.9 * VALUES)):
            row, column = rows[number % len(rows)], columns[number % len(columns)]
            labels = [NAMES[j] for j in column]
            frames.append(pd.DataFrame(values[row][:, column], INDEXES[index][row], labels))
        series = []
        for number, values in enumerate((np.array(NAMES)[GOLD], WEIGHTS, BOUNDS)):
            row = rows[(number + 2) % len(rows)]
            series.append(pd.Series(values[row], INDEXES[index][row]))
        result = DOORS[door](*frames, *series)
        if isinstance(result, pd.DataFrame):
            assert result.index.equals(frames[0].index) and [*result] == [*frames[0]]
            return result[NAMES].to_numpy()[np.argsort(rows[0])]
        return np.array([*result.values()] if isinstance(result, dict) else result, np.float64)

    expected = call([[*range(ROWS)]], [[*range(K)]])
    try:
        got = call(rows, columns)
    except InputError as error:
        # Only where the index does not tell which rows belong together.
        assert index in ("counting", "pairs") and any(row != rows[0] for row in rows)
        assert ".to_numpy() if rows belong together by position" in error.remedy
        return
    np.testing.assert_allclose(got, expected, atol=2e-5)


TURNED = TEXTS.sample(frac=1, random_state=0)


def test_an_interval_takes_labels_and_weights_by_index():
    weight = pd.Series(WEIGHTS, IDS)
    expected = metrics.bootstrap_interval(metrics.accuracy, FRAME, TEXTS, 0, weight, draws=20)
    turned = TURNED, 0, weight.iloc[::-1]
    assert metrics.bootstrap_interval(metrics.accuracy, FRAME, *turned, draws=20) == expected


def test_a_recommendation_measures_labeled_rows_by_index_and_name(monkeypatch, refuses):
    """Equal bytes are measured, so that numbers are equal."""
    module, measured = import_module("batch_calibration.diagnosis.recommend"), []

    def choose(blocks, default, options):
        measured.append(jax.tree.map(np.asarray, (blocks, default, options)))
        hits = {name: np.ones(ROWS, bool) for name in ("icl", default)}
        return Choice(default, hits, hits[default], 0.0, 0.0)

    monkeypatch.setattr(module, "choose_by_labels", choose)
    columns = NAMES[::-1]
    recommend(FRAME, labeled=FRAME, labels=GOLD, probe=FRAME[:3], target_prior=[0.2, 0.1, 0.7])
    turned = {"labeled": FRAME[columns], "labels": TURNED, "probe": FRAME[columns][:3]}
    recommend(FRAME, **turned, target_prior=pd.Series(PRIOR)[columns])
    jax.tree.map(np.testing.assert_array_equal, *measured)
    other, by_number = FRAME.set_axis([*"abc"], axis=1), TEXTS.set_axis(range(ROWS))
    usual = {"labeled": FRAME, "labels": TEXTS, "probe": FRAME}
    assert refuses(recommend, FRAME, **usual | {"labels": by_number}).where == "labels"
    for name in ("labeled", "probe"):
        assert refuses(recommend, FRAME, **usual | {name: other}).key == f"column of {name}"


@pytest.mark.parametrize(
    "index", [range(ROWS), [f"line {i}" for i in range(ROWS)], IDS[:1] * 2 + IDS[2:]]
)
def test_rows_that_nothing_brings_together_are_a_sentence(index, refuses):
    labels = pd.Series(GOLD, index)
    for where, door in (
        ("labels", lambda: metrics.accuracy(FRAME, labels)),
        ("weight", lambda: metrics.accuracy(FRAME, GOLD, labels.astype(float))),
        ("labels", lambda: metrics.accuracy(TEXTS.map(NAMES.index), labels)),
        ("labels", lambda: calibrate(FRAME, "bcl", labeled=FRAME, labels=labels)),
        ("bound", lambda: calibrate(FRAME, missing="least", bound=labels)),
        ("labels", lambda: diagnose(FRAME, labels)),
        ("corrected", lambda: diagnose(FRAME, corrected=FRAME.set_axis(labels.index))),
        ("weight", lambda: BatchCalibration(K)(FRAME, weight=labels.astype(float))),
    ):
        error = refuses(door)
        assert (error.where, error.got) == (where, f"{[*index][:4]} and {IDS[:4]}")
    # By place, once that is said.
    assert metrics.accuracy(FRAME, labels.to_numpy()) == metrics.accuracy(FRAME, TEXTS)
    assert metrics.accuracy(VALUES, labels) == metrics.accuracy(FRAME, TEXTS)


def test_a_count_from_0_beside_its_own_permutation_is_a_sentence(refuses):
    """Scores that were asked in a shuffled order look like this, and go by place."""
    labels = pd.Series(GOLD).sample(frac=1, random_state=0)
    error = refuses(metrics.accuracy, pd.DataFrame(VALUES), labels)
    assert error.got == f"{[*labels.index[:4]]} and [0, 1, 2, 3]"
    assert in_row_order(pd.Series(GOLD), "labels", pd.DataFrame(VALUES)) is not None
    positives, labels = pd.DataFrame(VALUES)[GOLD > 0], pd.Series(GOLD)[GOLD > 0].iloc[::-1]
    expected = metrics.accuracy(VALUES[GOLD > 0], GOLD[GOLD > 0])
    assert metrics.accuracy(positives, labels) == expected


def test_frames_without_an_index_go_by_place(refuses):
    expected = metrics.accuracy(VALUES, GOLD)
    for frame in (pl.DataFrame(dict(FRAME)), pa.table(dict(FRAME))):
        for labels in (TEXTS, pl.Series(TEXTS.to_numpy()), pa.array([*TEXTS]), [*TEXTS], GOLD):
            assert metrics.accuracy(frame, labels) == expected
        assert refuses(metrics.accuracy, frame, TEXTS[:9]).got == "(9,)"


def test_right_labels_are_names_of_columns(refuses):
    expected = metrics.nll(VALUES, np.where(GOLD > 0, GOLD, -1))
    gaps = TEXTS.where(GOLD > 0)
    kinds = [gaps.astype(kind) for kind in ("category", "string", object)]
    for labels in (gaps, *kinds, [*gaps], [None if text == "no" else text for text in TEXTS]):
        assert metrics.nll(FRAME, labels) == expected
        corrected = calibrate(FRAME, "bcl", labeled=FRAME, labels=labels)
        by_place = calibrate(VALUES, "bcl", labeled=VALUES, labels=np.where(GOLD > 0, GOLD, -1))
        np.testing.assert_allclose(corrected, by_place, atol=1e-6)
    assert refuses(metrics.accuracy, FRAME, TEXTS.replace("no", "No")).got == "'No'"
    assert refuses(metrics.accuracy, VALUES, TEXTS).got == "Series of <U7"


@pytest.mark.parametrize("names", [[1, 2, 3], ["1", "2", "3"], [2, 0, 1], [-1, 0, 1]])
def test_whole_numbers_beside_names_that_are_numbers_are_names(names, refuses):
    frame = FRAME.set_axis(names, axis=1)
    expected = metrics.nll(VALUES, GOLD)
    numbers = np.array([int(name) for name in names])[GOLD]
    containers = numbers, [*numbers], jnp.asarray(numbers), numbers.astype(object)
    for labels in (*containers, [*map(str, numbers)]):
        assert float(metrics.nll(frame, labels)) == expected
    assert refuses(metrics.nll, frame, numbers + 7).got == str(numbers[0] + 7)
    prior = dict(zip(numbers[:3].tolist(), PRIOR.values(), strict=True))
    expected = calibrate(VALUES, target_prior=[*PRIOR.values()])
    np.testing.assert_allclose(calibrate(frame, target_prior=prior), expected)


SHARES = [PRIOR, dict(reversed(PRIOR.items())), {2: 0.7, 0: 0.2, 1: 0.1}, [0.2, 0.1, 0.7]]
SHARES += [pl.DataFrame({"gold": NAMES[::-1], "proportion": [0.7, 0.1, 0.2]})]
SHARES += [pd.Series(PRIOR)[NAMES[::-1]], pd.Series([0.2, 0.1, 0.7])]
SHARES += [pd.Series([0.7, 0.2, 0.1], [2, 0, 1])]


@pytest.mark.parametrize("shares", SHARES, ids=lambda shares: type(shares).__name__)
def test_shares_are_matched_by_name(shares, tmp_path):
    expected = calibrate(VALUES, target_prior=[0.2, 0.1, 0.7])
    np.testing.assert_array_equal(calibrate(FRAME, target_prior=shares), expected)
    turned = calibrate(FRAME[NAMES[::-1]], target_prior=PRIOR)
    np.testing.assert_allclose(turned[NAMES], expected, atol=1e-6)
    advice = recommend(FRAME, target_prior=shares)
    assert advice.options == recommend(VALUES, target_prior=[0.2, 0.1, 0.7]).options
    source, target = tmp_path / "scores.parquet", tmp_path / "corrected.parquet"
    pyarrow.parquet.write_table(pa.table(dict(FRAME)), source)
    changed = (VALUES.argmax(1) != np.asarray(expected).argmax(1)).sum()
    assert correct_stream(source, target, target_prior=shares).changed == changed


def test_shares_of_numbers_serve_arrays_and_other_names_are_a_sentence(refuses):
    expected = calibrate(VALUES, target_prior=[0.3, 0.0, 0.7])
    counts = pd.Series([2] * 7 + [0] * 3).value_counts(normalize=True)  # label 1 is never right
    np.testing.assert_array_equal(calibrate(VALUES, target_prior=counts), expected)
    pure = METHODS["bc"].make(target_prior={2: 0.7, 0: 0.3, 1: 0.0})
    np.testing.assert_array_equal(pure.apply(pure.fit(VALUES), VALUES), expected)
    for source, shares, name in (
        (VALUES, PRIOR, "'no'"), (FRAME, {**PRIOR, "maybe": 0.0}, "'maybe'"),
        (FRAME, {0: 0.5, 3: 0.5}, "3"), (VALUES, {True: 0.5, False: 0.5}, "True"),
        (FRAME, pd.Series([0.2, 0.1, 0.7], ["no", "yes", "no"]), "'no' twice"),
    ):  # fmt: skip
        with pytest.raises(InputError) as error:
            calibrate(source, target_prior=shares)
        assert (error.value.where, error.value.got) == ("target_prior", name)
    two = {"no": 0.2, "yes": 0.7}
    assert refuses(calibrate, FRAME, target_prior=two).got == "[0.2, 0.0, 0.7]"
    assert refuses(in_label_order, two, NAMES, "bias", absent=None).got == "2"


def test_blocks_of_frames_are_read_by_the_columns_of_the_test_rows():
    expected = correct(METHODS["cc"], {"cc": (VALUES[:5],)}, VALUES).scores
    corrected = correct(METHODS["cc"], {"cc": (FRAME[NAMES[::-1]][:5],)}, FRAME).scores
    np.testing.assert_allclose(corrected, expected, atol=1e-6)


def test_names_in_a_diagnosis_are_those_of_the_columns(refuses):
    assert diagnose(FRAME).label_names == tuple(NAMES)
    assert diagnose(FRAME, label_names=["a", "b", "c"]).label_names == ("a", "b", "c")
    for names in (NAMES[::-1], NAMES[:2]):
        assert refuses(diagnose, FRAME, label_names=names).got == str(names)
    assert refuses(diagnose, FRAME, corrected=VALUES[:5]).got == "(5, 3)"

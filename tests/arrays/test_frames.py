"""`calibrate` gives back what came: frames with their index and names, arrays of their kind."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import batch_calibration
from batch_calibration import METHODS, accuracy, calibrate, compare, diagnose, predict, recommend

ROWS = {"no": [-1.0, -2.25, -0.5, -3.0] * 3, "yes": [-3.0, -2.5, -1.75, -0.25] * 3}
VALUES = np.stack(list(ROWS.values()), axis=-1)
EXPECTED = (VALUES - VALUES.mean(axis=0)).astype(np.float32)
MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame}
MAKERS |= {"table": pa.table, "batch": pa.record_batch}
EXTRA = {
    "gold": [0, 1] * 6,
    "Label": [-0.5, -1.5] * 6,
    "row": list(range(12)),
    "right": [0.0, 1.0] * 6,
    "kept": [True, False] * 6,
    "text": ["good", "bad"] * 6,
    "lists": [[-1.0], [-2.0]] * 6,
}


def values(frame):
    return np.stack([np.asarray(frame[name]) for name in ("no", "yes")], axis=-1)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_frame_gives_a_frame_of_its_kind(kind):
    frame = MAKERS[kind](ROWS)
    corrected = calibrate(frame)
    assert type(corrected) is type(frame)
    np.testing.assert_allclose(values(corrected), EXPECTED, atol=1e-6)
    assert values(corrected).dtype == np.float32
    assert accuracy(corrected, [0, 1] * 6) == accuracy(calibrate(VALUES), [0, 1] * 6)
    names = np.array([*ROWS])[VALUES.argmax(axis=1)].tolist()
    assert list(predict(frame)) == names
    assert accuracy(predict(frame), predict(frame)) == 1.0


def test_a_frame_of_pandas_keeps_its_index_and_names():
    index = pd.Index([f"row {i}" for i in range(12)], name="id")
    columns = pd.Index(["no", "yes"], name="label")
    corrected = calibrate(pd.DataFrame(VALUES, index, columns))
    pd.testing.assert_index_equal(corrected.index, index)
    pd.testing.assert_index_equal(corrected.columns, columns)
    levels = pd.MultiIndex.from_tuples([("p", "no"), ("p", "yes")])
    corrected = calibrate(pd.DataFrame(VALUES, columns=levels))
    pd.testing.assert_index_equal(corrected.columns, levels)


@pytest.mark.parametrize("name", EXTRA)
@pytest.mark.parametrize("kind", MAKERS)
def test_a_column_that_holds_no_scores_is_refused_and_named(kind, name, refuses):
    frame = MAKERS[kind]({**ROWS, name: EXTRA[name]})
    for door in (calibrate, predict, lambda x: accuracy(x, [0, 1] * 6)):
        error = refuses(door, frame)
        assert error.where == "scores" and f"where column {name!r} h" in error.got
        assert "columns=['no', 'yes'], or scores[['no', 'yes']] " in error.remedy
    corrected = calibrate(frame, columns=["yes", "no"])
    assert list(getattr(corrected, "column_names", None) or corrected.columns) == ["yes", "no"]
    np.testing.assert_allclose(values(corrected), EXPECTED, atol=1e-6)


def test_a_column_that_numpy_has_no_type_for_is_refused(refuses):
    frame = pl.DataFrame({**ROWS, "huge": [2**70] * 12})
    assert "column 'huge' holds no numbers" in refuses(calibrate, frame).got
    assert refuses(predict, np.asarray(-1.0)).got == "one number"


def test_whole_numbers_that_are_named_as_scores_are_scores():
    frame = pd.DataFrame({"gold": [-1, -2] * 5, "y": [-3, -1] * 5})
    expected = calibrate(frame.to_numpy().astype(float))
    np.testing.assert_allclose(calibrate(frame, columns=("gold", "y")), expected)


@pytest.mark.parametrize("columns", ["no", ["no"], ["no", "no"], [["no"], ["yes"]], 3])
def test_columns_are_a_list_of_different_names(columns, refuses):
    error = refuses(calibrate, pd.DataFrame(ROWS), columns=columns)
    assert (error.where, error.got) == ("columns", repr(columns))


def test_columns_are_those_of_the_frame_and_their_names_differ(refuses):
    frame = pd.DataFrame({**ROWS, "text": "a"})
    assert refuses(calibrate, frame, columns=["no", "yess"]).got == "yess"
    assert "'text' holds no numbers" in refuses(calibrate, frame, columns=["no", "text"]).got
    assert refuses(calibrate, VALUES, columns=["no", "yes"]).where == "columns"
    assert "['no', 'no']" in refuses(calibrate, pd.DataFrame(VALUES, columns=["no"] * 2)).got


def test_probe_and_labeled_are_read_by_the_names_of_the_scores(refuses):
    frame = pd.DataFrame(ROWS)
    turned = frame[["yes", "no"]]
    expected = calibrate(VALUES, "cc", probe=VALUES[:3])
    np.testing.assert_allclose(calibrate(frame, "cc", probe=turned[:3]), expected)
    np.testing.assert_allclose(calibrate(frame, "cc", probe=VALUES[:3]), expected)
    gold = [0, 1] * 6
    named = {"labeled": turned.assign(gold=gold), "labels": pd.Series(gold)}
    expected = calibrate(VALUES, "bcl", labeled=VALUES, labels=gold)
    np.testing.assert_allclose(calibrate(frame, "bcl", **named), expected)
    other = pd.DataFrame({"nay": [-1.0], "yes": [-2.0]})
    assert refuses(calibrate, frame, "cc", probe=other).key == "column of probe"


def test_a_gap_in_a_frame_is_missing_not_text(refuses):
    columns = {"no": [-1.0, None], "yes": [-2.0, -3.0]}
    nullable = pd.DataFrame(columns | {"no": pd.array([-1.0, None], "Float64")})
    for frame in (nullable, pl.DataFrame(columns), pa.table(columns)):
        assert refuses(calibrate, frame).got == "NaN in row 1, label 0 (1 in all)"


OF_NUMPY = [VALUES, VALUES.astype(np.float16), VALUES.tolist()]
OF_NUMPY += [[jnp.asarray(row) for row in VALUES.astype(np.float32)]]
OF_JAX = [jnp.asarray(VALUES, dtype) for dtype in (jnp.float32, jnp.bfloat16)]


@pytest.mark.parametrize("array", [*OF_NUMPY, *OF_JAX])
def test_an_array_gives_an_array_of_its_kind(array):
    kind = jax.Array if isinstance(array, jax.Array) else np.ndarray
    corrected = calibrate(array)
    assert isinstance(corrected, kind) and corrected.dtype == jnp.float32
    np.testing.assert_allclose(corrected, EXPECTED, atol=1e-2)
    corrected = np.asarray(calibrate(array, "pc", key=0, starts=2))
    assert corrected.shape == VALUES.shape


def test_what_comes_back_can_be_written_to():
    corrected = calibrate(VALUES)
    corrected[0] = 0.0
    assert corrected[0].tolist() == [0.0, 0.0]


PROBS = np.exp(VALUES) / 2


def test_what_is_no_probability_and_what_is_zero_are_refused(refuses):
    assert refuses(calibrate, VALUES, from_probs=True).got == "-3 to -0.25"
    broken = PROBS.copy()
    broken[2, 1] = 0.0
    assert "-inf in row 2, label 1" in refuses(calibrate, broken, from_probs=True).got
    lifted = calibrate(broken, from_probs=True, floor=-20.0)
    broken[2, 1] = np.exp(-20.0)
    np.testing.assert_allclose(lifted, calibrate(broken, from_probs=True), atol=1e-5)


def test_under_jit_and_vmap_the_sentence_names_the_pair_that_works_there(refuses):
    rows = jnp.asarray(VALUES, jnp.float32)
    for transformed, argument in ((jax.jit(calibrate), rows), (jax.vmap(calibrate), rows[None])):
        assert "METHODS[name].make()" in refuses(transformed, argument).remedy
    fit, apply = METHODS["bc"].make()

    def pure(x):
        return apply(fit(x), x)

    np.testing.assert_allclose(jax.jit(pure)(rows), calibrate(rows), atol=1e-6)
    np.testing.assert_allclose(jax.vmap(pure)(rows[None])[0], calibrate(rows), atol=1e-6)


def test_gaps_and_zeros_are_missing_labels():
    broken = PROBS.copy()
    broken[2, 1] = 0.0
    bound = np.log(PROBS).min(axis=1) - 1.0
    expected = calibrate(np.where(broken > 0, VALUES, -np.inf), missing="least", bound=bound)
    corrected = calibrate(broken, from_probs=True, missing="least", bound=bound - np.log(2.0))
    np.testing.assert_allclose(corrected, expected, atol=1e-5)
    gap = pd.DataFrame(ROWS).mask(broken == 0)
    corrected = calibrate(gap, missing="least", bound=pd.Series(bound))
    np.testing.assert_allclose(corrected, expected, atol=1e-5)
    of_each = [calibrate(frame, missing=-9.0)["yes"][2] for frame in (pl.from_pandas(gap), gap)]
    np.testing.assert_allclose(*of_each)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_predictions_from_a_frame_compare_with_the_names_of_its_gold(kind):
    frame = MAKERS[kind]({**ROWS, "gold": ["no", "yes"] * 6})
    corrected = calibrate(frame, columns=["no", "yes"])
    by_index = accuracy(values(corrected), [0, 1] * 6)
    assert (predict(corrected) == frame["gold"]).mean() == by_index
    guesses = predict(frame, columns=["no", "yes"])
    assert accuracy(guesses, frame["gold"]) == accuracy(VALUES, [0, 1] * 6)
    numbered = pd.DataFrame(VALUES)  # whose names are indices
    assert predict(numbered).dtype == np.int32


def test_predicted_names_beside_numbers_are_refused(refuses):
    assert refuses(accuracy, predict(pd.DataFrame(ROWS)), [0, 1] * 6).where == "labels"


def test_every_reader_of_a_frame_takes_columns():
    frame = pd.DataFrame({**ROWS, "gold": ["no", "yes"] * 6, "id": range(12)})
    named, plain = {"columns": ["no", "yes"]}, frame[["no", "yes"]]
    gold, evidence = frame["gold"], {"labeled": frame, "labels": frame["gold"]}
    found = diagnose(frame, gold, **named)
    assert found.sentences() == diagnose(plain, gold).sentences()
    methods = ["icl", "bc", "bcl"]
    compared = compare(frame, gold, methods=methods, **evidence, **named)
    assert compared == compare(plain, gold, methods=methods, **(evidence | {"labeled": plain}))
    advice = recommend(frame, **evidence, **named)
    assert advice.reason == recommend(plain, **(evidence | {"labeled": plain})).reason
    together = batch_calibration.recommend_together([frame] * 3, **named)
    assert str(together) == str(batch_calibration.recommend_together([plain] * 3))

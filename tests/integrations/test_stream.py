"""Parquet in batches is corrected as an array in memory is, and written whole or not at all."""

import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_calibration import calibrate
from batch_calibration.importers import Reading, read
from batch_calibration.integrations import streams
from batch_calibration.integrations.streams import correct_stream

GOLD = Reading(gold="gold")
N = 1000
LABELS = ("no", "yes", "maybe")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Many batches of few rows, so that most cross the end of a row group or of a file."""
    monkeypatch.setattr(streams, "MAX_BATCH_ROWS", 64)


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    scores = (random.normal(0, 2, (N, 3)) - [1, 3, 6]).astype(np.float32)
    return scores, random.integers(0, 3, N)


def table_of(scores, gold, **more):
    columns = {name: scores[:, i] for i, name in enumerate(LABELS)}
    texts = [f"row {i}" for i in range(len(scores))]
    return pa.table({"text": texts, **columns, "gold": gold, **more})


def written(path, table, row_group_size=300):
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


def corrected(path):
    table = pq.read_table(path)
    return np.stack([table[name] for name in LABELS], axis=1), table


@pytest.fixture
def old(tmp_path, rows):
    """A table, and a file in the place of the output, which stays as it is and alone."""
    path, out = written(tmp_path / "t.parquet", table_of(*rows)), tmp_path / "o.parquet"
    out.write_bytes(b"old")
    yield path, out
    assert out.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.parquet", "t.parquet"]


def assert_corrected(path, expected):
    np.testing.assert_allclose(corrected(path)[0], np.asarray(expected), atol=2e-6)


def test_two_passes_are_bc_in_memory(tmp_path, rows):
    scores, gold = rows
    path = written(tmp_path / "t.parquet", table_of(scores, gold))
    seen = []
    out = tmp_path / "out/o.parquet"
    done = correct_stream(path, out, GOLD, progress=lambda *step: seen.append(step))
    streamed, table = corrected(out)
    expected = np.asarray(calibrate(scores, "bc"))
    np.testing.assert_allclose(streamed, expected, atol=2e-6)
    np.testing.assert_allclose(done.bias[""], scores.mean(axis=0, dtype=np.float64), rtol=1e-12)
    before, after = scores.argmax(axis=1), expected.argmax(axis=1)
    assert table["prediction"].to_pylist() == [LABELS[i] for i in after]
    assert table["text"].to_pylist() == [f"row {i}" for i in range(N)]
    assert table["gold"].to_pylist() == gold.tolist()
    assert (done.rows, done.left_out, done.label_names) == (N, 0, LABELS)
    assert done.changed == (before != after).sum()
    np.testing.assert_allclose(done.before, np.bincount(before) / N)
    np.testing.assert_allclose(done.after, np.bincount(after) / N)
    assert done.accuracy == ((before == gold).mean(), (after == gold).mean())
    assert seen[-1][:2] == (2 * N, 2 * N) and seen[-1][2] > 0
    assert [s[0] for s in seen] == sorted(s[0] for s in seen)
    # What was written is a table of scores again.
    reread = read(out, GOLD)[0]
    np.testing.assert_array_equal(reread.blocks["test"].log_probs, streamed)


@pytest.mark.parametrize("kind", ["folder", "pattern"])
def test_many_files_are_one_stream(tmp_path, rows, kind):
    scores, gold = rows
    (tmp_path / "parts").mkdir()
    for i, start in enumerate(range(0, N, 130)):
        table_part = table_of(scores[start : start + 130], gold[start : start + 130])
        written(tmp_path / f"parts/{i:03}.parquet", table_part)
    name = tmp_path / "parts" if kind == "folder" else tmp_path / "parts/*.parquet"
    done = correct_stream(name, tmp_path / "o.parquet", Reading(labels=LABELS))
    assert_corrected(tmp_path / "o.parquet", calibrate(scores))
    assert done.rows == N and done.accuracy is None


def test_options_are_those_of_calibrate(tmp_path, rows):
    scores, gold = rows
    path, out = written(tmp_path / "t.parquet", table_of(scores, gold)), tmp_path / "o.parquet"
    options = {"strength": 0.5, "target_prior": (0.2, 0.3, 0.5)}
    correct_stream(path, out, GOLD, **options)
    assert_corrected(out, calibrate(scores, **options))
    seen = []
    bias = (-1, -2, -3.5)
    done = correct_stream(path, out, GOLD, bias=bias, progress=lambda *s: seen.append(s))
    np.testing.assert_allclose(corrected(out)[0], scores - np.array([-1, -2, -3.5]), atol=2e-6)
    assert done.bias[""].tolist() == [-1, -2, -3.5] and seen[-1][:2] == (N, N)


def test_each_context_has_a_bias_of_its_own(tmp_path, rows):
    scores, gold = rows
    topic, shot = np.array(list("xyz"))[np.arange(N) % 3], np.arange(N) // 500
    path = written(tmp_path / "t.parquet", table_of(scores, gold, topic=topic, shot=shot))
    done = correct_stream(path, tmp_path / "o.parquet", Reading(gold="gold", by=("topic", "shot")))
    streamed, _ = corrected(tmp_path / "o.parquet")
    assert set(done.bias) == {f"{t}, {s}" for t in "xyz" for s in (0, 1)}
    for t, s in product("xyz", (0, 1)):
        own = (topic == t) & (shot == s)
        np.testing.assert_allclose(streamed[own], calibrate(scores[own]), atol=2e-6)
        np.testing.assert_allclose(done.bias[f"{t}, {s}"], scores[own].mean(0), atol=2e-6)


@pytest.mark.parametrize("missing", ["least", "drop", -20.0])
def test_missing_labels_are_filled_as_in_memory(tmp_path, rows, missing):
    scores, gold = rows
    scores = scores.astype(np.float64)
    scores[5, 1], scores[700, 2], scores[900] = np.nan, -9999.0, -np.inf
    holes = table_of(scores, gold)
    holes = holes.set_column(1, "no", pa.array(scores[:, 0], from_pandas=True))
    path = written(tmp_path / "t.parquet", holes)
    reading = Reading(gold="gold", missing=missing)
    done = correct_stream(path, tmp_path / "o.parquet", reading)
    block = read(path, reading)[0].blocks["test"]
    streamed, table = corrected(tmp_path / "o.parquet")
    np.testing.assert_allclose(streamed, np.asarray(calibrate(block.log_probs)), atol=2e-6)
    assert table["text"].to_pylist() == [f"row {i}" for i in block.row_ids]
    assert (done.rows, done.left_out) == (len(block.row_ids), N - len(block.row_ids))


def test_probabilities_and_texts_of_right_labels(tmp_path, rows, refuses):
    scores, gold = rows
    names = pa.array([None if i == 0 else LABELS[g] for i, g in enumerate(gold)])
    probs = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    path = written(tmp_path / "t.parquet", table_of(probs, names))
    error = refuses(correct_stream, path, tmp_path / "o.parquet", GOLD)
    assert "which are probabilities" in error.got
    done = correct_stream(path, tmp_path / "o.parquet", Reading(gold="gold", from_probs=True))
    logs = np.log(probs)
    assert_corrected(tmp_path / "o.parquet", calibrate(logs))
    assert done.accuracy[0] == pytest.approx((logs.argmax(1) == gold)[1:].mean())


@pytest.mark.parametrize(
    ("at", "value"),
    [
        *product([(700, 1)], [np.nan, -np.inf, -9999.0]), *product([(999, 2)], [np.inf, 1e9]),
        (slice(None), -0.5),
    ],
)  # fmt: skip
def test_scores_that_are_refused_leave_the_old_file(old, rows, at, value, refuses):
    path, out = old
    rows[0][at] = value
    written(path, table_of(*rows))
    for options in ({}, {"bias": (-1, -2, -3)}):
        error = refuses(correct_stream, path, out, GOLD, **options)
        assert (f"row {at[0]}" if isinstance(at, tuple) else "-0.5") in str(error)


def test_an_interrupted_run_leaves_the_old_file(old):
    path, out = old

    def stop(done, total, _):
        if done > 0.7 * total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        correct_stream(path, out, GOLD, progress=stop)


def test_what_cannot_be_streamed_is_refused(tmp_path, rows, refuses):
    scores, gold = rows
    table = table_of(scores, gold)
    path, out = written(tmp_path / "t.parquet", table), tmp_path / "o.parquet"

    def refused(why, name=path, reading=GOLD, target=out, **options):
        assert why in str(refuses(correct_stream, name, target, reading, **options))

    refused("gold='gold'", reading=Reading())
    for values in ({"gold": "x"}, {"gold": "gold", "by": ("x",)}):
        refused("no column named 'x'", reading=Reading(**values))
    refused("got ['no']", reading=Reading(labels=("no",)))
    refused("got string", reading=Reading(labels=("no", "text")))
    refused("none*.parquet: ", name=tmp_path / "none*.parquet")
    refused("name another", target=path)
    refused("got a folder", target=tmp_path)
    refused("bias: expected 3 columns", bias=(-1, -2))
    refused("NaN in row 0, label 2", bias=(-1, -2, np.nan))
    refused("target_prior: expected 3 shares", target_prior=(0.5, 0.5))
    refused("strength: expected", strength="x")
    other = {"name": out, "target": tmp_path / "other.parquet"}
    written(out, table.append_column("prediction", table["text"]))
    refused("'prediction'", **other)
    refused("(text, no, yes, maybe, gold)", name=f"{tmp_path}/*.parquet")
    written(out, table.slice(0, 0))
    refused("at least one row", **other)
    out.write_bytes(path.read_bytes()[:-50])
    refused("magic bytes", **other)
    together = pa.table({"scores": scores.tolist(), "gold": gold})
    refused("'scores'", name=written(out, together), target=path)
    wrong = table_of(scores, np.where(np.arange(N) == 700, 7, gold))
    refused("'7', which", name=written(out, wrong), target=tmp_path / "o2")


def test_too_many_contexts_are_refused(tmp_path, rows, monkeypatch, refuses):
    monkeypatch.setattr(streams, "MAX_CONTEXTS", 500)
    path = written(tmp_path / "t.parquet", table_of(*rows))
    reading = Reading(gold="gold", by=("text",))
    assert "500 values" in str(refuses(correct_stream, path, tmp_path / "o.parquet", reading))


def test_few_rows_of_a_context_are_warned_of(tmp_path, rows):
    scores, gold = rows
    path = written(tmp_path / "t.parquet", table_of(scores[:5], gold[:5]))
    with pytest.warns(UserWarning, match="bc learns its bias from 5 rows, which is rough"):
        correct_stream(path, tmp_path / "o.parquet", replace(GOLD, labels=LABELS))


def test_rows_of_long_texts_make_smaller_batches(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(streams, "MAX_BATCH_BYTES", 10_000)
    long = table_of(*rows, prompt=[f"{i:0500}" for i in range(N)])
    path = written(tmp_path / "t.parquet", long)
    steps = []
    options = {"bias": (-1, -2, -3), "progress": lambda done, *_: steps.append(done)}
    correct_stream(path, tmp_path / "o.parquet", GOLD, **options)
    assert max(np.diff(steps)) < 40


def test_a_context_without_a_row_and_a_missing_package_are_refused(
    tmp_path, rows, monkeypatch, refuses
):
    scores, gold = rows
    scores[:, 1] = np.nan
    path = written(tmp_path / "t.parquet", table_of(scores, gold))
    reading = Reading(labels=LABELS, missing="drop")
    assert "1000 of 1000" in str(refuses(correct_stream, path, tmp_path / "o.parquet", reading))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pyarrow" in refuses(correct_stream, path, tmp_path / "o.parquet", reading).got


def test_prompts_in_a_column_of_a_stream_are_a_question(tmp_path, rows, refuses):
    scores, gold = rows
    table = table_of(scores[:60], gold[:60])
    columns = {
        "question": [f"q{i % 20}" for i in range(60)],
        "tone": ["abc"[i // 20] for i in range(60)],
    }
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    path = written(tmp_path / "t.parquet", table)
    reading = replace(GOLD, labels=LABELS)
    error = refuses(correct_stream, path, tmp_path / "o.parquet", reading)
    assert error.key == "by" and "tone" in error.remedy
    done = correct_stream(path, tmp_path / "o.parquet", replace(reading, by=("tone",)))
    assert set(done.bias) == {"a", "b", "c"}

"""Score tables and the workdir: whole or not at all, and a sentence for whatever is wrong."""

import json
import os
import pathlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import safetensors.numpy
from making import make_record
from processes import python

from batch_calibration import files, scores
from batch_calibration.files import process_name
from batch_calibration.scores import ScoreTable, make_block, one_label_notes
from batch_calibration.settings import Settings
from batch_calibration.studies import Store, run_calibration
from batch_calibration.studies.scoring import render_contexts

NAME = "from batch_calibration.files import process_name; print(process_name())"
CONTEXT = {"task": "sst2", "seed": 0, "model": "m", "scorer": {"kind": "causal_lm"}}


def table(**blocks):
    rows = {"test": make_block([[-1.0, -2.0], [-3.0, -0.5]], labels=[0, -1], tokens=[5, 6])}
    return ScoreTable(CONTEXT, ("negative", "positive"), rows | blocks)


def test_what_is_written_is_read(tmp_path):
    table_in = table(cc=make_block([[-1.0, -1.5]], row_ids=["cc/0"], spec={"texts": "ab"}))
    table_in.save(tmp_path / "t.safetensors")
    reread = scores.load(tmp_path / "t.safetensors")
    assert reread.context == table_in.context and reread.label_names == table_in.label_names
    for name, block in table_in.blocks.items():
        for ours, theirs in zip(block, reread.blocks[name], strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert [p.name for p in tmp_path.iterdir()] == ["t.safetensors"]


def test_id_is_what_decides_the_numbers_in_any_order_and_not_the_models_name():
    assert scores.context_id(CONTEXT) == scores.context_id(dict(reversed(CONTEXT.items())))
    assert scores.context_id(CONTEXT) == scores.context_id(CONTEXT | {"model": "moved"})
    assert scores.context_id(CONTEXT) != scores.context_id(CONTEXT | {"seed": 1})


def test_a_failed_write_leaves_the_old_table(tmp_path, monkeypatch):
    path = tmp_path / "t.safetensors"
    table().save(path)
    before = path.read_bytes()

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        table(cc=make_block([[-1.0, -1.5]])).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.safetensors"]


def test_a_flipped_bit_anywhere_is_refused(tmp_path, refuses):
    path = tmp_path / "t.safetensors"
    block = make_block(np.linspace(-9, 0, 60).reshape(30, 2), spec={"texts": "é", "sha256": "0"})
    table(cc=block).save(path)
    content = path.read_bytes()
    for bit in np.random.default_rng(0).choice(8 * len(content), 900, replace=False).tolist():
        data = bytearray(content)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        assert str(refuses(scores.load, path)).startswith(f"{path}: ")
    path.write_bytes(content)
    assert scores.load(path).blocks["cc"].spec == {"texts": "é", "sha256": "0"}


HEADERS = {"got None": "null", "got 3": "3", "got [[]]": "[[]]", "too deeply": "[" * 99_999}
HEADERS |= {"5000 digits": "9" * 5_000, "surrogates": '"\\ud800"'}


@pytest.mark.parametrize("why", HEADERS)
def test_a_header_of_another_shape(tmp_path, why, refuses):
    path = tmp_path / "t.safetensors"
    path.write_bytes(scores.seal({}, HEADERS[why]))
    assert why in str(refuses(scores.load, path))


def test_a_table_of_another_name_and_a_folder_are_no_tables(tmp_path):
    store = Store(tmp_path, create=True)
    store.put(table())
    (path,) = (tmp_path / "scores").iterdir()
    path.rename(path.with_name("a.safetensors"))
    (tmp_path / "scores" / "b.safetensors").mkdir()
    tables, broken = store.tables()
    assert not tables and f"expected the id in its name; got {table().id}" in broken[0]
    assert "b.safetensors: expected a score table that can be read; got Is a dir" in broken[1]


def test_what_could_not_be_read_again_is_not_written(tmp_path, refuses):
    ids = make_block([[-1.0, -2.0]], row_ids=["\ud800"])
    for got, broken in (
        ("'utf-8' codec can't encode", table(test=ids)),
        ("str; got 3", table(test=make_block([[-1.0, -2.0]], row_ids=[3]))),
        ("type int32", table()._replace(context={"seed": np.int32(0)})),
        ("float64", table(test=ids._replace(labels=np.zeros(1)))),
    ):
        assert got in refuses(broken.save, tmp_path / "t.safetensors").got
    assert not list(tmp_path.iterdir())


def test_what_a_killed_writer_left_is_removed_and_a_living_writers_file_is_not(tmp_path):
    """Killed: a process that is no more. Of another machine's nothing is known for a day."""
    Store(tmp_path, create=True)
    names = (python("-c", NAME).stdout.strip(), process_name(), "0123456789ab-7-123")
    killed, living, elsewhere = (tmp_path / f"scores/.a.safetensors.{x}-ab.partial" for x in names)
    for path in (killed, living, elsewhere):
        path.write_bytes(b"half")
    Store(tmp_path)
    assert not killed.exists() and living.exists() and elsewhere.exists()
    for path in (living, elsewhere):
        os.utime(path, (0, path.stat().st_mtime - 86500))
    Store(tmp_path)
    assert not elsewhere.exists()


def test_the_temporary_folder_of_a_process_that_was_killed_is_removed_by_the_next(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    machine, number, began = process_name().split("-")
    with files.temporary_folder() as living, monkeypatch.context() as patched:
        assert living.is_dir()
        patched.setattr(files, "process_name", lambda: f"{machine}-{number}-{int(began) - 1}")
        killed = files.temporary_folder()
        leftover = killed.__enter__()
        (leftover / "input").write_bytes(b"a copy of what was piped in")
        (tmp_path / "another program's").mkdir()
        with files.temporary_folder() as own:
            assert own.is_dir() and living.is_dir() and not leftover.exists()
        killed.__exit__(None, None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["another program's"]


def test_no_other_temporary_folders_are_made():
    """Those of processes that are killed would stay for ever."""
    root = pathlib.Path(files.__file__).parents[1]
    for folder in ("batch_calibration", "experiments"):
        for path in (root / folder).rglob("*.py"):
            makes_folder = "TemporaryDirectory(" in path.read_text()
            assert path.name == "files.py" or not makes_folder, path


def test_a_claim_of_a_worker_that_was_killed_is_removed_by_whoever_opens_the_workdir(tmp_path):
    machine, number, began = process_name().split("-")
    store = Store(tmp_path, create=True)
    for context, name in {"a": f"{machine}-{number}-{int(began) - 1}-0a", "b": "0-7-1-0a"}.items():
        (tmp_path / "work/claims" / context).mkdir(parents=True)
        (tmp_path / "work/claims" / context / f"{name}.json").touch()
    (tmp_path / "work/claims/broken").symlink_to("nowhere")
    assert store.claims.take("c")
    Store(tmp_path)
    names = {path.name for path in (tmp_path / "work/claims").iterdir()}
    assert names == {"b", "broken", "c"}


def test_a_written_file_and_its_name_are_flushed_to_the_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(files.os, "fsync", lambda fd: flushed.append(os.fstat(fd).st_ino))
    files.write_whole(tmp_path / "a", b"x")
    assert flushed == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]


@pytest.mark.parametrize(
    "text", ["..", ".", "a/b", "a%2Fb", "\x00", "\ud800", "é" * 300, "é" * 301]
)
def test_any_text_is_one_part_of_a_path_and_two_are_two(tmp_path, text):
    name = files.file_name(text)
    files.write_whole(tmp_path / f"{name}.json", b"")
    assert [p.name for p in tmp_path.iterdir()] == [f"{name}.json"]
    others = files.file_name(text + "x"), files.file_name("a/b" * (text != "a/b"))
    assert name not in ("..", ".", *others)


def test_missing_foreign_and_truncated_file(tmp_path, refuses):
    path = tmp_path / "t.safetensors"
    assert refuses(scores.load, path).got == "No such file or directory"
    safetensors.numpy.save_file({"a": np.zeros(2, np.float32)}, path)
    assert "__metadata__" in refuses(scores.load, path).got
    table().save(path)
    path.write_bytes(path.read_bytes()[:-7])
    assert "incomplete" in refuses(scores.load, path).got


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("its id", lambda h: h["context"].update(seed=7)),
        ("of format 99", lambda h: h.update(format=99)),
        ("of format 1", lambda h: h.update(format=1)),
        ("int; got '2'", lambda h: h.update(format="2")),
        ("object]; got []", lambda h: h.update(context=[])),
        ("BlockHeader; got 3", lambda h: h.update(blocks={"test": 3})),
        ("str; got 1", lambda h: h["blocks"]["test"].update(row_ids=[1, 2])),
        ("got None", lambda h: h.update(label_names=None)),
        ("id in the header; got none", lambda h: h.pop("id")),
        ("for 1 row ids", lambda h: h["blocks"]["test"].update(row_ids=["a"])),
        ("'dc.log_probs'", lambda h: h["blocks"].update(dc={"row_ids": [], "spec": {}})),
    ],
)
def test_edited_file(tmp_path, why, change, refuses):
    path = tmp_path / "t.safetensors"
    table().save(path)
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][scores.KEY])
    arrays = safetensors.numpy.load(data)
    change(header)
    path.write_bytes(scores.seal(arrays, json.dumps(header)))
    assert why in str(refuses(scores.load, path))


@pytest.mark.parametrize(
    ("why", "block"),
    [
        ("row r7, label 'positive' is nan", make_block([[-1.0, np.nan]], row_ids=["r7"])),
        ("row 0, label 'negative' is inf", make_block([[np.inf, -1.0]])),
        ("got [2]", make_block([[-1.0, -1.0]], labels=[2])),
        ("got none", make_block(np.zeros((0, 2)))),
        ("got ((1, 3), (1,), (1,))", make_block([[-1.0, -1.0, -1.0]])),
    ],
)
def test_a_bad_table_is_never_written(tmp_path, why, block, refuses):
    assert why in str(refuses(table(test=block).save, tmp_path / "t.safetensors"))
    assert not list(tmp_path.iterdir())


def test_minus_infinity_may_be_stored(tmp_path):
    table(test=make_block([[-1.0, -np.inf]])).save(tmp_path / "t.safetensors")
    assert scores.load(tmp_path / "t.safetensors").blocks["test"].log_probs[0, 1] == -np.inf


def test_store_keeps_and_finds(tmp_path):
    store = Store(tmp_path / "w", create=True)
    assert store.get(CONTEXT) is None
    store.put(table())
    assert store.get(CONTEXT).id == table().id
    tables, broken = store.tables()
    assert [t.id for t in tables] == [table().id] and not broken
    record = make_record("sst2", {"bc": 0.5})
    store.put_record(record)
    assert list(store.records()) == [record] and store.record(record.id) == record
    assert store.record("another") is None and store.table_of(record) is None


def test_a_record_of_another_name_and_a_folder_are_no_records(tmp_path, refuses):
    store = Store(tmp_path, create=True)
    store.put_record(make_record("sst2", {"bc": 0.5}))
    (path,) = (tmp_path / "records").iterdir()
    renamed = path.rename(path.with_name("a.json"))
    assert refuses(store.records).where == str(renamed)
    renamed.unlink()
    path.mkdir()
    assert refuses(store.records).got == "Is a directory"


def test_processes_may_open_one_folder_at_once(tmp_path):
    """Each tries whether it can write there; none trips over another's try."""

    def opened(_):
        return Store(tmp_path / "w", create=True)

    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(opened, range(400)))) == 400
    assert list(tmp_path.rglob("*")) == [tmp_path / "w", tmp_path / "w" / "scores"]


def test_a_workdir_without_scores_without_records_or_unwritable(tmp_path, refuses):
    assert refuses(Store, tmp_path).where == f"workdir {tmp_path}"
    assert "no records" in str(refuses(Store(tmp_path, create=True).records))
    (tmp_path / "file").write_text("")
    assert refuses(Store, tmp_path / "file" / "w", create=True).got == "Not a directory"


def test_a_file_of_one_label_is_said_where_it_is_scored_and_where_it_is_judged(tmp_path):
    rows = [[-1.0, -2.0], [-3.0, -1.0], [-1.0, -1.5]]
    table = ScoreTable({"task": "mine"}, ("no", "yes"), {"test": make_block(rows, [1, 1, -1])})
    (record,) = run_calibration([table], ["icl", "bc"])
    (note,) = one_label_notes("mine", [1, 1, -1], ["no", "yes"])
    assert "all 2 labeled rows are 'yes'" in note and note in record.notes
    assert not one_label_notes("mine", [1, 0, 1], ["no", "yes"])
    assert not one_label_notes("mine", [1, -1], ["no", "yes"])
    for split in ("train", "validation"):
        lines = [f"text {i},{'no' if i < 6 else 'yes'}" for i in range(12)]
        (tmp_path / f"{split}.csv").write_text("\n".join(["text,label", *lines]))
    (tmp_path / "task.toml").write_text(
        'name = "mine"\nfields = ["text"]\nlabel_names = ["no", "yes"]\nlabels_are = "names"\n'
        'template = "{text} {label}"\nverbalizer = {no = "no", yes = "yes"}\n'
        'files = {train = "train.csv", validation = "validation.csv"}\n'
    )
    few = {"shots": 0, "limit": 4, "limit_rows": "first", "labeled_per_class": 0, "dc_texts": 2}
    settings = Settings.of(model="mini_small", tasks=f"{tmp_path}/task.toml", **few)
    notes = []
    render_contexts(settings, notify=notes.append)
    assert any("all 4 labeled rows are 'no'" in note for note in notes)

"""Logs that are compressed: the same tables as of the plain file."""

import gzip
import json
import sys

import numpy as np
import pyarrow as pa
import pytest
from log_forms import NAMES, RESULTS, VALUES, as_log

from batch_calibration import accuracy, balanced_accuracy, calibrate, importers
from batch_calibration.cli import run
from batch_calibration.importers import Reading, compressed

LOG = as_log("lm_eval", VALUES["lm_eval"], json.dumps)
NAME = NAMES["lm_eval"]
RESULTS_NAME = "results_2026-01-02T03-04-05.6.json"


def zstandard(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


PACKED = {".gz": gzip.compress, ".zst": zstandard}


@pytest.fixture
def plain(tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / NAME).write_bytes(LOG)
    (folder / RESULTS_NAME).write_text(json.dumps(RESULTS))
    return folder / NAME


@pytest.mark.parametrize("ending", PACKED)
def test_a_compressed_log_is_read_as_the_plain_one(plain, ending):
    (expected,) = importers.read(plain)
    assert expected.context["shots"] == 1  # of the results beside it
    packed, pack, half = plain.with_name(f"{NAME}{ending}"), PACKED[ending], LOG.index(b"\n") + 1
    # Several frames and members follow each other.
    for content in (pack(LOG), pack(LOG[:half]) + pack(LOG[half:])):
        packed.write_bytes(content)
        (table,) = importers.read(packed)
        assert table.context == expected.context
        for ours, theirs in zip(table.blocks["test"][:2], expected.blocks["test"][:2], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_folder_of_compressed_logs_is_read(tmp_path, capsys):
    for name in ("t", "u"):
        log = tmp_path / f"samples_{name}_2026-01-02T03-04-05.6.jsonl.zst"
        log.write_bytes(zstandard(LOG))
    run(["diagnose", str(tmp_path), "--json"])
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize("ending", PACKED)
def test_a_compressed_file_that_was_cut_is_refused(tmp_path, ending, refuses):
    path = tmp_path / f"log.jsonl{ending}"
    path.write_bytes(PACKED[ending](np.random.default_rng(0).bytes(4000))[:-2000])
    error = refuses(importers.read, path)
    assert (error.where, error.remedy) == (str(path), "copy it again")


def test_a_refusal_names_the_file_as_the_user_does(tmp_path, refuses):
    path = tmp_path / "broken.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"doc_id": 1, '))
    assert refuses(importers.read, path, Reading(format="lm_eval")).where.startswith(str(path))


def test_without_pyarrow_the_remedy_is_named(tmp_path, monkeypatch, refuses):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "log.jsonl.zst").write_bytes(compressed.ZSTANDARD)
    assert "pyarrow" in refuses(importers.read, tmp_path / "log.jsonl.zst").remedy


@pytest.mark.parametrize("address", ["s3://bucket/log.jsonl", "hf://datasets/a/b/*.jsonl"])
def test_addresses_are_refused(address, capsys, refuses):
    assert refuses(importers.read, address).where.endswith(address.partition("//")[2])
    for command in (["diagnose", address], ["compare", "a", "--probe", address]):
        with pytest.raises(SystemExit, match="2"):
            run(command)
        assert f"{address}: expected a path of this machine" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["", *PACKED])
def test_the_harness_s_results_get_a_copy_with_corrected_accuracies(plain, capsys, ending):
    packed = plain.with_name(f"{NAME}{ending}")
    plain.unlink()
    packed.write_bytes(PACKED.get(ending, bytes)(LOG))
    run(["calibrate", str(packed), "--results", "--output", str(plain.with_name("scores.csv"))])
    copy = packed.with_name(RESULTS_NAME.replace(".json", "_corrected.json"))
    assert str(copy) in capsys.readouterr().out
    results = json.loads(copy.read_text())
    block = importers.read(packed)[0].blocks["test"]
    with pytest.warns(UserWarning, match="from 4 rows"):
        corrected = np.asarray(calibrate(block.log_probs, "bc", from_probs=False))
    preference = np.ptp(np.float64(block.log_probs).mean(axis=0))
    expected = {"acc": 0.5, "preference_nats": preference}  # "acc" is as it was
    expected["acc_bc"] = accuracy(corrected, block.labels)
    expected["balanced_acc"] = balanced_accuracy(block.log_probs, block.labels)
    expected["balanced_acc_bc"] = balanced_accuracy(corrected, block.labels)
    expected = {f"{name},none": float(value) for name, value in expected.items()}
    assert results["results"]["t"] == pytest.approx(expected, abs=1e-6)
    assert {**results, "results": RESULTS["results"]} == RESULTS
    assert json.loads(plain.with_name(RESULTS_NAME).read_text()) == RESULTS
    # A folder that has the copy is read as before.
    run(["diagnose", str(packed.parent), "--json"])
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_results_that_are_not_there_are_a_sentence(plain, capsys):
    plain.with_name(RESULTS_NAME).unlink()
    with pytest.raises(SystemExit, match="2"):
        run(["calibrate", str(plain), "--results"])
    assert f"in {RESULTS_NAME}" in capsys.readouterr().err

"""Results of a workdir as data: read by name, as files, and by other tools."""

import csv
import io
import json
import sys

import duckdb
import pandas
import pytest
from making import make_record
from pyarrow import parquet

from batch_calibration import load_results
from batch_calibration.studies import Store, write_results

RECORDS = [
    make_record(task, {"icl": 0.5, "bc": 0.6 + seed / 10}, context={"seed": seed, **details})
    for task, details in (("rte", {"shots": 1, "demonstrations": ("a", 'b"')}), ("cb", {}))
    for seed in (0, 1)
]


@pytest.fixture
def store(tmp_path):
    results_store = Store(tmp_path / "w", create=True)
    for record in RECORDS:
        results_store.put_record(record)
    return results_store


def test_results_are_the_records_of_the_workdir(store, refuses):
    frame = load_results(store.workdir)
    assert len(frame) == len(store.records().rows()) == 4 * 3
    bc = frame[(frame.metric == "accuracy") & (frame.method == "bc")]
    assert bc.groupby("task")["value"].mean().to_dict() == pytest.approx({"cb": 0.65, "rte": 0.65})
    assert load_results(store, "arrow").equals(store.records().to_arrow())
    assert refuses(load_results, store, "panda").got == "panda"


def test_files_hold_what_load_results_gives(store):
    files, lacks = write_results(store.records(), store.workdir)
    assert [path.name for path in files] == ["results.csv", "results.parquet"] and lacks == ""
    table = load_results(store, "arrow")
    assert parquet.read_table(files[1]).equals(table)
    rows = list(csv.DictReader(io.StringIO(files[0].read_text())))
    for row, expected in zip(rows, table.to_pylist(), strict=True):
        for name, value in expected.items():
            cell = row[name]
            read = {float: float, list: json.loads, int: int}.get(type(value), str)
            assert cell == "" if value is None else read(cell) == value


def test_files_made_again_are_the_same(store):
    def made():
        files, _ = write_results(store.records(), store.workdir)
        contents = [path.read_bytes() for path in files]
        for path in files:
            path.unlink()
        return contents

    assert made() == made()


def test_duckdb_reads_both_files_and_the_table_in_memory(store):
    files, _ = write_results(store.records(), store.workdir)
    results = load_results(store, "arrow")
    assert results.num_rows
    for source in (*(f"'{path}'" for path in files), "results"):
        rows_read = duckdb.sql(
            f"SELECT task, avg(value), min(low), count(seed) FROM {source} "
            "WHERE metric = 'gain' AND shots = 1 GROUP BY task"
        ).fetchall()
        low = min(r.methods["bc"].metrics["gain_low"] for r in RECORDS if r.context.task == "rte")
        assert rows_read == [("rte", pytest.approx(0.15, abs=2e-3), low, 2)]


def test_duckdb_reads_many_workdirs_at_once(store, tmp_path):
    """The query of the page, where only some have options of methods."""
    write_results(store.records(), store.workdir)
    second_store = Store(tmp_path / "v", create=True)
    second_store.put_record(make_record("sst2", {"icl": 0.5}, options={"icl": {"floor": -5.0}}))
    write_results(second_store.records(), second_store.workdir)
    rows_read = duckdb.sql(
        "SELECT task, count(*), max(method_floor) FROM read_parquet("
        f"'{tmp_path}/*/results.parquet', union_by_name = true, filename = true) "
        "WHERE metric = 'accuracy' GROUP BY ALL ORDER BY task"
    ).fetchall()
    assert rows_read == [("cb", 4, None), ("rte", 4, None), ("sst2", 1, -5.0)]


def test_pandas_reads_the_csv(store):
    (path, _), _ = write_results(store.records(), store.workdir)
    frame = pandas.read_csv(path)
    assert frame.groupby("metric").size().to_dict() == {"accuracy": 8, "gain": 4}


def test_without_pyarrow_there_is_the_csv_alone_and_a_sentence(store, monkeypatch):
    write_results(store.records(), store.workdir)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    files, lacks = write_results(store.records(), store.workdir)
    assert [path.name for path in files] == ["results.csv"]
    assert lacks.endswith("results.parquet is not written: it needs pyarrow; pip install pyarrow.")
    assert not (store.workdir / "results.parquet").exists()

"""Results for TensorBoard, read back from the bytes of its files."""

import struct
import sys

import pytest
from making import make_record
from tensorboardX.proto.event_pb2 import Event

from batch_calibration.errors import InputError
from batch_calibration.reporting.writing import write_events
from batch_calibration.studies import Records

RECORDS = Records(
    [
        *(make_record("rte", {"icl": 0.5, "bc": 0.6 + seed / 10}, rows=100,
                      context={"seed": seed, "shots": 1}) for seed in (0, 1)),
        make_record("rte", {"icl": 0.25}, rows=100, context={"options": {"template": "../x"}}),
        make_record("", {"icl": 0.75}, rows=100, context={"seed": None, "shots": None}),
    ]
)  # fmt: skip


def scalars(path):
    """Tag, step -> value of a file: each record is a length, its checksum, an event, its own."""
    data, by_tag = path.read_bytes(), {}
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        event = Event.FromString(data[12 : 12 + size])
        by_tag |= {(scalar.tag, event.step): scalar.simple_value for scalar in event.summary.value}
        data = data[16 + size :]
    return by_tag


def written(folder):
    return {
        path.parent.relative_to(folder).as_posix(): scalars(path)
        for path in folder.rglob("events*")
    }


def test_a_run_a_method_a_scalar_a_context(tmp_path):
    assert write_events(RECORDS, tmp_path / "tensorboard") == 8
    scalars_by_run = written(tmp_path / "tensorboard")
    assert set(scalars_by_run) == {
        "m-1shot-validation/icl", "m-1shot-validation/bc",
        "m-0shot-validation-templates-..%2Fx/icl", "m-validation/icl",
    }  # fmt: skip
    assert scalars_by_run["m-1shot-validation/bc"] == {
        ("accuracy/rte", 0): pytest.approx(0.6), ("accuracy/rte", 1): pytest.approx(0.7),
        ("gain/rte", 0): pytest.approx(0.1), ("gain/rte", 1): pytest.approx(0.2),
    }  # fmt: skip
    assert scalars_by_run["m-validation/icl"] == {("accuracy/scores", 0): 0.75}


def test_written_again_it_replaces_what_was_there(tmp_path):
    write_events(RECORDS, tmp_path)
    write_events(RECORDS[:1], tmp_path)
    assert {name: len(by_tag) for name, by_tag in written(tmp_path).items()} == {
        "m-1shot-validation/icl": 1, "m-1shot-validation/bc": 2}  # fmt: skip


def test_without_the_library_it_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(InputError) as error:
        write_events(RECORDS, tmp_path)
    assert error.value.expected == "tensorboardX to be installed"
    assert error.value.remedy == "pip install tensorboardX, or leave --tensorboard out"

"""What tests of importers share: JSON Lines, the only table of a file, its notes, its refusal."""

import json

import pytest

from batch_calibration import importers
from batch_calibration.errors import InputError
from batch_calibration.importers import Reading


def lines(rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def written(folder, data, name="t.csv"):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def read_one(path, **reading):
    (table,) = importers.read(path, Reading(**reading))
    return table


def notes(table):
    return " ".join(table.blocks["test"].spec.get("notes", ()))


def refused(path, reading=None, **fields):
    with pytest.raises(InputError) as error:
        importers.read(path, reading or Reading(**fields))
    sentence = str(error.value)
    assert "\n" not in sentence and len(sentence) < 2000
    return sentence

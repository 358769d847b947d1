"""What tests of importers share: the only table of a file, its notes, the error of a bad file."""

import pytest

from batch_calibration import importers
from batch_calibration.errors import InputError
from batch_calibration.importers import Reading


def read_one(path, **reading):
    (table,) = importers.read(path, Reading(**reading))
    return table


def notes(table):
    return " ".join(table.blocks["test"].spec.get("notes", ()))


def refused(path, **reading):
    with pytest.raises(InputError) as error:
        importers.read(path, Reading(**reading))
    sentence = str(error.value)
    assert "\n" not in sentence and len(sentence) < 2000
    return sentence

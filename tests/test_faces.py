"""Public names as people meet them in Python: short signatures, reprs and tracebacks."""

import inspect
import traceback

import numpy as np
import pytest

import batch_calibration as bc
from batch_calibration.estimator import LabelBiasCorrector
from batch_calibration.importers import tables_of

SCORES = np.array(20 * [[-1.0, -3.0], [-2.0, -2.5]])
GOLD = np.array(20 * [0, 1])
LETTERS = 500  # of a signature, at most
TYPES = ("Float[", "_NestedSequence", "Union[")  # of aliases that are spelled out


FUNCTIONS = [name for name in bc.__all__ if inspect.isfunction(getattr(bc, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_name_their_types(name):
    signature = str(inspect.signature(getattr(bc, name)))
    assert len(signature) < LETTERS and not any(text in signature for text in TYPES)


def test_what_is_returned_has_a_repr_of_one_line():
    (table,) = tables_of({"no": [-1.5, -0.2], "yes": [-0.4, -2.0]})
    assert repr(table) == "ScoreTable('scores', labels=('no', 'yes'), rows={'test': 2})"
    assert repr(table.blocks["test"]) == "Block(2 rows, 2 labels, 0 rows labeled)"
    found = [bc.diagnose(SCORES, GOLD), bc.recommend(SCORES), bc.recommend_together([SCORES] * 3)]
    found += [bc.compare(SCORES, GOLD, methods=["icl", "bc"]), bc.Reading()]
    for shown in map(repr, found):
        assert "\n" not in shown and len(shown) < 200


CALLS = [(bc.calibrate, [[-1.0]]), (bc.diagnose, SCORES, [0]), (bc.read, "/no/file.csv")]
CALLS += [(bc.plot, [1.0]), (LabelBiasCorrector().fit, [[-1.0]])]


@pytest.mark.parametrize("call", CALLS, ids=range(5))
def test_a_refusal_has_one_frame_of_ours(call):
    with pytest.raises(bc.InputError) as caught:
        call[0](*call[1:])
    printed = "".join(traceback.format_exception(caught.value))
    assert printed.count("/batch_calibration/") == 1 and "direct cause" not in printed

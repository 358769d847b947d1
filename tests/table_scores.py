"""The scores of a workdir, to compare with those of another one."""

import json
from pathlib import Path

import numpy as np

from batch_calibration.studies import Store


def scores(workdir):
    """The scores of each block, by context and name, without the scorer."""
    tables, _ = Store(Path(workdir)).tables()
    found = {}
    for table in tables:
        facts = {name: fact for name, fact in table.context.items() if name != "scorer"}
        for name, block in table.blocks.items():
            found[json.dumps(facts, sort_keys=True), name] = block.log_probs
    return found


def equal(first, second, tolerance=0.0):
    """Checks that two workdirs have the same blocks with equal scores."""
    assert first and first.keys() == second.keys()
    for name, log_probs in first.items():
        np.testing.assert_allclose(log_probs, second[name], rtol=0, atol=tolerance)

"""Where a correction turns no row right or wrong, that is said, not an interval around 0."""

import numpy as np

from batch_calibration.diagnosis.recommend import recommend
from batch_calibration.diagnosis.verdicts import judge_context
from batch_calibration.reporting import words
from batch_calibration.scores import ScoreTable, make_block


def test_a_correction_that_turns_no_row_is_said_to():
    scores = np.log(np.array([[0.9, 0.1], [0.1, 0.9]] * 60, np.float32))
    labels = np.tile([0, 1], 60)
    advice = recommend(scores)
    table = ScoreTable({}, ("no", "yes"), {"test": make_block(scores, labels)})
    verdict = judge_context("a", "a", advice, table)
    measured = words.facts([verdict])["Measured gain"]
    assert "100.0 % as before (no row turns right or wrong)" in measured
    assert "+0.0 [" not in measured

"""A correction that turns no row right or wrong has a gain of 0 without an interval."""

import numpy as np
from making import make_card

from batch_calibration.cli.summaries import task_gains
from batch_calibration.diagnosis.recommend import recommend
from batch_calibration.diagnosis.verdicts import judge_context
from batch_calibration.reporting import words
from batch_calibration.reporting.cells import verdict_cells
from batch_calibration.scores import ScoreTable, make_block


def test_a_correction_that_turns_no_row_has_no_interval():
    scores = np.log(np.array([[0.9, 0.1], [0.1, 0.9]] * 60, np.float32))
    labels = np.tile([0, 1], 60)
    advice = recommend(scores)
    table = ScoreTable({}, ("no", "yes"), {"test": make_block(scores, labels)})
    verdict = judge_context("a", "a", advice, table)
    for card in (make_card(verdict), make_card(verdict, verdict)):
        effect, *_, advice_line = words.card_lines(card)
        assert "stays 100.0 %" in effect and "no row turns right or wrong" in effect
        assert advice_line == "Do: leave the scores as they are, as no answer changes."
        _, *rows = words.answer_cells(card)
        assert [row[1:] for row in rows] == [["100.0", ""], *[["100.0", "0.0"]] * 3]
        *_, mean = task_gains([card])
        assert mean[-1] == "0.0"
    assert verdict_cells([verdict])[1][1] == "0.0"


def test_a_change_between_wrong_answers_is_not_advised_without_a_bias():
    random = np.random.default_rng(0)
    labels = np.arange(40) % 3
    scores = random.normal(0, 0.3, (40, 3)) + 3 * np.eye(3)[labels]
    scores -= scores.mean(axis=0)
    scores[:, 0] -= 0.2
    scores[0], labels[0] = [-1e-3, 0.0, -5.0], 2
    table = ScoreTable({}, ("a", "b", "c"), {"test": make_block(scores, labels)})
    verdict = judge_context("a", "a", recommend(scores), table)
    assert (verdict.after_other != verdict.diagnosis.predicted).any() and not verdict.is_biased
    assert not verdict.balanced.any()
    assert "calibrate" not in words.card_lines(make_card(verdict))[-1]

"""Contexts as the recommended method corrects them; `reporting/words.py` has the sentences."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from batch_calibration.diagnosis.diagnose import diagnose_table
from batch_calibration.diagnosis.diagnosis import Diagnosis
from batch_calibration.diagnosis.recommend import LIKELY, POOLED
from batch_calibration.diagnosis.recommendation import Recommendation
from batch_calibration.methods import METHODS, Evidence, correct_context
from batch_calibration.metrics import OF_GAIN, Estimate, over_rows, over_tasks
from batch_calibration.scores import ScoreTable

MANY_ROWS = 1_000_000
"""Labeled rows beyond which no sentence gives the number that would settle a gain."""
RECOMMENDED, IF_BALANCED = attrgetter("gains"), attrgetter("balanced")
"""The gains of the two answers."""
BY_BC = attrgetter("by_bc")
"""The gains of plain BC, whatever is recommended."""


class Verdict(NamedTuple):
    """A context as the recommended method corrects it.

    Attributes:
        name: what it is called.
        task: the task, whose seeds have the same rows.
        recommendation: which method, why, and what to expect.
        diagnosis: of the scores that it corrects.
        gains: [n], of each labeled row right after less right before; None without right labels.
        balanced: the same of what is recommended if labels are about equally frequent; `gains`
            where there is one answer.
        by_bc: [n], the same of BC with equal shares, which need not be recommended.
        after_bc: [k], the share of the rows for which each label is predicted after BC.
    """

    name: str
    task: str
    recommendation: Recommendation
    diagnosis: Diagnosis
    gains: np.ndarray | None
    balanced: np.ndarray | None
    by_bc: np.ndarray | None = None
    after_bc: np.ndarray | None = None

    @property
    def first_answer(self) -> tuple[str, np.ndarray]:
        """The method that is named first, and each label's share of its predictions, [k]."""
        if self.recommendation.if_balanced and self.after_bc is not None:
            return self.recommendation.if_balanced, self.after_bc
        return self.diagnosis.method, self.diagnosis.corrected

    @property
    def is_biased(self) -> bool:
        """True where the preference is more than two standard errors."""
        return float(np.ptp(self.diagnosis.preference)) > 2 * self.diagnosis.pair_error

    @property
    def preferred(self) -> str:
        """The label that is preferred most."""
        return self.diagnosis.label_names[int(self.diagnosis.preference.argmax())]


def follow(
    table: ScoreTable, recommendation: Recommendation, bias: np.ndarray | None
) -> np.ndarray:
    """The test rows as the recommendation corrects them, by its bias [k] where that is known."""
    if bias is not None and recommendation.method in (LIKELY, POOLED):
        return np.asarray(table.blocks["test"].log_probs - bias)
    blocks = {name: Evidence(*block[:2]) for name, block in table.blocks.items()}
    method, options = METHODS[recommendation.method], recommendation.options
    return np.asarray(correct_context(method, blocks, options=options).scores)


def judge_context(
    name: str, task: str, recommendation: Recommendation, table: ScoreTable, corrected: np.ndarray
) -> Verdict:
    """A context with its recommendation, and what that changes.

    Args:
        name: what the context is called.
        task: its task.
        recommendation: what is recommended for the scores.
        table: the context, with a block "test".
        corrected: [n, k], its test rows as the recommendation corrects them.
    """
    scores, labels, *_ = table.blocks["test"]
    diagnosis = diagnose_table(table, corrected, recommendation.method)
    after_bc = np.asarray(correct_context(METHODS["bc"], {"test": Evidence(scores)}).scores)
    shares = np.bincount(after_bc.argmax(axis=-1), minlength=len(table.label_names)) / len(scores)
    is_labeled = labels >= 0
    if not is_labeled.any():
        return Verdict(name, task, recommendation, diagnosis, None, None, after_bc=shares)
    gold = labels[is_labeled]

    def hits(rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows[is_labeled].argmax(axis=-1) == gold, float)

    gains = hits(corrected) - hits(scores)
    by_bc = hits(after_bc) - hits(scores)
    balanced = by_bc if recommendation.if_balanced else gains
    return Verdict(name, task, recommendation, diagnosis, gains, balanced, by_bc, shares)


def measured_gain(
    verdicts: Sequence[Verdict], gains_of: Callable[[Verdict], np.ndarray | None] = RECOMMENDED
) -> Estimate | None:
    """The gain over all contexts, mean over tasks; None where no right label is known.

    Contexts of one task on equally many rows are draws of demonstrations on the same rows.

    Args:
        verdicts: of the contexts.
        gains_of: `Verdict.gains` or `Verdict.balanced`.
    """
    by_task: dict[str, list[np.ndarray]] = {}
    for verdict in verdicts:
        if (of_rows := gains_of(verdict)) is not None:
            by_task.setdefault(verdict.task, []).append(of_rows)
    estimates = []
    for gains in by_task.values():
        is_even = len({len(rows) for rows in gains}) == 1
        groups = [np.array(gains)] if is_even else [rows[None] for rows in gains]
        estimates.append(over_tasks([over_rows(rows, OF_GAIN) for rows in groups]))
    return over_tasks(estimates) if estimates else None


def rows_to_settle(gain: Estimate, rows: int) -> int | None:
    """The labeled rows that would show a gain of this size beyond noise; None where that is many.

    An interval is half as wide for four times the rows.

    >>> rows_to_settle(Estimate(0.02, -0.02, 0.06), 100)
    400
    """
    reach = (gain.high - gain.low) / 2
    if not gain.value or (needed := rows * (reach / gain.value) ** 2) > MANY_ROWS:
        return None
    return int(np.ceil(round(needed, 6)))

"""Measured effects of advice on contexts; `reporting/words.py` has the sentences on them."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from batch_calibration.diagnosis.advice import EQUAL, LEAVE, STATED, Advice
from batch_calibration.diagnosis.diagnose import diagnose_table
from batch_calibration.diagnosis.diagnosis import AS_ADVISED, Diagnosis
from batch_calibration.diagnosis.recommend import follow_rows
from batch_calibration.methods import METHODS, Corrected, Evidence, correct_context
from batch_calibration.metrics import OF_GAIN, Estimate, gain_of, over_rows, over_tasks
from batch_calibration.scores import ScoreTable

MANY_ROWS = 1_000_000
"""The largest number of labeled rows that `rows_to_settle` returns."""
RECOMMENDED, IF_BALANCED = attrgetter("gains"), attrgetter("balanced")
"""Getters of the gains of the advice, and of the advice for balanced labels."""
BY_BC = attrgetter("by_bc")
"""The getter of the gains of BC with equal shares, whether or not it is recommended."""


class Verdict(NamedTuple):
    """The advice for a context and its measured effect.

    Attributes:
        name: the name of the context.
        task: the name of the task. Seeds of one task have the same rows.
        advice: the advice, with its reasons and the expected gain.
        diagnosis: the diagnosis of the advised correction.
        gains: the gain of each labeled row: 1 if its prediction becomes right, -1 if it becomes
            wrong, else 0; None without right labels.
        balanced: the same for `advice.balanced`; equal to `gains` if there is only one answer.
        by_bc: the same for BC with equal shares, whether or not it is advised.
        after_other: [k], the predicted share of each label after `advice.balanced`.
        record: the id of the context's score table.
    """

    name: str
    task: str
    advice: Advice
    diagnosis: Diagnosis
    gains: np.ndarray | None
    balanced: np.ndarray | None
    by_bc: np.ndarray | None = None
    after_other: np.ndarray | None = None
    record: str = ""

    @property
    def first_answer(self) -> tuple[str, np.ndarray]:
        """The name of the correction that reports show first, and its predicted shares [k]."""
        if self.advice.if_balanced and self.after_other is not None:
            return name_of(self.advice.balanced), self.after_other
        return self.diagnosis.method, self.diagnosis.corrected

    @property
    def is_biased(self) -> bool:
        """True if the preference is larger than two standard errors."""
        return float(np.ptp(self.diagnosis.preference)) > 2 * self.diagnosis.pair_error

    @property
    def preferred(self) -> str:
        """The most preferred label."""
        return self.diagnosis.label_names[int(self.diagnosis.preference.argmax())]


def follow(table: ScoreTable, advice: Advice) -> Corrected:
    """Corrects the test rows of a table as advised."""
    blocks = {name: Evidence(*block[:2]) for name, block in table.blocks.items()}
    return correct_context(METHODS[advice.method], blocks, options=advice.options)


def judge_context(
    name: str, task: str, advice: Advice, table: ScoreTable, by_bc: np.ndarray | None = None
) -> Verdict:
    """Measures the effect of advice on a context.

    Args:
        name: the name of the context.
        task: the name of its task.
        advice: the advice for its scores.
        table: the scores of the context, with a block "test".
        by_bc: the gains of BC, if they are known.
    """
    scores, labels, *_ = table.blocks["test"]
    corrected = other = np.asarray(follow(table, advice).scores)
    if advice.if_balanced:
        other = np.asarray(follow(table, advice.balanced).scores)
    diagnosis = diagnose_table(table, corrected, name_of(advice))
    shares = np.bincount(other.argmax(axis=-1), minlength=len(table.label_names)) / len(scores)
    verdict = Verdict(name, task, advice, diagnosis, None, None, None, shares, table.id)
    is_labeled = labels >= 0
    if not is_labeled.any():
        return verdict
    gold = labels[is_labeled]

    def gains(rows: np.ndarray) -> np.ndarray:
        is_right, was_right = (of[is_labeled].argmax(axis=-1) == gold for of in (rows, scores))
        return np.asarray(is_right.astype(float) - was_right)

    by_bc = gains(follow_rows(scores, "bc", {})) if by_bc is None else by_bc
    return verdict._replace(gains=gains(corrected), balanced=gains(other), by_bc=by_bc)


def name_of(advice: Advice) -> str:
    """Returns the name of an advised correction for sentences, such as "matching equal shares".

    Without shares, this is the name of the method.
    """
    return f"{AS_ADVISED}{advice.short}" if advice.source else advice.method


FARTHEST, FARTHEST_ERRORS = 0.12, 3.0
"""Thresholds for a contradiction: the share of a right label differs from its known share by more
than 12 points and by more than three standard errors."""


def doubt(table: ScoreTable, advice: Advice) -> Advice:
    """Adds a sentence to advice if the right labels of the rows contradict it.

    They contradict it if accuracy falls beyond noise, or if the shares of the right labels differ
    from the known shares (see `FARTHEST`).
    """
    scores, labels, *_ = table.blocks["test"]
    is_labeled, k = labels >= 0, len(table.label_names)
    if not is_labeled.any() or advice.method == LEAVE:
        return advice
    gold, sentences = labels[is_labeled], list[str]()
    shares = np.bincount(gold, minlength=k) / len(gold)
    corrected = np.asarray(follow(table, advice).scores)
    predicted = [of[is_labeled].argmax(axis=-1) for of in (scores, corrected)]
    before, after = (labels == gold for labels in predicted)
    gain = gain_of(before, after)
    if gain.beyond_noise < 0:
        sentences.append(
            f"on the {len(gold):,} right labels of these rows, accuracy falls from "
            f"{100 * before.mean():.1f} to {100 * after.mean():.1f} %"
        )
    # Shares that contradict the labels are no reason against a gain.
    if advice.source in (EQUAL, STATED) and advice.shares and gain.beyond_noise <= 0:
        known = np.array([*advice.shares.values()])
        error = np.sqrt(known * (1 - known) / len(gold) + (advice.error or 0.0) ** 2)
        away = np.abs(shares - known)
        place = int(away.argmax())
        if away[place] > max(FARTHEST, FARTHEST_ERRORS * error[place]):
            sentences.append(
                f"{table.label_names[place]!r} is right for {100 * shares[place]:.1f} % of "
                f"{len(gold):,} rows, which contradicts {100 * known[place]:.1f} %"
            )
    if not sentences:
        return advice
    correction = name_of(advice).removeprefix(AS_ADVISED)
    return advice._replace(doubt=f"Do not match {correction}: {'; '.join(sentences)}.")


def measured_gain(
    verdicts: Sequence[Verdict], gains_of: Callable[[Verdict], np.ndarray | None] = RECOMMENDED
) -> Estimate | None:
    """Estimates the mean gain over tasks; None without known right labels.

    If all contexts of a task have the same number of labeled rows, they count as draws of
    demonstrations for the same rows; otherwise, their errors count as independent.

    Args:
        verdicts: the verdicts of the contexts.
        gains_of: the gains of a verdict, such as `RECOMMENDED`, `IF_BALANCED` or `BY_BC`.
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
    """Returns the number of labeled rows for which a gain of this size is beyond noise.

    With four times the rows an interval is half as wide. None: the number exceeds `MANY_ROWS`, or
    the gain is 0.

    >>> rows_to_settle(Estimate(0.02, -0.02, 0.06), 100)
    400
    """
    reach = (gain.high - gain.low) / 2
    if not gain.value or (needed := rows * (reach / gain.value) ** 2) > MANY_ROWS:
        return None
    return int(np.ceil(round(needed, 6)))

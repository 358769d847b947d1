"""What a page says first: is a prompt biased, what to do, what that gains, and is it safe."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.diagnosis.diagnose import diagnose
from batch_calibration.diagnosis.findings import Diagnosis, factor, join_names
from batch_calibration.diagnosis.recommendation import LEAVE_IT, Recommendation
from batch_calibration.metrics import OF_GAIN, Estimate, over_rows, over_tasks

MAX_NAMED = 3  # labels and contexts that a sentence names; of more the number is told
MANY_ROWS = 1_000_000  # labeled rows beyond which the number that would settle a gain is not told


class Verdict(NamedTuple):
    """A context as the recommended method corrects it.

    Attributes:
        name: what it is called.
        task: the task, whose seeds have the same rows.
        recommendation: which method, why, and what to expect.
        diagnosis: of the scores that it corrects.
        gains: [n], of each labeled row right after less right before; None without right labels.
    """

    name: str
    task: str
    recommendation: Recommendation
    diagnosis: Diagnosis
    gains: np.ndarray | None

    @property
    def nats(self) -> float:
        """How far the label that is preferred most is above the least preferred."""
        return float(np.ptp(self.diagnosis.preference))

    @property
    def is_biased(self) -> bool:
        """Whether that is more than two standard errors."""
        return self.nats > 2 * self.diagnosis.pair_error

    @property
    def preferred(self) -> str:
        """The label that is preferred most."""
        return self.diagnosis.label_names[int(self.diagnosis.preference.argmax())]


def judge(
    name: str,
    task: str,
    recommendation: Recommendation,
    scores: np.ndarray,
    corrected: np.ndarray,
    labels: np.ndarray,
    label_names: Sequence[str],
    dtype: str = "",
) -> Verdict:
    """What a recommendation does to one context.

    Args:
        name: what the context is called.
        task: its task.
        recommendation: what is recommended for the scores.
        scores: [n, k], in nats.
        corrected: [n, k], as it corrects them.
        labels: [n], -1 where unknown.
        label_names: k names.
        dtype: what the model computed in, "" where it is not known.
    """
    is_labeled = labels >= 0
    diagnosis = diagnose(
        scores, labels if is_labeled.any() else None, corrected=corrected, label_names=label_names,
        method=recommendation.method, from_probs=False, dtype=dtype,
    )  # fmt: skip
    if not is_labeled.any():
        return Verdict(name, task, recommendation, diagnosis, None)
    gold = labels[is_labeled]
    before, after = (rows[is_labeled].argmax(axis=-1) == gold for rows in (scores, corrected))
    return Verdict(name, task, recommendation, diagnosis, after.astype(float) - before)


def measured_gain(verdicts: Sequence[Verdict]) -> Estimate | None:
    """The gain over all contexts, mean over tasks; None where no right label is known.

    Contexts of one task on equally many rows are draws of demonstrations on the same rows.
    """
    by_task: dict[str, list[np.ndarray]] = {}
    for verdict in verdicts:
        if verdict.gains is not None:
            by_task.setdefault(verdict.task, []).append(verdict.gains)
    estimates = []
    for gains in by_task.values():
        is_even = len({len(rows) for rows in gains}) == 1
        groups = [np.array(gains)] if is_even else [rows[None] for rows in gains]
        estimates.append(over_tasks([over_rows(rows, OF_GAIN) for rows in groups]))
    return over_tasks(estimates) if estimates else None


def rows_to_settle(gain: Estimate, rows: int) -> int | None:
    """How many labeled rows would show a gain of this size beyond noise; None where that is many.

    An interval is half as wide for four times the rows.

    >>> rows_to_settle(Estimate(0.02, -0.02, 0.06), 100)
    400
    """
    reach = (gain.high - gain.low) / 2
    if not gain.value or (needed := rows * (reach / gain.value) ** 2) > MANY_ROWS:
        return None
    return int(np.ceil(round(needed, 6)))


def headline(verdicts: Sequence[Verdict]) -> str:
    """What to do, and what it gains, in one sentence."""
    methods = {verdict.recommendation.short for verdict in verdicts}
    if methods == {LEAVE_IT}:
        return "Leave the scores as they are."
    does = f"{methods.pop()}" if len(methods) == 1 else "following the recommendations"
    gain = measured_gain(verdicts)
    if gain is None:
        expected = _expected(verdicts)
        gains = f"; to be expected are {expected.points} points" if expected else ""
        return f"Correct the scores: {does}{gains}."
    action = ("Within noise", "Correct the scores", "Leave the scores as they are")
    verb = ("changes accuracy by", "gains", "loses accuracy, ")[gain.beyond_noise]
    return f"{action[gain.beyond_noise]}: {does} {verb} {gain.points} points."


def facts(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Question -> what is known of it, over contexts of one model and setting."""
    answers = {
        "Biased?": _bias(verdicts),
        "Recommended": _recommended(verdicts),
        "Expected gain": _expected_sentence(verdicts),
        "Measured gain": _measured(verdicts),
        "Safe?": _safety(verdicts),
        "Rows that settle it": _rows(verdicts),
    }
    return {question: answer for question, answer in answers.items() if answer}


def _bias(verdicts: Sequence[Verdict]) -> str:
    if len(verdicts) == 1:
        (verdict,) = verdicts
        diagnosis = verdict.diagnosis
        if diagnosis.rows < 3:
            return "So few rows cannot say."
        least = diagnosis.label_names[int(diagnosis.preference.argmin())]
        answer = "Yes, towards" if verdict.is_biased else "Not beyond noise:"
        return (
            f"{answer} {verdict.preferred!r} over {least!r} by {verdict.nats:.2f} ± "
            f"{diagnosis.pair_error:.2f} nats, a factor of {factor(verdict.nats)}."
        )
    biased = [verdict for verdict in verdicts if verdict.is_biased]
    strongest = max(verdicts, key=lambda verdict: verdict.nats)
    median = float(np.median([verdict.nats for verdict in verdicts]))
    counts = Counter(verdict.preferred for verdict in verdicts).most_common(MAX_NAMED)
    towards = join_names(f"{label!r} in {count:,}" for label, count in counts)
    answer = "Yes" if len(biased) > len(verdicts) / 2 else "Mostly not"
    return (
        f"{answer}: in {len(biased):,} of {len(verdicts):,} contexts by more than two standard "
        f"errors; {median:.2f} nats in the median (a factor of {factor(median)}), at most "
        f"{strongest.nats:.2f} ± {strongest.diagnosis.pair_error:.2f} ({strongest.name}). "
        f"Towards {towards}."
    )


def _recommended(verdicts: Sequence[Verdict]) -> str:
    if len(verdicts) == 1:
        return verdicts[0].recommendation.reason[0]
    counts = Counter(verdict.recommendation.short for verdict in verdicts).most_common()
    listed = "; ".join(f"{name} in {count:,}" for name, count in counts)
    return f"{listed} of {len(verdicts):,} contexts."


def _expected(verdicts: Sequence[Verdict]) -> Estimate | None:
    """The mean of what is expected of each context, and of the ends of their intervals."""
    gains = [verdict.recommendation.expected.gain for verdict in verdicts]
    known = [gain for gain in gains if gain is not None]
    return Estimate(*np.mean(known, axis=0).tolist()) if known else None


def _expected_sentence(verdicts: Sequence[Verdict]) -> str:
    expected = _expected(verdicts)
    # Where all scores are left nothing is expected.
    if expected is None or expected == Estimate(0.0, 0.0, 0.0):
        return ""
    risks = [verdict.recommendation.expected.risk for verdict in verdicts]
    risk = f"{100 * float(np.nanmean(risks)):.0f} %"
    if len(verdicts) == 1:
        source = verdicts[0].recommendation.expected.source
        return f"{expected.points} points, with a risk of {risk} of a loss ({source})."
    return (
        f"{expected.points} points in a context, on average, with a risk of {risk} of a loss (by "
        "contexts of real models whose scores look alike)."
    )


def _measured(verdicts: Sequence[Verdict]) -> str:
    gain = measured_gain(verdicts)
    if gain is None:
        return "No right label is known."
    labeled = [verdict.diagnosis for verdict in verdicts if verdict.diagnosis.labeled]
    rows = sum(diagnosis.labeled for diagnosis in labeled)
    before = 100 * float(np.mean([d.before.accuracy.value for d in labeled if d.before]))
    after = 100 * float(np.mean([d.after.accuracy.value for d in labeled if d.after]))
    verdict = ("within noise", "a gain", "a loss")[gain.beyond_noise]
    over = ""
    if len(labeled) > 1:
        over = f" on average over {len({v.task for v in verdicts if v.gains is not None}):,} tasks"
    return (
        f"{gain.points} points{over}, {verdict}: accuracy moves from {before:.1f} to "
        f"{after:.1f} % ({rows:,} labeled rows, 95 % interval)."
    )


def _safety(verdicts: Sequence[Verdict]) -> str:
    judged = [verdict for verdict in verdicts if verdict.diagnosis.gain]
    diagnoses = [verdict.diagnosis for verdict in verdicts]
    sentences = []
    if judged:
        signs = [v.diagnosis.gain.beyond_noise for v in judged if v.diagnosis.gain]
        harmed = [verdict.name for verdict, sign in zip(judged, signs, strict=True) if sign < 0]
        named = f" ({join_names(harmed)})" if 0 < len(harmed) <= MAX_NAMED else ""
        if len(judged) > 1:
            sentences.append(
                f"{'No context' if not harmed else f'{len(harmed):,} of {len(judged):,} contexts'} "
                f"{'loses' if len(harmed) < 2 else 'lose'} accuracy beyond noise{named}, "
                f"{signs.count(1):,} gain."
            )
        else:
            answer = "No: accuracy falls" if harmed else "Yes: accuracy does not fall"
            sentences.append(f"{answer} beyond noise.")
    most = [int(diagnosis.predicted.argmax()) for diagnosis in diagnoses]
    pairs = list(zip(diagnoses, most, strict=True))
    before = 100 * float(np.mean([diagnosis.predicted[i] for diagnosis, i in pairs]))
    after = 100 * float(np.mean([diagnosis.corrected[i] for diagnosis, i in pairs]))
    subject = "The label predicted most is so"
    if len(pairs) == 1:
        subject = f"{diagnoses[0].label_names[most[0]]!r} is predicted"
    shares = f"{subject} for {before:.1f} % of the rows, after the correction for {after:.1f} %"
    right = [diagnosis.classes[i] for diagnosis, i in pairs if diagnosis.classes is not None]
    shares += f"; it is right for {100 * float(np.mean(right)):.1f} %" if right else ""
    return " ".join([*sentences, f"{shares}."])


def _rows(verdicts: Sequence[Verdict]) -> str:
    needed = [v.diagnosis.rows_needed for v in verdicts if v.diagnosis.rows_needed is not None]
    sentences = []
    if needed:
        rows = int(np.median([verdict.diagnosis.rows for verdict in verdicts]))
        of_each = "" if len(verdicts) == 1 else " in the median context"
        sentences.append(
            f"The bias is known to ± 0.1 nats from {int(np.median(needed)):,} rows{of_each} (there "
            f"are {rows:,})."
        )
    gain = measured_gain(verdicts)
    if gain is None:
        sentences.append("Labels of some rows would tell the gain.")
        return " ".join(sentences)
    labeled = sum(verdict.diagnosis.labeled for verdict in verdicts)
    if gain.beyond_noise:
        sentences.append(f"The gain is settled by these {labeled:,} labeled rows.")
    elif settled := rows_to_settle(gain, labeled):
        rounded = float(f"{settled:.2g}")
        sentences.append(
            f"A gain of this size would exceed noise from about {rounded:,.0f} labeled rows."
        )
    else:
        sentences.append("A gain this small would need more than a million labeled rows.")
    return " ".join(sentences)

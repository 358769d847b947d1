"""What a prompt prefers, what correcting it changes, and whether that helps: numbers and words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.api import calibrate
from batch_calibration.intervals import (
    Estimate,
    accuracy_interval,
    gain_interval,
    mean_recall_interval,
)
from batch_calibration.validation import check_labels, check_scores

DRAWS = 2000
"""Of rows, for intervals that have no closed form."""


class Right(NamedTuple):
    """How often predictions are right, where the right labels are known.

    Attributes:
        accuracy: of all labeled rows; the interval is the exact percentile bootstrap one.
        balanced: mean over labels that occur of the accuracy on rows of that label; the bootstrap
            draws rows within each label.
    """

    accuracy: Estimate
    balanced: Estimate


class Diagnosis(NamedTuple):
    """What one context's scores say, before and after a correction.

    Attributes:
        label_names: k names.
        method: what corrected them.
        rows: n.
        labeled: rows whose right label is known.
        preference: [k], mean log-probability of each label less the mean of those, in nats: which
            labels the prompt prefers, if the labels are about as frequent.
        classes: [k], share of each label among the right ones; None where none is known.
        predicted: [k], share of each label among the predictions from the scores as they are.
        corrected: [k], the same from the corrected scores.
        changed: indices of the rows whose prediction the correction changes.
        before: how often the scores as they are are right; None where no label is known.
        after: the same of the corrected scores.
        gain: accuracy after less accuracy before, paired by row (`intervals.gain_interval`).
    """

    label_names: tuple[str, ...]
    method: str
    rows: int
    labeled: int
    preference: np.ndarray
    classes: np.ndarray | None
    predicted: np.ndarray
    corrected: np.ndarray
    changed: np.ndarray
    before: Right | None
    after: Right | None
    gain: Estimate | None

    def sentences(self) -> list[str]:
        """What the prompt prefers, what the correction changes, and whether that helps."""
        high, low = int(self.preference.argmax()), int(self.preference.argmin())
        names, size = self.label_names, float(np.ptp(self.preference))
        said = [
            f"Averaged over {self.rows:,} rows, the scores favor {names[high]!r} over "
            f"{names[low]!r} by {size:.2f} nats (a factor of {_factor(size)}).",
            self._shares(),
            f"{self.method} changes the prediction of {len(self.changed):,} of {self.rows:,} rows "
            f"({100 * len(self.changed) / self.rows:.1f} %).",
        ]
        return [*said, *self._verdict()]

    def _shares(self) -> str:
        most = int(self.predicted.argmax())
        said = (
            f"{self.label_names[most]!r} is predicted for {100 * self.predicted[most]:.1f} % of "
            f"the rows, after the correction for {100 * self.corrected[most]:.1f} %"
        )
        if self.classes is None:
            return f"{said}."
        return f"{said}; it is right for {100 * self.classes[most]:.1f} % of the labeled ones."

    def _verdict(self) -> list[str]:
        k = len(self.label_names)
        if self.before is None or self.after is None or self.gain is None or self.classes is None:
            return [
                "No right label is known, so whether this helps cannot be said. BC supposes that "
                f"each of the {k} labels is right about equally often; where that is not so, give "
                "the shares that you expect (--prior)."
            ]
        said = f"Accuracy moves from {self.before.accuracy} to {self.after.accuracy} %: {{}}."
        points = "{:+.1f} points [{:+.1f}, {:+.1f}]".format(*(100 * x for x in self.gain))
        if self.gain.low > 0:
            words = [said.format(f"{points}, a gain")]
        elif self.gain.high < 0:
            words = [said.format(f"{points}, a loss: do not use it here")]
        else:
            words = [said.format(f"{points}, which is within the noise of so many rows")]
        never = [
            name for name, share in zip(self.label_names, self.classes, strict=True) if not share
        ]
        if never:
            words.append(
                f"No labeled row's right answer is {' or '.join(map(repr, never))}, but BC "
                "supposes that labels are right about equally often: give the shares that you "
                "expect (--prior), or leave such labels out (--labels)."
            )
        elif self.classes.max() > 2 * self.classes.min() and self.labeled >= 10 * k:
            words.append(
                f"The labels are uneven ({100 * self.classes.min():.1f} to "
                f"{100 * self.classes.max():.1f} % of the labeled rows); BC supposes that they are "
                "not: compare with --prior."
            )
        return words


def diagnose(
    scores: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    corrected: ArrayLike | None = None,
    label_names: Sequence[str] = (),
    method: str = "bc",
) -> Diagnosis:
    """What a prompt prefers, which predictions a correction changes, and whether it helps.

    Args:
        scores: [n, k], log-probabilities in nats.
        labels: [n], the right labels as column indices, -1 where unknown.
        corrected: [n, k], the corrected scores; by default `calibrate(scores, method)`.
        label_names: k names; by default "label 0" and so on.
        method: what corrected them, by its name in `METHODS`.

    Raises:
        InputError: as `calibrate`.

    >>> found = diagnose(20 * [[-1.0, -3.0], [-2.0, -2.5]], 20 * [0, 1])
    >>> print(found.before.accuracy, found.after.accuracy, len(found.changed))
    50.0 [35.0, 65.0] 100.0 [100.0, 100.0] 20
    """
    rows = check_scores(scores)
    after = np.asarray(calibrate(rows, method) if corrected is None else corrected)
    k = rows.shape[-1]
    gold = np.full(len(rows), -1) if labels is None else check_labels(labels, rows)
    known = gold >= 0
    mean = rows.mean(axis=0, dtype=np.float64)
    guess, new = rows.argmax(axis=-1), after.argmax(axis=-1)
    some = bool(known.any())
    names = tuple(label_names) or tuple(f"label {i}" for i in range(k))
    return Diagnosis(
        names, method, len(rows), int(known.sum()), mean - mean.mean(),
        _share(gold[known], k) if some else None, _share(guess, k), _share(new, k),
        np.flatnonzero(guess != new),
        _right(guess[known], gold[known], k) if some else None,
        _right(new[known], gold[known], k) if some else None,
        _gain(guess[known] == gold[known], new[known] == gold[known]) if some else None,
    )  # fmt: skip


def _share(labels: np.ndarray, k: int) -> np.ndarray:
    return np.bincount(labels, minlength=k) / len(labels)


def _right(guess: np.ndarray, gold: np.ndarray, k: int) -> Right:
    share = float((guess == gold).mean())
    low, high = accuracy_interval(share, len(gold))
    return Right(Estimate(share, float(low), float(high)), _balanced(guess == gold, gold, k))


def _balanced(hits: np.ndarray, gold: np.ndarray, k: int) -> Estimate:
    counts = np.bincount(gold, minlength=k)
    occurs = counts > 0
    recall, counts = np.bincount(gold, hits, minlength=k)[occurs] / counts[occurs], counts[occurs]
    ends = mean_recall_interval(recall, counts, np.random.default_rng(0), draws=DRAWS)
    return Estimate(float(recall.mean()), *ends)


def _gain(before: np.ndarray, after: np.ndarray) -> Estimate:
    """The difference of two accuracies on the same rows."""
    n = len(before)
    won, lost = int((after & ~before).sum()), int((before & ~after).sum())
    low, high = gain_interval(won, lost, n)
    return Estimate((won - lost) / n, float(low), float(high))


def _factor(nats: float) -> str:
    """The factor that so many nats are, in words."""
    return f"{np.exp(nats):.3g}" if nats < 14 else "more than a million"

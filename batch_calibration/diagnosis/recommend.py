"""Which correction to use on some scores, if any, and why."""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays import (
    column_numbers,
    in_label_order,
    in_row_order,
    is_frame,
    names_of,
)
from batch_calibration.diagnosis.cross_validation import LEAST_LABELED, ahead, measure
from batch_calibration.diagnosis.diagnose import accuracy_of, check_names
from batch_calibration.diagnosis.stability import pair_error
from batch_calibration.errors import InputError
from batch_calibration.methods import (
    METHODS,
    Evidence,
    ask_about_order,
    check_labels,
    check_options,
    check_scores,
)
from batch_calibration.metrics import Estimate

LEAVE, CORRECT, TO_SHARES = "icl", "bc", "prior_matching"
"""The methods that the rule names; `TO_SHARES` where it is there, else BC with the shares."""
LEAST_ROWS = 50
"""Rows below which scores do not show whether a label is ever right."""
SURE = 2.0
"""Standard errors by which a preference must exceed zero."""
INFORMATION = 0.05
"""Nats that a row's corrected scores must tell of its label on average."""
CONFIDENCE = 0.9
"""A label is doubtful if rows that BC gives it have less than this part of the others' mean
probability. All four numbers were found on the models of even index in ../shared/scores."""


class Signals(NamedTuple):
    """What unlabeled scores show of a correction by BC.

    Attributes:
        rows: n.
        preference: the largest mean score of a label less the least, in nats.
        error: its standard error, in nats.
        information: mean over rows of KL(Q_i || mean Q) with Q_i the label probabilities after BC:
            what a row's scores tell of its label, in nats.
        confidence: [k], the mean probability after BC of the rows that it gives to a label,
            divided by that of the rows it gives to others; NaN where it gives it none.
        doubtful: indices of the labels whose confidence is less than `CONFIDENCE`: one that is
            never right looks like that, for the rows it is given are rows of others.
        predicted: [k], share of each label among the predictions before BC, one more of each
            counted.
    """

    rows: int
    preference: float
    error: float
    information: float
    confidence: np.ndarray
    doubtful: tuple[int, ...]
    predicted: np.ndarray


class Recommendation(NamedTuple):
    """A method, or to leave the scores as they are, and the reasons.

    Attributes:
        method: a name from `METHODS`; "icl" leaves the scores as they are.
        options: what `calibrate(scores, method, **options)` takes beside the scores. A method that
            reads labels or probes needs `labeled`, `labels`, `probe` too.
        reason: sentences; the first is the recommendation.
        signals: what the unlabeled scores show.
        measured: method -> accuracy on the labeled rows, each judged by what the other ones teach;
            empty without labels.
    """

    method: str
    options: dict[str, tuple[float, ...]]
    reason: tuple[str, ...]
    signals: Signals
    measured: dict[str, Estimate]


def signals(scores: ArrayLike) -> Signals:
    """What unlabeled scores [n, k], in nats, show of a correction by BC.

    >>> found = signals(10 * [[-1.0, -3.0], [-2.0, -2.5]])
    >>> round(found.preference, 2), round(found.information, 3), found.doubtful
    (1.25, 0.066, ())
    """
    rows = np.asarray(scores, np.float64)
    n, k = rows.shape
    mean = rows.mean(axis=0)
    after = _probs(rows - mean)  # [n, k], probabilities after BC
    # A probability that underflowed to 0 adds nothing, where 0 * log 0 would be NaN.
    log_ratio = np.log(np.maximum(after, np.finfo(float).tiny)) - np.log(after.mean(axis=0))
    confidence_of_row, label_of_row = after.max(axis=-1), after.argmax(axis=-1)
    counts = np.bincount(label_of_row, minlength=k)
    sums = np.bincount(label_of_row, confidence_of_row, minlength=k)
    # A label that no row or every row is given has no other to compare with: NaN.
    with np.errstate(invalid="ignore", divide="ignore"):
        confidence = (sums / counts) / ((sums.sum() - sums) / (n - counts))
    # One more of each, so that no share is 0.
    predicted = np.bincount(rows.argmax(axis=-1), minlength=k) + 1.0
    return Signals(
        n,
        float(np.ptp(mean)),
        pair_error(rows, int(mean.argmax()), int(mean.argmin())),
        float((after * log_ratio).sum(axis=-1).mean()),
        confidence,
        tuple(np.flatnonzero(confidence < CONFIDENCE).tolist()),
        predicted / predicted.sum(),
    )


def recommend(
    scores: ArrayLike,
    *,
    probe: ArrayLike | None = None,
    labeled: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    target_prior: Sequence[float] | Mapping[Hashable, float] | None = None,
    label_names: Sequence[str] = (),
    from_probs: bool | None = None,
) -> Recommendation:
    """Which method to use on these scores, or to leave them as they are, and why.

    Without labels, in this order:

    1. Shares of the labels are given: match them (BC where they are equal).
    2. Fewer than 50 rows, a preference within two standard errors, or rows whose corrected scores
       tell less than 0.05 nats of their label: leave the scores.
    3. Labels are doubtful (BC gives them rows, but with less than 0.9 of the probability that the
       rows of other labels have): BC with a target prior that gives each of these the share that
       it is predicted for now, at most an equal one, and the others equal shares.
    4. Else BC.

    With labeled rows, another method is taken if its accuracy on them, each judged by what the
    others teach, is ahead of that choice by more than a standard error.

    The scores must be in nats: cosines, whose differences are small, look as if they told nothing.
    The constants were found on half of the real models of ../shared/scores and hold on the other
    half: `python -m benchmarks.recommendation`.

    Args:
        scores: [n, k], log-probabilities in nats of unlabeled rows of one prompt.
        probe: [m, k], scores of content-free prompts, for cc to be measured too.
        labeled: [m, k], scores of labeled rows of the same prompt; 16 or more are measured.
        labels: [m], their labels as indices or names of columns; -1 means unknown.
        target_prior: [k], the share of each label that you expect, in order or by name; equal
            shares say that BC's supposition holds.
        label_names: k names for the sentences; by default those of a frame's columns.
        from_probs: whether scores, probe and labeled are probabilities, as in `calibrate`.

    Raises:
        InputError: as `calibrate`; labeled without labels or the reverse; a probe without them.

    >>> found = recommend(30 * [[-1.0, -3.0], [-2.0, -2.5]], label_names=("no", "yes"))
    >>> found.method, found.reason[0]
    ('bc', "Use bc, for the scores favor 'no' by 1.25 ± 0.10 nats.")
    """
    rows = check_scores(scores, from_probs=from_probs)
    # Logits may be above 0 in all of few rows.
    read = partial(check_scores, from_probs=from_probs, beside_others=bool((rows > 0).any()))
    k = rows.shape[-1]
    if rows.ndim != 2:
        raise InputError(
            where="scores", expected="[n, k], the rows of one prompt", got=f"shape {rows.shape}",
            remedy="give one prompt's rows at a time",
        )  # fmt: skip
    columns, names = names_of(scores), check_names(label_names, scores, k)
    seen = signals(rows)
    if target_prior is not None:
        shares = in_label_order(target_prior, columns, "target_prior", k)
        check_options(CORRECT, METHODS[CORRECT].make, {"target_prior": shares}, k)
        method, options, why = _to_shares(tuple(map(float, shares)))
    else:
        method, options, why = _from_scores(rows, seen, names)
    if (labeled is None) != (labels is None) or (labeled is None and probe is not None):
        raise InputError(
            where="recommend", remedy="give what is missing or leave all out",
            expected="labeled=[m, k] and labels=[m] together, and probe= only beside them, "
            "for it is measured there",
        )  # fmt: skip
    if labeled is None:
        return Recommendation(method, options, tuple(why), seen, {})

    def read_by_name(source: ArrayLike, where: str) -> np.ndarray:
        return read(source, where, labels=k, columns=columns if is_frame(source) else None)

    labeled_rows = read_by_name(labeled, "labeled")
    gold = in_row_order(labels, "labels", labeled, "labeled")
    gold = check_labels(column_numbers(gold, columns or names_of(labeled)), labeled_rows)
    if (gold >= 0).sum() < LEAST_LABELED:
        few = f"{(gold >= 0).sum()} labeled rows are too few to measure (less than {LEAST_LABELED})"
        return Recommendation(method, options, (*why, f"{few}."), seen, {})
    # Rows without a label are left out: `measure` takes all labels of a block for known.
    blocks = {"test": Evidence(rows), "labeled": Evidence(labeled_rows[gold >= 0], gold[gold >= 0])}
    if probe is not None:
        blocks["cc"] = Evidence(read_by_name(probe, "probe"))
    hits = measure(blocks, method, options)
    best, lead, error = ahead(hits, method)
    accuracies = {name: accuracy_of(hit) for name, hit in hits.items()}
    doubt = filter(None, [ask_about_order(labeled_rows, gold)])
    comparison = (
        f"On {len(gold[gold >= 0]):,} labeled rows, each judged by what the others teach, "
        f"{LEAVE} has {accuracies[LEAVE]} % right and {method} {accuracies[method]} %"
    )
    if best == method:
        why.append(f"{comparison}; no method is ahead of it by more than a standard error.")
        why += doubt
        return Recommendation(method, options, tuple(why), seen, accuracies)
    advice = "Leave the scores as they are" if best == LEAVE else f"Use {best}"
    why = [
        f"{advice}, for it has {accuracies[best]} % of {len(hits[best]):,} labeled rows right, "
        f"{100 * lead:.1f} ± {100 * error:.1f} points more than {method}, which the scores alone "
        "recommend.",
        f"{comparison}.",
        *doubt,
    ]
    return Recommendation(best, {}, tuple(why), seen, accuracies)


Choice = tuple[str, dict[str, tuple[float, ...]], list[str]]
"""A method, its options, and why."""


def _to_shares(shares: tuple[float, ...]) -> Choice:
    if np.ptp(shares) < 1e-6:  # equal but for rounding
        return CORRECT, {}, [f"Use {CORRECT}, for labels are said to be right equally often."]
    name = TO_SHARES if TO_SHARES in METHODS else CORRECT
    why = f"Use {name} with the shares that are given, which tell bias from what is right."
    return name, {"target_prior": shares}, [why]


def _from_scores(rows: np.ndarray, seen: Signals, names: Sequence[str]) -> Choice:
    if seen.rows < LEAST_ROWS:
        return _leave(f"so few rows ({seen.rows:,}, less than {LEAST_ROWS}) do not show whether "
                      "a correction is safe", INSTEAD)  # fmt: skip
    mean = rows.mean(axis=0, dtype=np.float64)  # [k], nats
    favors = (
        f"the scores favor {names[int(mean.argmax())]!r} by {seen.preference:.2f} ± "
        f"{seen.error:.2f} nats"
    )
    if seen.preference <= SURE * seen.error:
        return _leave(f"{favors}, which may be noise")
    if seen.information < INFORMATION:
        return _leave(
            f"once the preference is removed they tell {seen.information:.3f} nats of a row's "
            f"label (less than {INFORMATION:g}), so that a correction only moves guesses",
            INSTEAD,
        )
    if not seen.doubtful:
        return CORRECT, {}, [f"Use {CORRECT}, for {favors}."]
    return _cautious(seen, names, favors)


INSTEAD = (
    "If you know how often each label is right, give that (target_prior); labeled rows say most "
    "(labeled, labels)."
)


def _leave(why: str, *more: str) -> Choice:
    return LEAVE, {}, [f"Leave the scores as they are, for {why}.", *more]


def _cautious(seen: Signals, names: Sequence[str], favors: str) -> Choice:
    """BC that gives doubtful labels no larger share than they have."""
    k, doubtful = len(names), list(seen.doubtful)
    listed = ", ".join(repr(names[label]) for label in doubtful[:5])
    listed += f" and {len(doubtful) - 5} more" if len(doubtful) > 5 else ""
    # Doubtful labels keep what they are predicted for now, the others share the remainder.
    prior = np.zeros(k)
    prior[doubtful] = np.minimum(seen.predicted[doubtful], 1 / k)
    sure = np.setdiff1d(np.arange(k), doubtful)
    # Never empty: the most confident label has a ratio of 1 or more, or NaN, and is not doubtful.
    prior[sure] = (1 - prior.sum()) / len(sure)
    least_confident = doubtful[int(seen.confidence[doubtful].argmin())]
    return CORRECT, {"target_prior": tuple(prior.tolist())}, [
        f"Use {CORRECT} with a target prior that gives {listed} no larger share than they are "
        f"predicted for now, for {favors}.",
        f"The rows that {CORRECT} would give {names[least_confident]!r} have "
        f"{100 * seen.confidence[least_confident]:.0f} % of the probability that rows of other "
        "labels have: a label that is never right looks like that.",
        INSTEAD,
    ]  # fmt: skip


def _probs(rows: np.ndarray) -> np.ndarray:
    """The softmax over labels."""
    # The largest becomes exp(0), so none overflows.
    raised = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))

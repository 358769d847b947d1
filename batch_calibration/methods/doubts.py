"""Doubts about rows: too few, right labels against them, methods that they rule out."""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from batch_calibration.methods.table import METHODS, Options

MIN_ROWS_WITHOUT_WARNING = 10
"""Rows below which a warning says so. Accuracy on all rows with a bias learned from 2, 10, 50 of
them, and from all: 37.8, 39.5, 40.3, 40.5 % (MMLU, 7 models, every eighth subject), 21.1, 23.9,
24.6, 24.8 % (BEAR, GPT-2, 20 relations); ICL: 36.9, 18.6 (`python -m benchmarks.few_rows`)."""
LEAST_LABELED = 20
"""Labeled rows below which nothing is asked about them."""
LEAST_PROBABILITY = 1e-4
"""What so few right answers must be less likely than, if predictions knew nothing."""


def warn_of_few_rows(method: str, reads: Sequence[str], rows: int, where: str = "scores") -> None:
    """Warns the caller's caller where a method that reads the batch has few rows of it."""
    if "test" not in reads or rows >= MIN_ROWS_WITHOUT_WARNING:
        return
    warning = f"{method} learns its bias from {rows} rows, which is rough"
    if rows == 1:
        warning = (
            f"{method} learns its bias from this row alone, so that nothing tells its labels apart"
        )
    warnings.warn(
        f"{where}: {warning}; give {MIN_ROWS_WITHOUT_WARNING} rows of one prompt or more, or fit "
        "on earlier ones.",
        stacklevel=3,  # the line that called the function that calls this
    )


def ask_about_order(scores: np.ndarray, gold: np.ndarray) -> str:
    """A question where the highest score is right less often than chance has it, else "".

    It is asked where that is so for the scores and for the scores without their bias (BC), so that
    a bias alone does not raise it. Chance is 1 / k, or less where the predicted and the right
    labels are distributed unlike each other.

    Args:
        scores: [n, k], in nats.
        gold: [n], the right label's column, -1 where unknown.

    >>> labels = np.arange(40) % 2
    >>> print(ask_about_order(2.0 * np.eye(2)[1 - labels], labels)[:62])
    The highest score is right for 0.0 % of 40 labeled rows, and f
    """
    from scipy.special import bdtr  # the binomial distribution; takes a while to import

    rows, gold = np.asarray(scores, np.float64)[gold >= 0], np.asarray(gold)[gold >= 0]
    n, k = rows.shape
    if n < LEAST_LABELED:
        return ""
    shares, chances = [], []
    for guess in (rows.argmax(axis=-1), (rows - rows.mean(axis=0)).argmax(axis=-1)):
        counts = np.bincount(guess, minlength=k) * np.bincount(gold, minlength=k)
        chance = min(1 / k, counts.sum() / n**2)
        right = int((guess == gold).sum())
        if bdtr(right, n, chance) >= LEAST_PROBABILITY:
            return ""
        shares.append(100 * right / n)
        chances.append(100 * chance)
    lowest = 100 * float((rows.argmin(axis=-1) == gold).mean())
    return (
        f"The highest score is right for {shares[0]:.1f} % of {n:,} labeled rows, and for "
        f"{shares[1]:.1f} % once the bias is removed, where chance is {min(chances):.1f} %; the "
        f"lowest is right for {lowest:.1f} %. Are these losses, of which the lowest is the best "
        "(give their negatives), or are the right labels shifted, such as counted from 1?"
    )


def warn_about_order(scores: np.ndarray, gold: np.ndarray, where: str = "labels") -> None:
    """Warns the caller's caller with the question of `ask_about_order`, for rows [..., n, k]."""
    k = scores.shape[-1]
    if question := ask_about_order(scores.reshape(-1, k), np.asarray(gold).reshape(-1)):
        warnings.warn(f"{where}: {question}", stacklevel=3)


def find_unusable(
    methods: Iterable[str],
    label_count: int,
    rows: Mapping[str, int],
    *,
    no_level: str = "",
    unlabeled: Collection[str] = (),
    options: Mapping[str, Options] | None = None,
) -> dict[str, str]:
    """Those of the methods that cannot be used: name -> why.

    Args:
        methods: names from `METHODS`.
        label_count: k.
        rows: block -> how many rows it has.
        no_level: why the scores are no log-probabilities over the vocabulary, "" where they are.
        unlabeled: blocks of which no right label is known.
        options: method -> its options, which may make it need what it does not by default.

    >>> find_unusable(["cc", "bc"], 2, {"test": 9})
    {'cc': "no block 'cc' in the table"}
    """
    reasons = {}
    for name in methods:
        method = METHODS[name]
        for block in method.probe.blocks:
            if block not in rows:
                reasons[name] = f"no block {block!r} in the table"
            elif (counts := method.probe.row_counts(rows["test"], label_count)) and (
                rows[block] not in counts
            ):
                expected = method.probe.describe_counts(rows["test"], label_count)
                reasons[name] = f"the block {block!r} has {rows[block]} rows, not {expected}"
            elif block in method.probe.labeled and block in unlabeled:
                reasons[name] = f"no row of the block {block!r} has a right label"
        if method.most_labels is not None and label_count > method.most_labels:
            reasons[name] = (
                f"{label_count} labels are more than the {method.most_labels} it can tell apart"
            )
        if no_level and method.needs_log_probs_with((options or {}).get(name)):
            reasons[name] = f"it needs log-probabilities over the whole vocabulary, and {no_level}"
    return reasons

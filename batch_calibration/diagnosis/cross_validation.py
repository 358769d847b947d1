"""Accuracy of each method on labeled rows that it did not learn from."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from batch_calibration.methods import METHODS, Evidence, Method, correct_context, no_log_probs

Options = Mapping[str, float | tuple[float, ...]]
FOLDS = 8
PAIRS = np.column_stack(np.triu_indices(FOLDS))
"""[36, 2], the folds that are held out together; a fold alone is paired with itself."""
FEWEST_LABELED_TO_MEASURE = 16
"""Labeled rows below which nothing is measured."""
CANDIDATES = (
    "icl", "cc", "bc", "bcl", "bc_empirical_bayes", "bcl_empirical_bayes", "prior_counted",
    "rbcorr", "vector",
)  # fmt: skip
"""Few, of unlike kinds: the more are compared on few rows, the more often luck decides."""
CLEAR = 2.0
"""Standard errors by which another method must be ahead of the default."""


class Choice(NamedTuple):
    """A method that labeled rows choose.

    Attributes:
        method: its name.
        hits: method -> [m], whether it is right on each labeled row, learned without its fold.
        held_out: [m], whether the choice is right: of each fold the method that the rows of the
            other folds choose, without a fit that saw it. No row judges what it helped to choose.
        lead: the method's accuracy less the default's.
        error: the standard error of that, paired by row.
    """

    method: str
    hits: dict[str, np.ndarray]
    held_out: np.ndarray
    lead: float
    error: float


def choose_by_labels(blocks: Mapping[str, Evidence], default: str, options: Options) -> Choice:
    """The default, or a method that is ahead of it by more than two standard errors.

    Rows are held out in `FOLDS` parts, drawn at random, and in pairs of parts.

    Args:
        blocks: "test" and "labeled", whose labels are all known, and others that are there.
        default: a method.
        options: of `default`.
    """
    rows = np.asarray(blocks["test"].log_probs)
    names = [name for name in CANDIDATES if _is_measurable(name, blocks, rows)]
    gold = np.asarray(blocks["labeled"].labels)
    # At random: folds of equal shares of labels would tell of the rows held out what is learned.
    fold_of_row = np.random.default_rng(0).permutation(len(gold)) % FOLDS
    by_pair = {}
    for name in dict.fromkeys([*names, default]):
        by_pair[name] = _hits(name, blocks, options if name == default else {}, fold_of_row)
    hits = {name: _of_own_fold(grid, fold_of_row) for name, grid in by_pair.items()}
    held_out = np.empty(len(gold), bool)
    for fold in range(FOLDS):
        is_out = fold_of_row == fold
        # Hits on the rows of other folds, by fits that saw neither these nor this fold.
        by_other_fits = {}
        for name, grid in by_pair.items():
            by_other_fits[name] = grid[fold, fold_of_row[~is_out], ~is_out]
        best, _, _ = ahead(by_other_fits, default)
        held_out[is_out] = hits[best][is_out]
    method, lead, error = ahead(hits, default)
    return Choice(method, hits, held_out, lead, error)


def _is_measurable(name: str, blocks: Mapping[str, Evidence], rows: np.ndarray) -> bool:
    method: Method | None = METHODS.get(name)
    return (
        method is not None
        and set(method.probe.blocks) <= set(blocks)
        # None stands for any number of labels
        and rows.shape[-1] <= (method.most_labels or rows.shape[-1])
        and not (method.needs_log_probs and no_log_probs(rows))
    )


def _hits(
    name: str, blocks: Mapping[str, Evidence], options: Options, folds: np.ndarray
) -> np.ndarray:
    """[folds, folds, m]: whether each row is right by a fit that saw neither fold."""
    gold = np.asarray(blocks["labeled"].labels)
    method, labeled = METHODS[name], blocks["labeled"]
    right = list[np.ndarray]()
    for pair in PAIRS:
        if not right or "labeled" in method.probe.blocks:  # else all fits are one
            weight = np.all(folds != pair[:, None], axis=0).astype(np.float32)
            learned = {**blocks, "labeled": labeled._replace(weight=weight)}
            rows = np.asarray(labeled.log_probs)
            corrected = correct_context(method, learned, rows, options=options)
            is_right = np.argmax(corrected.scores, axis=-1) == gold
        right.append(is_right)
    grid = np.empty((FOLDS, FOLDS, len(gold)), bool)
    for (first, second), of_pair in zip(PAIRS, right, strict=True):
        grid[first, second] = grid[second, first] = of_pair
    return grid


def _of_own_fold(grid: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """[m]: each row by the fit that held out its fold alone."""
    return np.asarray(grid[folds, folds, np.arange(len(folds))])


def ahead(hits: Mapping[str, np.ndarray], default: str) -> tuple[str, float, float]:
    """The method that is ahead of `default` most clearly, beyond two standard errors, or `default`.

    Returns:
        Its name, its lead in accuracy, and the standard error of that, paired by row.

    >>> ahead({"a": np.arange(9) < 2, "b": np.arange(9) < 8}, "a")[0]
    'b'
    >>> ahead({"a": np.arange(9) < 5, "b": np.arange(9) < 7}, "a")[0]
    'a'
    """
    # By how much a lead exceeds its standard errors; the default's own is 0.
    best, lead, error, most = default, 0.0, 0.0, 0.0
    for name, hit in hits.items():
        gains = hit.astype(float) - hits[default]
        mean, noise = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))
        if mean - CLEAR * noise > most:
            best, lead, error, most = name, mean, noise, mean - CLEAR * noise
    return best, lead, error

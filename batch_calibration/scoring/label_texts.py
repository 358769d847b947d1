"""Labels of several texts: their texts in one list, and scores or embeddings brought together."""

from collections.abc import Sequence

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scoring import LabelTexts, LogProbs


def flatten(labels: LabelTexts) -> tuple[list[str], list[int]]:
    """All texts of all labels, and how many each label has; `InputError` where one has none.

    >>> flatten([" good", (" bad", " poor")])
    ([' good', ' bad', ' poor'], [1, 2])
    """
    parts = [[label] if isinstance(label, str) else list(label) for label in labels]
    if not all(parts):
        raise InputError(
            where=f"label {parts.index([]) + 1}", expected="one text or more", got="none"
        )
    return [text for part in parts for text in part], [len(part) for part in parts]


def sum_probabilities(log_probs: LogProbs, counts: Sequence[int]) -> LogProbs:
    """Scores `[n, sum(counts)]` of texts as those of labels `[n, k]`: log sum_f p(f), in nats.

    >>> sum_probabilities(np.log(np.float32([[0.1, 0.2, 0.4]])), [2, 1]).round(3).tolist()
    [[-1.2039999961853027, -0.9160000085830688]]
    """
    if len(counts) == log_probs.shape[1]:
        return log_probs
    parts = np.split(log_probs, np.cumsum(counts)[:-1], axis=1)
    return np.stack([np.logaddexp.reduce(part, axis=1) for part in parts], axis=1)


def average_embeddings(embeddings: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Unit vectors `[sum(counts), d]` of texts as those of labels `[k, d]`: means of length one."""
    if len(counts) == len(embeddings):
        return embeddings
    parts = np.split(embeddings, np.cumsum(counts)[:-1])
    means = np.stack([part.mean(axis=0) for part in parts])
    unit: np.ndarray = means / np.linalg.norm(means, axis=1, keepdims=True)
    return unit

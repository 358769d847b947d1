"""Labels of several texts: their texts in one list, and scores or embeddings brought together."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scoring import LabelTexts, LogProbs


def flatten(labels: LabelTexts) -> tuple[list[str], list[int]]:
    """All texts of all labels, and how many each label has; `InputError` where one has none.

    >>> flatten([" good", (" bad", " poor")])
    ([' good', ' bad', ' poor'], [1, 2])
    """
    texts_of_labels = [[label] if isinstance(label, str) else list(label) for label in labels]
    if not all(texts_of_labels):
        raise InputError(
            where=f"label {texts_of_labels.index([]) + 1}", expected="one text or more", got="none"
        )
    return list(chain.from_iterable(texts_of_labels)), list(map(len, texts_of_labels))


def sum_probabilities(log_probs: LogProbs, counts: Sequence[int]) -> LogProbs:
    """Scores `[n, sum(counts)]` of texts as those of labels `[n, k]`: log sum_f p(f), in nats.

    >>> sum_probabilities(np.log(np.float32([[0.1, 0.2, 0.4]])), [2, 1]).round(3).tolist()
    [[-1.2039999961853027, -0.9160000085830688]]
    """
    if len(counts) == log_probs.shape[1]:  # one text each: bit for bit as they are
        return log_probs
    forms_of_labels = np.split(log_probs, np.cumsum(counts)[:-1], axis=1)  # k times [n, forms]
    return np.stack([np.logaddexp.reduce(forms, axis=1) for forms in forms_of_labels], axis=1)


def average_embeddings(embeddings: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Unit vectors `[sum(counts), d]` of texts as those of labels `[k, d]`: means of length one."""
    if len(counts) == len(embeddings):
        return embeddings
    forms_of_labels = np.split(embeddings, np.cumsum(counts)[:-1])
    means = np.stack([forms.mean(axis=0) for forms in forms_of_labels])
    unit: np.ndarray = means / np.linalg.norm(means, axis=1, keepdims=True)  # [k, d]
    return unit

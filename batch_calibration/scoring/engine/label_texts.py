"""Labels of several texts: their texts in one list, and scores or embeddings brought together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scoring import Finished, LabelScores, LabelTexts, LogProbs


class Part(NamedTuple):
    """Some rows whose texts are tokenized.

    Attributes:
        start: the number of the first.
        lengths: tokens of each prompt.
        run: rows of the part that are finished -> the others and their scores, batch by batch.
    """

    start: int
    lengths: Sequence[int]
    run: Callable[[set[int]], Iterator[tuple[list[int], np.ndarray]]]


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


def score_parts(
    parts: Iterable[Part],
    labels: LabelTexts,
    rows: int,
    progress: Callable[[int], None] | None,
    finished: Finished,
) -> LabelScores:
    """The scores of all parts, `rows` together; progress and finished rows as a scorer has them.

    Raises:
        InputError: a score that is not a number.
    """
    forms, counts = flatten(labels)
    log_probs = np.zeros((rows, len(forms)), np.float32)
    tokens = np.zeros(rows, np.int32)
    finished_rows = finished.rows
    for row, row_scores in finished_rows.items():
        log_probs[row] = row_scores
    rows_done = len(finished_rows)
    for start, lengths, run in parts:
        tokens[start : start + len(lengths)] = lengths
        for batch, scores in run({row - start for row in finished_rows}):
            numbers = [start + row for row in batch]
            if not np.isfinite(scores).all():
                row, form = np.argwhere(~np.isfinite(scores))[0]
                raise InputError(
                    where=f"row {numbers[row]}, label {forms[form]!r}",
                    expected="a finite log-probability", got=f"{scores[row, form]}",
                    remedy="the checkpoint's numbers overflow",
                )  # fmt: skip
            log_probs[numbers] = scores
            finished.add(numbers, scores)
            rows_done += len(batch)
            if progress:
                progress(rows_done)
    return LabelScores(sum_probabilities(log_probs, counts), tokens)


def average_embeddings(embeddings: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Unit vectors `[sum(counts), d]` of texts as those of labels `[k, d]`: means of length one."""
    if len(counts) == len(embeddings):
        return embeddings
    forms_of_labels = np.split(embeddings, np.cumsum(counts)[:-1])
    means = np.stack([forms.mean(axis=0) for forms in forms_of_labels])
    unit: np.ndarray = means / np.linalg.norm(means, axis=1, keepdims=True)  # [k, d]
    return unit

"""The base class of all scorers, and labels of several texts with summed probabilities."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from batch_calibration import scoring
from batch_calibration.errors import InputError, spell
from batch_calibration.scoring import NOTHING_FINISHED, Finished, ImageInputs, Inputs, LabelScores

Batches = Iterator[tuple[list[int], np.ndarray]]
"""Rows and their scores `[rows, k]`, batch by batch."""


class Asked(NamedTuple):
    """The arguments of one call of `score`.

    Attributes:
        inputs: texts or images to score.
        labels: labels as the caller passed them.
        forms: the texts of all labels in one list.
        counts: number of texts of each label.
        progress: called with the number of rows done so far.
        finished: rows with scores from an earlier run; it also stores new batches.
    """

    inputs: Inputs
    labels: scoring.LabelTexts
    forms: list[str]
    counts: list[int]
    progress: Callable[[int], None]
    finished: Finished


Part = tuple[int, Sequence[int], Callable[[set[int]], Batches]]
"""A part of the rows, tokenized: the index of its first row, the token count of each prompt, and a
function. The function takes the finished rows of the part and yields the others with their
scores."""


def flatten(labels: scoring.LabelTexts) -> tuple[list[str], list[int]]:
    """Returns all texts of all labels in one list, and the number of texts of each label.

    Raises:
        InputError: a label has no text.

    >>> flatten([" good", (" bad", " poor")])
    ([' good', ' bad', ' poor'], [1, 2])
    """
    texts_of_labels = [[label] if isinstance(label, str) else list(label) for label in labels]
    if not all(texts_of_labels):
        raise InputError.at(f"label {texts_of_labels.index([]) + 1}", "one text or more", "none")
    return list(chain.from_iterable(texts_of_labels)), list(map(len, texts_of_labels))


def sum_probabilities(log_probs: scoring.LogProbs, counts: Sequence[int]) -> scoring.LogProbs:
    """Sums scores `[n, sum(counts)]` of texts to scores `[n, k]` of labels: log sum p, in nats.

    >>> sum_probabilities(np.log(np.float32([[0.1, 0.2, 0.4]])), [2, 1]).round(3).tolist()
    [[-1.2039999961853027, -0.9160000085830688]]
    """
    if len(counts) == log_probs.shape[1]:  # One text a label: the scores stay as they are.
        return log_probs
    forms_of_labels = np.split(log_probs, np.cumsum(counts)[:-1], axis=1)  # k times [n, forms]
    return np.stack([np.logaddexp.reduce(forms, axis=1) for forms in forms_of_labels], axis=1)


def average_embeddings(embeddings: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Averages unit vectors `[sum(counts), d]` of texts to unit vectors `[k, d]` of labels."""
    if len(counts) == len(embeddings):
        return embeddings
    forms_of_labels = np.split(embeddings, np.cumsum(counts)[:-1])
    means = np.stack([forms.mean(axis=0) for forms in forms_of_labels])
    return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True))  # [k, d]


class LabelScorer:
    """The base class of scorers: `score` flattens the labels and sums the texts of each label.

    A subclass for a language model implements `_parts`; another subclass implements `_score`.

    Attributes:
        notes: sentences to print after the run.

    Args:
        reader: the name of the network or server, with which its error messages begin.
        batch_size: maximum rows in a batch.
    """

    def __init__(self, reader: str, batch_size: int = 1):
        if batch_size < 1:
            raise InputError(where="batch_size", expected="1 or more rows", got=batch_size)
        self.batch_size = batch_size
        self.notes: list[str] = []
        self._reader = reader

    def score(
        self,
        inputs: Inputs,
        labels: scoring.LabelTexts,
        *,
        progress: Callable[[int], None] | None = None,
        finished: Finished = NOTHING_FINISHED,
    ) -> LabelScores:
        """Scores each label for each input, as `Scorer.score` does.

        Returns:
            `log_probs [n k]` in nats and the inputs' token counts `[n]`, rows in the order given.

        Raises:
            InputError: the model cannot score an input or a label; a score is not a finite number.
                The class lists further cases.
        """
        forms, counts = flatten(labels)
        notify = progress or (lambda _: None)
        return self._score(Asked(inputs, labels, forms, counts, notify, finished))

    def _texts(self, inputs: Inputs) -> Sequence[str]:
        if isinstance(inputs, ImageInputs):
            remedy = "score images with DualEncoder and a CLIP checkpoint"
            raise InputError.at(self._reader, "texts", "images", remedy)
        return inputs

    def _parts(self, texts: Sequence[str], forms: Sequence[str]) -> Iterator[Part]:
        """Yields the tokenized parts of the rows. Scorers with their own `_score` have no parts."""
        raise NotImplementedError

    def _score(self, asked: Asked) -> LabelScores:
        texts, finished = self._texts(asked.inputs), asked.finished
        log_probs = np.zeros((len(texts), len(asked.forms)), np.float32)
        tokens = np.zeros(len(texts), np.int32)
        finished_rows = finished.rows
        for row, row_scores in finished_rows.items():
            log_probs[row] = row_scores
        rows_done = len(finished_rows)
        for start, lengths, run in self._parts(texts, asked.forms):
            tokens[start : start + len(lengths)] = lengths
            for batch, scores in run({row - start for row in finished_rows}):
                numbers = [start + row for row in batch]
                refuse_infinite(scores, numbers, asked.forms, "log-probability")
                log_probs[numbers] = scores
                finished.add(numbers, scores)
                rows_done += len(batch)
                asked.progress(rows_done)
        return LabelScores(sum_probabilities(log_probs, asked.counts), tokens)


def run_by_length(
    run: Callable[[np.ndarray, list[int], set[int], bool], Batches],
    first_length: float,
    prompts: Sequence[Sequence[int]],
    labels: Sequence[Sequence[Sequence[int]]],
    done: set[int],
) -> Batches:
    """Scores rows with a network that changes its rotary frequencies for long sequences (longrope).

    Transformers chooses the frequencies by the length of the whole sequence. lm-evaluation-harness
    at batch size 1 scores one label at a time and feeds the prompt and the label without its last
    token. A row's score therefore depends on no other row, and labels of one row may use different
    networks.

    Args:
        run: maps the wanted labels `[rows, k]`, the rows, the finished rows, and whether the
            sequences are beyond `first_length`, to indices into the rows and scores `[b, k]`.
        first_length: number of tokens up to which the network uses its short frequencies.
        prompts: token ids of each row.
        labels: token ids of each label of each row.
        done: rows to skip.
    """
    is_long = np.zeros((len(labels), len(labels[0])), bool)
    for row, (prompt, tokens) in enumerate(zip(prompts, labels, strict=True)):
        is_long[row] = len(prompt) + np.array(list(map(len, tokens))) - 1 > first_length
    by_short: dict[int, np.ndarray] = {}  # scores of rows that need both networks
    for beyond, is_wanted in ((False, ~is_long), (True, is_long)):
        rows = np.flatnonzero(is_wanted.any(axis=1)).tolist()
        if not rows:  # All sequences are on the other side of `first_length`.
            continue
        done_here = {index for index, row in enumerate(rows) if row in done}
        for indices, scores in run(is_wanted[rows], rows, done_here, beyond):
            complete: dict[int, np.ndarray] = {}
            for index, row_scores in zip(indices, scores, strict=True):
                row = rows[index]
                if is_wanted[row].all():
                    complete[row] = row_scores
                elif not beyond:
                    by_short[row] = row_scores
                elif row in by_short:  # An earlier run may have finished the row.
                    complete[row] = np.where(is_wanted[row], row_scores, by_short.pop(row))
            if complete:
                yield list(complete), np.stack(list(complete.values()))


def refuse_infinite(
    scores: np.ndarray, rows: Sequence[int], labels: Sequence[str], kind: str
) -> None:
    """Raises if scores `[rows, labels]` are not all finite, and names the first that is not."""
    wrong = np.argwhere(~np.isfinite(scores))
    if len(wrong):
        row, label = wrong[0]
        where, got = f"row {rows[row]}, label {labels[label]!r}", f"{scores[row, label]}"
        raise InputError.at(where, f"a finite {kind}", got, "the checkpoint's numbers overflow")


def too_long(row: int, tokens: int, needed: int, positions: int) -> InputError:
    """Returns the error for a prompt that needs more positions than the model has."""
    return InputError(
        f"row {row}: a prompt of {tokens} tokens needs {needed} positions with its labels, but "
        f"the model has {positions}; set {spell('over_long', 'drop_shots')}, use fewer or shorter "
        "demonstrations, or cut the text."
    )

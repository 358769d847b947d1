"""The skeleton of every scorer, and labels of several texts, whose scores are summed."""

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
    """One call of `score`.

    Attributes:
        inputs: what is scored.
        labels: as the caller gave them.
        forms: the texts of all labels in one list.
        counts: how many of them each label has.
        progress: called with the number of rows done so far.
        finished: rows that are scored already, and where batches are kept.
    """

    inputs: Inputs
    labels: scoring.LabelTexts
    forms: list[str]
    counts: list[int]
    progress: Callable[[int], None]
    finished: Finished


Part = tuple[int, Sequence[int], Callable[[set[int]], Batches]]
"""Some rows whose texts are tokenized: the number of the first, the tokens of each prompt, and
rows of the part that are finished -> the others and their scores, batch by batch."""


def flatten(labels: scoring.LabelTexts) -> tuple[list[str], list[int]]:
    """All texts of all labels, and how many each label has; `InputError` where one has none.

    >>> flatten([" good", (" bad", " poor")])
    ([' good', ' bad', ' poor'], [1, 2])
    """
    texts_of_labels = [[label] if isinstance(label, str) else list(label) for label in labels]
    if not all(texts_of_labels):
        raise InputError.at(f"label {texts_of_labels.index([]) + 1}", "one text or more", "none")
    return list(chain.from_iterable(texts_of_labels)), list(map(len, texts_of_labels))


def sum_probabilities(log_probs: scoring.LogProbs, counts: Sequence[int]) -> scoring.LogProbs:
    """Scores `[n, sum(counts)]` of texts, summed to labels `[n, k]`: log sum_f p(f), in nats.

    >>> sum_probabilities(np.log(np.float32([[0.1, 0.2, 0.4]])), [2, 1]).round(3).tolist()
    [[-1.2039999961853027, -0.9160000085830688]]
    """
    if len(counts) == log_probs.shape[1]:  # one text each: bit for bit as they are
        return log_probs
    forms_of_labels = np.split(log_probs, np.cumsum(counts)[:-1], axis=1)  # k times [n, forms]
    return np.stack([np.logaddexp.reduce(forms, axis=1) for forms in forms_of_labels], axis=1)


def average_embeddings(embeddings: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Unit vectors `[sum(counts), d]` of texts, averaged to labels `[k, d]`: unit means."""
    if len(counts) == len(embeddings):
        return embeddings
    forms_of_labels = np.split(embeddings, np.cumsum(counts)[:-1])
    means = np.stack([forms.mean(axis=0) for forms in forms_of_labels])
    return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True))  # [k, d]


class LabelScorer:
    """A scorer whose `score` is here: it takes the labels apart, and sums the texts of each label.

    A language model gives `_parts`, the rows part by part; another scorer its own `_score`.

    Attributes:
        notes: sentences to print once the run is over.

    Args:
        reader: the network or server, as sentences begin with it.
        batch_size: most rows in a batch.
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
        """Score each label for each input, as `Scorer.score` says; the class says what is refused.

        Returns:
            `log_probs [n k]` in nats and the inputs' token counts `[n]`, rows in the order given.

        Raises:
            InputError: inputs or labels that the model cannot score; a score that is not a number.
        """
        forms, counts = flatten(labels)
        notify = progress or (lambda _: None)
        return self._score(Asked(inputs, labels, forms, counts, notify, finished))

    def _texts(self, inputs: Inputs) -> Sequence[str]:
        if isinstance(inputs, ImageInputs):
            raise InputError(
                f"{self._reader} reads text alone; score images with DualEncoder and a CLIP "
                "checkpoint."
            )
        return inputs

    def _parts(self, texts: Sequence[str], forms: Sequence[str]) -> Iterator[Part]:
        """Rows part by part, of a language model; a scorer with its own `_score` has none."""
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
    """Scores of a network that turns positions otherwise beyond `first_length` (longrope).

    Transformers turns all positions of a sequence by its length, and lm-evaluation-harness at
    batch size 1 asks about one label at a time: the prompt and the label but its last token. So a
    row's score depends on no other row, and its labels may differ in the network.

    Args:
        run: the labels wanted `[rows, k]`, rows, those done, and whether their sequences are
            beyond `first_length` -> indices into the rows, and scores `[b, k]`.
        first_length: tokens.
        prompts: token ids of each row.
        labels: token ids of each label of each row.
        done: rows to leave out.
    """
    is_long = np.zeros((len(labels), len(labels[0])), bool)
    for row, (prompt, tokens) in enumerate(zip(prompts, labels, strict=True)):
        is_long[row] = len(prompt) + np.array(list(map(len, tokens))) - 1 > first_length
    by_short: dict[int, np.ndarray] = {}  # scores of rows that need both
    for beyond, is_wanted in ((False, ~is_long), (True, is_long)):
        rows = np.flatnonzero(is_wanted.any(axis=1)).tolist()
        if not rows:  # none is so long, or none so short
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
                elif row in by_short:  # not there where the row was done before
                    complete[row] = np.where(is_wanted[row], row_scores, by_short.pop(row))
            if complete:
                yield list(complete), np.stack(list(complete.values()))


def refuse_infinite(
    scores: np.ndarray, rows: Sequence[int], labels: Sequence[str], kind: str
) -> None:
    """Refuse scores `[rows, labels]` that are not finite numbers, and name the first of them."""
    wrong = np.argwhere(~np.isfinite(scores))
    if len(wrong):
        row, label = wrong[0]
        where, got = f"row {rows[row]}, label {labels[label]!r}", f"{scores[row, label]}"
        raise InputError.at(where, f"a finite {kind}", got, "the checkpoint's numbers overflow")


def too_long(row: int, tokens: int, needed: int, positions: int) -> InputError:
    """The error of a prompt of so many tokens that needs more positions than the model has."""
    return InputError(
        f"row {row}: a prompt of {tokens} tokens needs {needed} positions with its labels, but "
        f"the model has {positions}; say {spell('over_long', 'drop_shots')}, use fewer or shorter "
        "demonstrations, or cut the text."
    )

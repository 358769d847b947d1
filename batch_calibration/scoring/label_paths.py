"""A row's labels as sequences of their own, for networks that are run without a tree of tokens."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.scoring.tokens import LabelTokens

if TYPE_CHECKING:
    import torch


class Path(NamedTuple):
    """A row with the beginning of some of its labels: one sequence that is run.

    Attributes:
        row: which prompt.
        tokens: label tokens that are fed after it.
        labels: the labels whose tokens but the last begin these.
    """

    row: int
    tokens: tuple[int, ...]
    labels: tuple[int, ...]


def paths(row: int, labels: LabelTokens) -> list[Path]:
    """The sequences that a row is run with: the longest beginnings of its labels.

    >>> paths(0, ((7, 8), (7, 9), (5,)))
    [Path(row=0, tokens=(7,), labels=(0, 1, 2))]
    """
    inner = sorted({label[:-1] for label in labels})
    # In sorted order a beginning stands right before what it begins.
    longest = [
        tokens for tokens, after in zip(inner, [*inner[1:], None], strict=True)
        if after is None or after[: len(tokens)] != tokens
    ]  # fmt: skip
    labels_of: dict[tuple[int, ...], list[int]] = {tokens: [] for tokens in longest}
    for number, label in enumerate(labels):
        whole = next(tokens for tokens in longest if tokens[: len(label) - 1] == label[:-1])
        labels_of[whole].append(number)
    return [Path(row, tokens, tuple(numbers)) for tokens, numbers in labels_of.items()]


def read_labels(
    logits: "torch.Tensor",
    batch: list[Path],
    label_tokens: list[LabelTokens],
    first_reads: list[int],
) -> list[list[float]]:
    """The log-probability of each label of each path, from `logits [b, t, v]`.

    Args:
        logits: after each token that was fed.
        batch: the paths, one a row.
        label_tokens: of each row that was asked.
        first_reads: where in `t` the first token of a label is read.
    """
    import torch

    scores = []
    for number, (path, first) in enumerate(zip(batch, first_reads, strict=True)):
        reads = logits[number, first : first + len(path.tokens) + 1].float()
        # In float32, as half precision rounds.
        log_probs = torch.log_softmax(reads, dim=-1)
        of_labels = []
        for label in path.labels:
            tokens = label_tokens[path.row][label]
            token_log_probs = log_probs[range(len(tokens)), list(tokens)]
            of_labels.append(float(token_log_probs.sum()))
        scores.append(of_labels)
    return scores


def padded(lists: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids `[b, t]`, padded on the right, and which of them are real.

    >>> padded([[1, 2], [3]])[0].tolist()
    [[1, 2], [3, 0]]
    """
    length = max(map(len, lists))
    ids, mask = (np.zeros((len(lists), length), int) for _ in range(2))
    for row, tokens in enumerate(lists):
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    return ids, mask

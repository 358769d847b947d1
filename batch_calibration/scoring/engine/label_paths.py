"""A row's labels as sequences of their own, for networks that are run without a tree of tokens."""

from collections.abc import Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.scoring.engine.tokens import LabelTokens

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
    longest = []
    # In sorted order a beginning stands right before what it begins; the last begins nothing.
    for tokens, after in pairwise(inner):
        if after[: len(tokens)] != tokens:
            longest.append(tokens)
    longest.append(inner[-1])
    labels_of: dict[tuple[int, ...], list[int]] = {tokens: [] for tokens in longest}
    for number, label in enumerate(labels):
        whole = next(tokens for tokens in longest if tokens[: len(label) - 1] == label[:-1])
        labels_of[whole].append(number)
    return [Path(row, tokens, tuple(numbers)) for tokens, numbers in labels_of.items()]


def sum_label_tokens(
    log_probs: "torch.Tensor",
    batch: list[Path],
    label_tokens: list[LabelTokens],
    reads: Sequence[Sequence[int]],
) -> list[list[float]]:
    """The log-probability of each label of each path.

    Args:
        log_probs: `[n, v]`, of the next token at every position that is read, path after path.
        batch: the paths.
        label_tokens: of each row that was asked.
        reads: the positions that are read of each path; a label's tokens are read at the first.
    """
    import torch

    chosen: list[tuple[int, int]] = []  # a read and a token
    spans = []
    start = 0
    for path, positions in zip(batch, reads, strict=True):
        for label in path.labels:
            tokens = label_tokens[path.row][label]
            spans.append(range(len(chosen), len(chosen) + len(tokens)))
            chosen += [(start + i, token) for i, token in enumerate(tokens)]
        start += len(positions)
    rows, tokens_read = torch.as_tensor(chosen, dtype=torch.long).reshape(-1, 2).T
    values = log_probs[rows, tokens_read].cpu().numpy()
    label_sums = iter([float(values[span.start : span.stop].sum()) for span in spans])
    return [list(islice(label_sums, len(path.labels))) for path in batch]


def padded(lists: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids `[b, t]`, padded on the right, and which of them are real.

    >>> padded([[1, 2], [3]])[0].tolist()
    [[1, 2], [3, 0]]
    """
    length = max(map(len, lists))
    ids, mask = np.zeros((2, len(lists), length), int)
    for row, tokens in enumerate(lists):
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    return ids, mask

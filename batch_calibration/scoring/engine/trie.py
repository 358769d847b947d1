"""Builds the trie of a row's label tokens, so that shared label prefixes run once."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np

from batch_calibration.scoring.engine.tokens import LabelTokens


class Trie(NamedTuple):
    """The inner nodes of a label trie in preorder.

    A label of `m` tokens has `m` reads, one for each token. Its first token is read at slot 0, the
    prompt's last token. Each later token is read at the slot of the label tokens before it. Slot
    `s > 0` is node `s - 1`.

    Attributes:
        tokens: `[t]` token of each node.
        depths: `[t]` number of tokens between the prompt's end and the node.
        ends: `[t]` index of the node after the node's subtree.
        slots: `[e]` slot of each read, ascending.
        targets: `[e]` token that each read scores.
        paths: `[k, m]` indices of the reads of each label, padded with -1.
    """

    tokens: np.ndarray
    depths: np.ndarray
    ends: np.ndarray
    slots: np.ndarray
    targets: np.ndarray
    paths: np.ndarray


@lru_cache(maxsize=4096)
def build_trie(labels: LabelTokens) -> Trie:
    """Builds the trie of the labels' proper prefixes.

    >>> trie = build_trie(((7, 8), (7, 9), (5,)))
    >>> trie.tokens.tolist(), trie.slots.tolist(), trie.targets.tolist(), trie.paths.tolist()
    ([7], [0, 0, 1, 1], [5, 7, 8, 9], [[1, 2], [1, 3], [0, -1]])
    """
    # In sorted order, a prefix comes directly before the sequences that extend it.
    beginnings = set[tuple[int, ...]]()
    for label in labels:
        beginnings.update(label[:end] for end in range(len(label)))
    inner = sorted(beginnings)
    slot_of = dict(zip(inner, count(), strict=False))
    pairs = set[tuple[int, int]]()
    for label in labels:
        pairs.update((slot_of[label[:end]], token) for end, token in enumerate(label))
    reads = sorted(pairs)
    read_number = dict(zip(reads, count(), strict=False))
    paths = np.full((len(labels), max(map(len, labels))), -1, np.int32)
    for row, label in enumerate(labels):
        for end, token in enumerate(label):
            paths[row, end] = read_number[slot_of[label[:end]], token]
    nodes = inner[1:]  # The empty prefix is the prompt's end, which is no node.
    ends = []
    # A subtree is contiguous, so the number of nodes that extend its root is its length.
    for number, root in enumerate(nodes):
        ends.append(number + sum(node[: len(root)] == root for node in nodes[number:]))
    tokens = np.array([node[-1] for node in nodes], np.int32)
    depths = np.array(list(map(len, nodes)), np.int32) - 1
    slots, targets = np.array(reads, np.int32).T
    return Trie(tokens, depths, np.array(ends, np.int32), slots, targets, paths)


def sums(read_scores: np.ndarray, tries: Sequence[Trie]) -> np.ndarray:
    """Sums the reads of each row to the log-probabilities `[rows, k]` of its labels."""
    label_scores = np.zeros((len(tries), len(tries[0].paths)), np.float32)
    start = 0
    for row, row_trie in enumerate(tries):
        read = read_scores[start : start + len(row_trie.targets)]
        label_scores[row] = np.sum(read[row_trie.paths], axis=1, where=row_trie.paths >= 0)
        start += len(row_trie.targets)
    return label_scores

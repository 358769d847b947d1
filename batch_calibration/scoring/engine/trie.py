"""Builds the trie of a row's label tokens, whose shared beginnings are run once."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np

from batch_calibration.scoring.engine.tokens import LabelTokens


class Trie(NamedTuple):
    """Inner nodes of the label trie in preorder: each node's subtree is a run that it begins.

    A label of `m` tokens is read at `m` slots: its first token at slot 0, the prompt's last token,
    and each later one at the slot of what comes before it. Slot `s > 0` is node `s - 1`.

    Attributes:
        tokens: `[t]` token of each node.
        depths: `[t]` tokens between the prompt's end and the node.
        ends: `[t]` the node after the last of its subtree.
        slots: `[e]` slot of each read, ascending.
        targets: `[e]` token whose log-probability is read there.
        paths: `[k, m]` reads that sum to each label, -1 for none.
    """

    tokens: np.ndarray
    depths: np.ndarray
    ends: np.ndarray
    slots: np.ndarray
    targets: np.ndarray
    paths: np.ndarray


@lru_cache(maxsize=4096)
def build_trie(labels: LabelTokens) -> Trie:
    """Pack the labels' proper beginnings.

    >>> trie = build_trie(((7, 8), (7, 9), (5,)))
    >>> trie.tokens.tolist(), trie.slots.tolist(), trie.targets.tolist(), trie.paths.tolist()
    ([7], [0, 0, 1, 1], [5, 7, 8, 9], [[1, 2], [1, 3], [0, -1]])
    """
    # Sorted, a prefix comes right before all that it begins.
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
    nodes = inner[1:]  # without the prompt's end, the empty beginning
    ends = []
    # A subtree is a run: it is as long as the nodes that begin with its root are many.
    for number, root in enumerate(nodes):
        ends.append(number + sum(node[: len(root)] == root for node in nodes[number:]))
    tokens = np.array([node[-1] for node in nodes], np.int32)
    depths = np.array(list(map(len, nodes)), np.int32) - 1
    slots, targets = np.array(reads, np.int32).T
    return Trie(tokens, depths, np.array(ends, np.int32), slots, targets, paths)


def sums(read_scores: np.ndarray, tries: Sequence[Trie]) -> np.ndarray:
    """Log-probabilities `[rows, k]` of labels, summed over the reads of each row."""
    label_scores = np.zeros((len(tries), len(tries[0].paths)), np.float32)
    start = 0
    for row, row_trie in enumerate(tries):
        read = read_scores[start : start + len(row_trie.targets)]
        label_scores[row] = np.sum(read[row_trie.paths], axis=1, where=row_trie.paths >= 0)
        start += len(row_trie.targets)
    return label_scores

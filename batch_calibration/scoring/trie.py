"""Builds the trie of a row's label tokens, whose shared beginnings are run once."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from batch_calibration.scoring.tokens import LabelTokens


class Trie(NamedTuple):
    """Inner nodes of the label trie in preorder: each node's subtree is a run that it begins.

    A label of `m` tokens is read at `m` slots: its first token at slot 0, the prompt's last token,
    and each later one at the slot of what comes before it. Slot `s > 0` is node `s - 1`; each slot
    is read for up to `c` tokens.

    Attributes:
        tokens: `[t]` token of each node.
        depths: `[t]` tokens between the prompt's end and the node.
        ends: `[t]` the node after the last of its subtree.
        targets: `[1 + t, c]` tokens whose log-probabilities are read at each slot, -1 for none.
        paths: `[k, m]` indices into `targets`, flat, that sum to each label, -1 for none.
    """

    tokens: np.ndarray
    depths: np.ndarray
    ends: np.ndarray
    targets: np.ndarray
    paths: np.ndarray


@lru_cache(maxsize=4096)
def build_trie(labels: LabelTokens) -> Trie:
    """Pack the labels' proper beginnings.

    >>> trie = build_trie(((7, 8), (7, 9), (5,)))
    >>> trie.tokens, trie.targets.tolist(), trie.paths.tolist()
    (array([7], dtype=int32), [[7, 5], [8, 9]], [[0, 2], [0, 3], [1, -1]])
    """
    # In sorted order a beginning stands right before all that it begins.
    inner = sorted({label[:end] for label in labels for end in range(len(label))})
    slot_of = {beginning: slot for slot, beginning in enumerate(inner)}
    read: list[dict[int, int]] = [{} for _ in inner]
    paths = np.full((len(labels), max(map(len, labels))), -1, np.int32)
    for label in labels:
        for end, token in enumerate(label):
            children = read[slot_of[label[:end]]]
            children.setdefault(token, len(children))
    width = max(map(len, read))
    targets = np.full((len(inner), width), -1, np.int32)
    for slot, children in enumerate(read):
        targets[slot, : len(children)] = list(children)
    for row, label in enumerate(labels):
        for end, token in enumerate(label):
            slot = slot_of[label[:end]]
            paths[row, end] = slot * width + read[slot][token]
    nodes = inner[1:]
    ends = [
        next((j for j in range(i, len(nodes)) if nodes[j][: len(node)] != node), len(nodes))
        for i, node in enumerate(nodes)
    ]
    return Trie(
        np.array([node[-1] for node in nodes], np.int32),
        np.array([len(node) - 1 for node in nodes], np.int32),
        np.array(ends, np.int32),
        targets,
        paths,
    )


def sums(values: np.ndarray, tries: Sequence[Trie]) -> np.ndarray:
    """Log-probabilities `[rows, k]` from those of each slot `[m, c]`, row after row."""
    found = np.zeros((len(tries), len(tries[0].paths)), np.float32)
    start = 0
    for row, (_, _, _, targets, paths) in enumerate(tries):
        slots, width = targets.shape
        read = values[start : start + slots, :width].ravel()
        found[row] = np.sum(read[paths], axis=1, where=paths >= 0)
        start += slots
    return found

"""The trie of a row's label tokens, packed so that labels share what they begin with."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from batch_calibration.scoring.tokens import Labels


class Trie(NamedTuple):
    """Inner nodes of the label trie, parents before children, and where each label is read.

    A label of `m` tokens is read at `m` places: at slot 0 (the prompt's last token) its first
    token, then at the slot of each proper beginning the token that follows. Slot `s > 0` is node
    `s - 1`. Places beyond a label's length hold token -1.

    Attributes:
        tokens: `[t]` token of each node.
        depths: `[t]` tokens between the prompt's end and the node.
        ancestors: `[t, t]` true where the column is the row itself or one of its ancestors.
        slots: `[k, m]` slot of each place.
        targets: `[k, m]` token whose log-probability is read there.
    """

    tokens: np.ndarray
    depths: np.ndarray
    ancestors: np.ndarray
    slots: np.ndarray
    targets: np.ndarray


@lru_cache(maxsize=4096)
def grow(labels: Labels) -> Trie:
    """Pack the labels' proper beginnings.

    >>> grow(((7, 8), (7, 9), (5,))).tokens
    array([7], dtype=int32)
    """
    nodes: dict[tuple[int, ...], int] = {(): 0}
    for label in labels:
        for end in range(1, len(label)):
            nodes.setdefault(label[:end], len(nodes))
    size = len(nodes) - 1
    tokens = np.zeros(size, np.int32)
    depths = np.zeros(size, np.int32)
    ancestors = np.eye(size, dtype=np.bool_)
    for beginning, slot in nodes.items():
        if not slot:
            continue
        tokens[slot - 1], depths[slot - 1] = beginning[-1], len(beginning) - 1
        for end in range(1, len(beginning)):
            ancestors[slot - 1, nodes[beginning[:end]] - 1] = True
    shape = len(labels), max(map(len, labels))
    slots, targets = np.zeros(shape, np.int32), np.full(shape, -1, np.int32)
    for row, label in enumerate(labels):
        for end, token in enumerate(label):
            slots[row, end], targets[row, end] = nodes[label[:end]], token
    return Trie(tokens, depths, ancestors, slots, targets)


def stack(tries: Sequence[Trie], nodes: int, places: int) -> Trie:
    """The tries of a batch of rows, each padded to `nodes` (depth -1) and `places`."""
    rows, labels = len(tries), len(tries[0].slots)
    batch = Trie(
        np.zeros((rows, nodes), np.int32),
        np.full((rows, nodes), -1, np.int32),
        np.zeros((rows, nodes, nodes), np.bool_),
        np.zeros((rows, labels, places), np.int32),
        np.full((rows, labels, places), -1, np.int32),
    )
    for row, trie in enumerate(tries):
        size, width = len(trie.tokens), trie.slots.shape[1]
        batch.tokens[row, :size] = trie.tokens
        batch.depths[row, :size] = trie.depths
        batch.ancestors[row, :size, :size] = trie.ancestors
        batch.slots[row, :, :width] = trie.slots
        batch.targets[row, :, :width] = trie.targets
    return batch

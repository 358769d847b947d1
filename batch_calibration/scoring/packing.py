"""Packs prompts into fixed-length sequences; a mask keeps them apart."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.scoring.batches import power
from batch_calibration.scoring.trie import Trie

SHORTEST = 128
"""The shortest sequence: attention costs its square, but rows pack worse in a short one."""
SKIPPING = 4096
"""The shortest one where attention skips what a row does not see, and length costs nothing."""


class PackedSequence(NamedTuple):
    """Rows one after the other in `length` slots."""

    length: int
    rows: list[int]


class Layout(NamedTuple):
    """A batch of `b` packed sequences of `t` slots.

    Rows are trees in preorder (a prompt is a chain, the label trie hangs from its last token), so
    that slot `i` sees slot `j` if `j <= i < ends[j]`: causality, tries, rows and padding in one.

    Attributes:
        tokens: `[b, t]` token ids.
        positions: `[b, t]` tokens before each in its sequence.
        ends: `[b, t]` slot after the last that sees each slot.
        slots: `[m]` slots that are read, counted through all sequences.
        targets: `[m, c]` tokens read at each slot, 0 where there are fewer.
    """

    tokens: np.ndarray
    positions: np.ndarray
    ends: np.ndarray
    slots: np.ndarray
    targets: np.ndarray


def pack(
    rows: Sequence[int], lengths: Sequence[int], most: int, skipping: int = 0
) -> list[PackedSequence]:
    """Rows into sequences by best fit, from long to short, up to `most` in one; long ones first.

    `skipping`, where attention skips what a row does not see, is how many slots a batch may have.

    >>> [tuple(packed) for packed in pack([0, 1, 2, 3], [40, 100, 200, 30], 64)]
    [(256, [2, 0]), (128, [1]), (128, [3])]
    """
    shortest = max(SHORTEST, min(SKIPPING, skipping))
    sequences: list[PackedSequence] = []
    spare: list[tuple[int, int, int]] = []  # free slots, the latest change first, which sequence
    for change, row in enumerate(sorted(rows, key=lambda row: (-lengths[row], row))):
        need = lengths[row]
        found = bisect_left(spare, (need,))
        if found < len(spare):
            space, _, number = spare.pop(found)
        else:
            space, number = max(shortest, power(need)), len(sequences)
            sequences.append(PackedSequence(space, []))
        sequences[number].rows.append(row)
        if len(sequences[number].rows) < most:
            insort(spare, (space - need, -change, number))
    return sorted(sequences, key=lambda packed: -packed.length)


def lay_out(
    sequences: Sequence[PackedSequence],
    size: int,
    shared: int,
    prompts: Sequence[list[int]],
    tries: Sequence[Trie],
) -> Layout:
    """Up to `size` sequences of one length, their rows without the first `shared` tokens."""
    length = sequences[0].length
    tokens = np.zeros((size, length), np.int32)
    positions = np.zeros((size, length), np.int32)
    ends = np.broadcast_to(np.arange(1, length + 1, dtype=np.int32), (size, length)).copy()
    slots: list[np.ndarray] = []
    for number, packed in enumerate(sequences):
        start = 0
        for row in packed.rows:
            prompt, trie = prompts[row][shared:], tries[row]
            middle, end = start + len(prompt), start + len(prompt) + len(trie.tokens)
            tokens[number, start:middle] = prompt
            tokens[number, middle:end] = trie.tokens
            positions[number, start:middle] = range(shared, shared + len(prompt))
            positions[number, middle:end] = shared + len(prompt) + trie.depths
            ends[number, start:middle] = end
            ends[number, middle:end] = middle + trie.ends
            slots.append(number * length + np.arange(middle - 1, end, dtype=np.int32))
            start = end
    reads = [tries[row].targets for packed in sequences for row in packed.rows]
    width = max(one.shape[1] for one in reads)
    targets = np.concatenate([np.pad(one, ((0, 0), (0, width - one.shape[1]))) for one in reads])
    return Layout(tokens, positions, ends, np.concatenate(slots), np.maximum(targets, 0))

"""Rows laid out without padding: several to a line, each a tree that sees only itself."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.scoring.batches import power
from batch_calibration.scoring.trie import Trie

LINE = 128
"""The shortest line: attention within a line costs its square; rows pack worse in a short one."""


class Line(NamedTuple):
    """Rows that stand one after the other in `length` slots."""

    length: int
    rows: list[int]


class Layout(NamedTuple):
    """A batch of `b` lines of `t` slots.

    Rows are trees in preorder (a prompt is a chain, the label trie hangs from its last token), so
    that slot `i` sees slot `j` if `j <= i < ends[j]`: causality, tries, rows and padding in one.

    Attributes:
        tokens: `[b, t]` token ids.
        positions: `[b, t]` tokens before each in its sequence.
        ends: `[b, t]` slot after the last that sees each slot.
        slots: `[b t]` slots that are read, counted through all lines: the first `reads` of these.
        targets: `[b t, c]` tokens read at each slot, 0 where there are fewer.
        reads: How many slots are read.
    """

    tokens: np.ndarray
    positions: np.ndarray
    ends: np.ndarray
    slots: np.ndarray
    targets: np.ndarray
    reads: int


def pack(rows: Sequence[int], lengths: Sequence[int], most: int) -> list[Line]:
    """Rows into lines by best fit, from long to short, up to `most` in one; long lines first.

    >>> pack([0, 1, 2, 3], [40, 100, 200, 30], 64)
    [Line(length=256, rows=[2, 0]), Line(length=128, rows=[1]), Line(length=128, rows=[3])]
    """
    lines: list[Line] = []
    spare: list[list[int]] = []
    for row in sorted(rows, key=lambda row: (-lengths[row], row)):
        need = lengths[row]
        room = next((room for room in range(need, len(spare)) if spare[room]), None)
        if room is None:
            room = max(LINE, power(need))
            spare += [[] for _ in range(room + 1 - len(spare))]
            spare[room].append(len(lines))
            lines.append(Line(room, []))
        line = spare[room].pop()
        lines[line].rows.append(row)
        if len(lines[line].rows) < most:
            spare[room - need].append(line)
    return sorted(lines, key=lambda line: -line.length)


def lay_out(
    lines: Sequence[Line],
    size: int,
    shared: int,
    prompts: Sequence[list[int]],
    tries: Sequence[Trie],
) -> Layout:
    """Up to `size` lines of one length, their rows without the first `shared` tokens."""
    length = lines[0].length
    tokens = np.zeros((size, length), np.int32)
    positions = np.zeros((size, length), np.int32)
    ends = np.broadcast_to(np.arange(1, length + 1, dtype=np.int32), (size, length)).copy()
    slots: list[np.ndarray] = []
    for number, line in enumerate(lines):
        start = 0
        for row in line.rows:
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
    reads = [tries[row].targets for line in lines for row in line.rows]
    read = np.zeros(tokens.size, np.int32)
    targets = np.zeros((tokens.size, max(one.shape[1] for one in reads)), np.int32)
    count = 0
    for places, one in zip(slots, reads, strict=True):
        read[count : count + len(one)] = places
        targets[count : count + len(one), : one.shape[1]] = np.maximum(one, 0)
        count += len(one)
    return Layout(tokens, positions, ends, read, targets, count)

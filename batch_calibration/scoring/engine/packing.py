"""Packs prompts into fixed-length sequences; a mask keeps them apart."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from batch_calibration.scoring.engine.batches import bucket
from batch_calibration.scoring.engine.trie import Trie

SHORTEST = 128
"""The minimum slots of a sequence. Attention costs the square of the length, but rows pack worse
into short sequences."""
LENGTHS = (SHORTEST, 2 * SHORTEST, 5 * SHORTEST)
"""Candidate minimum lengths of sequences, in slots; the cheapest is used. Two rows of 300 tokens
fit in the last."""
SHARED_FRACTIONS = (2.0, 0.2, 0.0)
"""Candidate fractions of its tokens that a row must share with the row before to be packed with it.
With 2, no rows are packed together; with 0.2, rows with a common premise or passage; with 0, all
rows with a common first token. The cheapest packing is used."""
QUADRATIC_SLOTS = 1500
"""Sequence length, in slots, at which attention costs as much as the rest of the network. This is
about the median of six networks (`benchmarks/RESULTS.md`, 2026-11-23), where attention takes 3 to
12 % of the time at 128 slots; `python -m benchmarks.parts` measures it."""


class PackedSequence(NamedTuple):
    """Rows that share a sequence of `length` slots."""

    length: int  # slots
    rows: list[int]


class Layout(NamedTuple):
    """A batch of `b` packed sequences of `t` slots.

    The rows of a sequence are trees in preorder. A prompt branches off the prompt before it where
    the two differ, and a label trie branches off the prompt's last token. Slot `i` therefore sees
    slot `j` if `j <= i < ends[j]`. This rule covers causality, tries, rows and padding.

    In the example of `lay_out`, each bar covers the slots that see its first slot:

        slot       0   1   2   3   4   5   6   7   8   9
        token     10  11  12   7  13  14   7  20   7   0
        ends       7   7   4   4   7   7   7   9   9  10
        0         [--------------------------)              prefix that A and B share
        1             [----------------------)
        2                 [------)                          rest of A and its label token
        4                         [----------)              rest of B and its label token
        7                                     [------)      C and its label token
        9                                             [--)  padding sees only itself

    Attributes:
        tokens: `[b, t]` token ids.
        positions: `[b, t]` number of tokens before each token in its prompt and label.
        ends: `[b, t]` index after the last slot that sees each slot.
        slots: `[m]` slots that are read, as indices into all `b * t` slots.
        reads: `[e]` index into `slots` of each read, ascending.
        targets: `[e]` token that each read scores.
    """

    tokens: np.ndarray
    positions: np.ndarray
    ends: np.ndarray
    slots: np.ndarray
    reads: np.ndarray
    targets: np.ndarray


class _Item(NamedTuple):
    """Rows that are packed together in `slots` slots; each branches off the row before it."""

    slots: int
    rows: list[int]


def pack_prompts(
    rows: Sequence[int], prompts: Sequence[list[int]], shared: int, extra: Sequence[int], most: int
) -> list[PackedSequence]:
    """Packs rows into sequences by best fit, long rows first, and returns long sequences first.

    Compares several minimum lengths and several ways to group rows with common prefixes. Returns
    the cheapest packing.

    Args:
        rows: indices of the prompts to pack.
        prompts: token ids; the first `shared` of each are run separately.
        shared: number of tokens in the shared prefix.
        extra: slots that each prompt needs for its label trie.
        most: maximum rows in a sequence.

    >>> prompts = [[1] * 40, [2] * 100, [3] * 200, [4] * 30]
    >>> [tuple(packed) for packed in pack_prompts([0, 1, 2, 3], prompts, 0, [0] * 4, 64)]
    [(256, [2, 0]), (128, [1]), (128, [3])]
    """
    # In lexicographic order, each row shares the longest prefix with its neighbors.
    order = sorted(rows, key=prompts.__getitem__)
    branches = [0, *[branch(prompts[a], prompts[b], shared) for a, b in pairwise(order)]]
    shortest_row = min(map(len, map(prompts.__getitem__, rows))) - shared
    head = min([*branches[1:], shortest_row - 1]) if len(order) > 1 else 0
    need = {row: len(prompts[row]) - shared - head + extra[row] for row in rows}  # slots
    # The length of a sequence that holds only this row.
    alone = {row: bucket(head + slots, SHORTEST) for row, slots in need.items()}
    own = (np.array(branches) - head).tolist()

    def lay_together(fraction: float, length: int) -> list[_Item]:
        """Merges neighbors in `order` into one item if they share enough of their tokens."""
        units: list[_Item] = []
        for row, common in zip(order, own, strict=True):
            slots = need[row] - common
            if units and common and common >= fraction * need[row] and len(units[-1].rows) < most:
                # With fraction 0, large items save little and small items pack better.
                room = (max(length, alone[row]) - head) // (1 if fraction else 2)
                if units[-1].slots + slots <= room:
                    units[-1] = _Item(units[-1].slots + slots, [*units[-1].rows, row])
                    continue
            units.append(_Item(need[row], [row]))
        return units

    # With one row per sequence, there is nothing to merge.
    fractions = SHARED_FRACTIONS[:1] if most == 1 else SHARED_FRACTIONS
    plans = []
    for fraction, length in product(fractions, LENGTHS):
        plans.append(_fit(lay_together(fraction, length), head, length, most))

    def cost(plan: Iterable[PackedSequence]) -> float:
        return sum(packed.length * (1 + packed.length / QUADRATIC_SLOTS) for packed in plan)

    return sorted(min(plans, key=cost), key=attrgetter("length"), reverse=True)


def branch(before: list[int], prompt: list[int], shared: int) -> int:
    """Counts the tokens after `shared` that two prompts share, without the last of `prompt`."""
    most = min(len(before), len(prompt) - 1)
    for i in range(shared, most):
        if before[i] != prompt[i]:
            return i - shared
    return most - shared


def _fit(units: list[_Item], head: int, shortest: int, most: int) -> list[PackedSequence]:
    """Fits items into sequences that begin with the `head` tokens that all rows share."""
    sequences: list[PackedSequence] = []
    # Sequences with room, sorted: free slots, negated time of the last change, index.
    spare: list[tuple[int, int, int]] = []
    longest_first = sorted([(-unit.slots, unit.rows) for unit in units])
    for change, (negative_slots, rows) in enumerate(longest_first):
        slots = -negative_slots
        index = bisect_left(spare, (slots,))
        if index < len(spare) and len(sequences[spare[index][2]].rows) + len(rows) <= most:
            space, _, number = spare.pop(index)
        else:
            length, number = max(shortest, bucket(head + slots, SHORTEST)), len(sequences)
            sequences.append(PackedSequence(length, []))
            space = length - head
        sequences[number].rows.extend(rows)
        if len(sequences[number].rows) < most:
            insort(spare, (space - slots, -change, number))
    return sequences


def lay_out(
    sequences: Sequence[PackedSequence],
    size: int,
    shared: int,
    prompts: Sequence[list[int]],
    tries: Sequence[Trie],
) -> Layout:
    """Lays out up to `size` sequences of one length, without the first `shared` tokens of each row.

    After the shared tokens `1 2`, the prompts A = `10 11 12`, B = `10 11 13 14` and C = `20`, each
    with the labels `7 8`, `7 9` and `5`, give this sequence of prompt (p) and trie (t) tokens:

        slot       0   1   2   3   4   5   6   7   8   9 ...
        token     10  11  12   7  13  14   7  20   7   0 ...
        row       AB  AB   A   A   B   B   B   C   C  padding
        part       p   p   p   t   p   p   t   p   t
        position   2   3   4   5   4   5   6   2   3   0 ...
        reads            5,7 8,9     5,7 8,9 5,7 8,9

    B shares `10 11` with A and branches off there. The last token of a prompt is read for the first
    token of each label (`5` or `7`); the trie's token `7` is read for the second token (`8` or
    `9`).
    """
    length = sequences[0].length  # All sequences have this length.
    tokens = np.zeros((size, length), np.int32)  # 0 is padding.
    positions = np.zeros((size, length), np.int32)
    ends = np.broadcast_to(np.arange(1, length + 1, dtype=np.int32), (size, length)).copy()
    slots, reads, targets = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    read_count = 0
    for number, packed in enumerate(sequences):
        start, before = 0, list[int]()
        chain = np.zeros(0, np.int32)  # slots of the previous prompt's tokens
        for row in packed.rows:
            prompt, trie = prompts[row], tries[row]
            # The prefix shared with the row before is laid out already: this row branches off.
            branched = branch(before, prompt, shared) if before else 0
            new = prompt[shared + branched :]
            middle, end = start + len(new), start + len(new) + len(trie.tokens)
            tokens[number, start:middle] = new
            tokens[number, middle:end] = trie.tokens
            positions[number, start:middle] = range(shared + branched, len(prompt))
            positions[number, middle:end] = len(prompt) + trie.depths
            chain = np.concatenate([chain[:branched], np.arange(start, middle, dtype=np.int32)])
            ends[number, chain] = end  # The rest of the row sees the prompt's tokens.
            ends[number, middle:end] = middle + trie.ends  # Only a node's subtree sees it.
            # Labels are read at the prompt's last token and at the nodes.
            read = np.append(chain[-1:], np.arange(middle, end, dtype=np.int32))
            slots.append(number * length + read)
            reads.append(read_count + trie.slots)
            targets.append(trie.targets)
            read_count += len(read)
            start, before = end, prompt
    flat = map(np.concatenate, (slots, reads, targets))
    return Layout(tokens, positions, ends, *flat)

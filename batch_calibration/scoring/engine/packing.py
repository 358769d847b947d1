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
"""The shortest sequence: attention costs its square, but rows pack worse in a short one."""
LENGTHS = (SHORTEST, 2 * SHORTEST, 5 * SHORTEST)
"""Sequences are at least this long, whichever costs the least: two rows of 300 fit in the last."""
SHARED_FRACTIONS = (2.0, 0.2, 0.0)
"""Rows lie together that share this part of their tokens with the row before: none do, rows of one
premise or passage, and all that begin with one word. The best packing is taken."""
QUADRATIC_SLOTS = 1500
"""Slots of a sequence in which attention costs as much as all else: about the median of the six
networks of `python -m benchmarks.parts`, where it takes 3 to 12 % at 128 slots."""


class PackedSequence(NamedTuple):
    """Consecutive rows in `length` slots."""

    length: int  # slots
    rows: list[int]


class Layout(NamedTuple):
    """A batch of `b` packed sequences of `t` slots.

    Rows are trees in preorder (prompts are chains that branch where they differ, the label trie
    hangs from a prompt's last token), so that slot `i` sees slot `j` if `j <= i < ends[j]`:
    causality, tries, rows and padding in one.

    Attributes:
        tokens: `[b, t]` token ids.
        positions: `[b, t]` tokens before each in its sequence.
        ends: `[b, t]` slot after the last that sees each slot.
        slots: `[m]` slots that are read, counted through all sequences.
        reads: `[e]` which of them each read is at, ascending.
        targets: `[e]` token that is read there.
    """

    tokens: np.ndarray
    positions: np.ndarray
    ends: np.ndarray
    slots: np.ndarray
    reads: np.ndarray
    targets: np.ndarray


class _Item(NamedTuple):
    """Rows that lie together in `slots` slots, each a branch of the row before it."""

    slots: int
    rows: list[int]


def pack_prompts(
    rows: Sequence[int], prompts: Sequence[list[int]], shared: int, extra: Sequence[int], most: int
) -> list[PackedSequence]:
    """Rows into sequences by best fit, from long to short, up to `most` in one; long ones first.

    Of several ways to lay rows with common prefixes together, in sequences of several lengths, the
    one that costs the least.

    Args:
        rows: which of the prompts.
        prompts: token ids, the first `shared` of which are run apart.
        shared: how many tokens that is.
        extra: slots that each prompt needs for its labels.
        most: rows in a sequence.

    >>> prompts = [[1] * 40, [2] * 100, [3] * 200, [4] * 30]
    >>> [tuple(packed) for packed in pack_prompts([0, 1, 2, 3], prompts, 0, [0] * 4, 64)]
    [(256, [2, 0]), (128, [1]), (128, [3])]
    """
    # In lexicographic order each row shares the most with its neighbours.
    order = sorted(rows, key=prompts.__getitem__)
    branches = [0, *[branch(prompts[a], prompts[b], shared) for a, b in pairwise(order)]]
    shortest_row = min(map(len, map(prompts.__getitem__, rows))) - shared
    head = min([*branches[1:], shortest_row - 1]) if len(order) > 1 else 0
    need = {row: len(prompts[row]) - shared - head + extra[row] for row in rows}  # slots
    # the length of a sequence of its own
    alone = {row: bucket(head + slots, SHORTEST) for row, slots in need.items()}
    own = (np.array(branches) - head).tolist()

    def lay_together(fraction: float, length: int) -> list[_Item]:
        """Neighbours in `order` as one item where enough of a row is common."""
        units: list[_Item] = []
        for row, common in zip(order, own, strict=True):
            slots = need[row] - common
            if units and common and common >= fraction * need[row] and len(units[-1].rows) < most:
                # Small items fit best where little is won by large ones.
                room = (max(length, alone[row]) - head) // (1 if fraction else 2)
                if units[-1].slots + slots <= room:
                    units[-1] = _Item(units[-1].slots + slots, [*units[-1].rows, row])
                    continue
            units.append(_Item(need[row], [row]))
        return units

    # Where a sequence takes one row, none lie together.
    fractions = SHARED_FRACTIONS[:1] if most == 1 else SHARED_FRACTIONS
    plans = []
    for fraction, length in product(fractions, LENGTHS):
        plans.append(_fit(lay_together(fraction, length), head, length, most))

    def cost(plan: Iterable[PackedSequence]) -> float:
        return sum(packed.length * (1 + packed.length / QUADRATIC_SLOTS) for packed in plan)

    return sorted(min(plans, key=cost), key=attrgetter("length"), reverse=True)


def branch(before: list[int], prompt: list[int], shared: int) -> int:
    """Tokens after `shared` that a prompt has in common with the one before; its last never."""
    most = min(len(before), len(prompt) - 1)
    for i in range(shared, most):
        if before[i] != prompt[i]:
            return i - shared
    return most - shared


def _fit(units: list[_Item], head: int, shortest: int, most: int) -> list[PackedSequence]:
    """Items into sequences that begin with the `head` that all rows share."""
    sequences: list[PackedSequence] = []
    # Of sequences with room: free slots, the latest change first, which sequence; kept in order.
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
    """Up to `size` sequences of one length, their rows without the first `shared` tokens."""
    length = sequences[0].length  # that of all
    tokens = np.zeros((size, length), np.int32)  # 0 where nothing lies
    positions = np.zeros((size, length), np.int32)
    ends = np.broadcast_to(np.arange(1, length + 1, dtype=np.int32), (size, length)).copy()
    slots, reads, targets = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    read_count = 0
    for number, packed in enumerate(sequences):
        start, before = 0, list[int]()
        chain = np.zeros(0, np.int32)  # where the tokens of the last prompt lie
        for row in packed.rows:
            prompt, trie = prompts[row], tries[row]
            # What the row has in common with the one before is there already: it branches off.
            branched = branch(before, prompt, shared) if before else 0
            new = prompt[shared + branched :]
            middle, end = start + len(new), start + len(new) + len(trie.tokens)
            tokens[number, start:middle] = new
            tokens[number, middle:end] = trie.tokens
            positions[number, start:middle] = range(shared + branched, len(prompt))
            positions[number, middle:end] = len(prompt) + trie.depths
            chain = np.concatenate([chain[:branched], np.arange(start, middle, dtype=np.int32)])
            ends[number, chain] = end  # a prompt's tokens are seen by all that follows in its row
            ends[number, middle:end] = middle + trie.ends  # a label's by labels that it begins
            # the prompt's last token, then the nodes
            read = np.append(chain[-1:], np.arange(middle, end, dtype=np.int32))
            slots.append(number * length + read)
            reads.append(read_count + trie.slots)
            targets.append(trie.targets)
            read_count += len(read)
            start, before = end, prompt
    flat = map(np.concatenate, (slots, reads, targets))
    return Layout(tokens, positions, ends, *flat)

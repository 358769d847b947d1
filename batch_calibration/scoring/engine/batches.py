"""Groups rows by the prefix they share, and batches rows of like length."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeVar

RUN_COST = 256
"""The overhead of a run of its own, in tokens: padding, a batch that is not full."""


T = TypeVar("T")


class PrefixGroup(NamedTuple):
    """Rows that begin with the same `shared` token ids."""

    shared: int
    rows: list[int]


class Batch(NamedTuple):
    """Up to `size` rows that fit in `length` tokens each."""

    rows: list[int]
    size: int
    length: int


def behind(begun: Iterable[T], ahead: int = 1) -> Iterator[T]:
    """Yields each item once `ahead` more have begun, which run while it is used.

    >>> log = []
    >>> for number in behind(map(log.append, range(3))):
    ...     log.append("seen")
    >>> log
    [0, 1, 'seen', 2, 'seen', 'seen']
    """
    waiting = deque[T]()
    for one in begun:
        waiting.append(one)
        if len(waiting) > ahead:
            yield waiting.popleft()
    yield from waiting


def power(length: int) -> int:
    """The next power of two (0 for 0).

    >>> [power(length) for length in (0, 1, 3, 64, 65)]
    [0, 1, 4, 64, 128]
    """
    return 1 << (length - 1).bit_length() if length else 0


def bucket(length: int, step: int) -> int:
    """The smallest of the few lengths we compile for: four steps, then 2^i and 1.5 * 2^i.

    >>> [bucket(length, 16) for length in (0, 1, 17, 65, 100, 500)]
    [0, 16, 32, 96, 128, 512]
    """
    if length <= 4 * step:
        return -(-length // step) * step
    most = power(length)  # at least a third of the slots are real, mostly more
    return most * 3 // 4 if length <= most * 3 // 4 else most


def group_prompts(prompts: Sequence[list[int]], slots: int) -> list[PrefixGroup]:
    """Rows by the beginning they share, so that each unique token is run once.

    All rows make one group, with their longest common prefix, unless some of them share a longer
    one, so long that running it costs less than running its tokens in every row.
    At least one token of each row stays out of the prefix, and a prefix that saves too little to
    be run apart is none: a short one is run once in each packed sequence of `slots` slots.
    """

    def apart(shared: int, rows: list[int]) -> int:
        """The prefix, or 0 where running it apart saves too little."""
        times = len(rows) - 1  # that its tokens are not run again
        if shared < slots // 2:
            # Within a sequence rows share a short one anyway: it is run once in each sequence.
            own_tokens = sum(_lengths(prompts, rows)) - shared * len(rows)
            times = min(times, own_tokens // slots)
        return shared if times * shared > RUN_COST else 0

    # In lexicographic order, rows with a common prefix are neighbours.
    order = sorted(range(len(prompts)), key=prompts.__getitem__)
    return [PrefixGroup(apart(*subgroup), subgroup.rows) for subgroup in _group(prompts, order)]


def _group(prompts: Sequence[list[int]], order: list[int], depth: int = 32) -> list[PrefixGroup]:
    """Split rows in lexicographic order: a prefix common to a run is common to its two ends."""
    common = _shared(prompts, order)

    def pays(rows: list[int], shared: int) -> bool:
        # twice: what is saved must be worth the compilation, too
        return len(rows) * (shared - common) > 2 * (shared + RUN_COST)

    ungrouped: list[int] = []
    groups: list[PrefixGroup] = []
    next_tokens = [prompts[row][common] for row in order]
    for _, run in groupby(zip(next_tokens, order, strict=True), key=itemgetter(0)):
        rows = [row for _, row in run]
        longest = max(_lengths(prompts, rows))
        # Rows cannot share more than the longest has: most runs are dismissed here, undivided.
        if not depth or not pays(rows, longest - 1):
            ungrouped += rows
            continue
        for subgroup in _group(prompts, rows, depth - 1):
            if pays(subgroup.rows, subgroup.shared):
                groups.append(subgroup)
            else:
                ungrouped += subgroup.rows
    return [*groups, PrefixGroup(_shared(prompts, ungrouped), ungrouped)] if ungrouped else groups


def _shared(prompts: Sequence[list[int]], rows: Sequence[int]) -> int:
    """Length of the common prefix of rows in lexicographic order: of the first and the last."""
    first, last = prompts[rows[0]], prompts[rows[-1]]
    most = min(_lengths(prompts, rows)) - 1
    return next((i for i in range(most) if first[i] != last[i]), most)


def _lengths(prompts: Sequence[list[int]], rows: Sequence[int]) -> Iterator[int]:
    return map(len, map(prompts.__getitem__, rows))


def batches(
    rows: Sequence[int], lengths: Sequence[int], size: int, budget: int, step: int
) -> Iterator[Batch]:
    """Rows from long to short, `size` at a time, fewer where `budget` tokens would overflow.

    A last few rows go in a batch of an eighth of the size: two sizes per length, no more.
    """
    waiting = sorted(rows, key=lambda row: (-lengths[row], row))
    while waiting:
        length = bucket(lengths[waiting[0]], step)
        fit = size
        while fit > 1 and fit * length > budget:  # halved, so that sizes stay few
            fit //= 2
        if len(waiting) <= fit // 8:
            fit //= 8
        yield Batch(waiting[:fit], fit, length)
        waiting = waiting[fit:]

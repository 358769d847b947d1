"""Groups rows by shared prefix, and batches rows of similar length."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeVar

RUN_COST = 256
"""The overhead of a separate run in tokens: padding, and a batch that is not full."""


T = TypeVar("T")


class PrefixGroup(NamedTuple):
    """Rows with a common prefix of `shared` token ids."""

    shared: int
    rows: list[int]


class Batch(NamedTuple):
    """Up to `size` rows of at most `length` tokens each."""

    rows: list[int]
    size: int
    length: int


def behind(begun: Iterable[T], ahead: int = 1) -> Iterator[T]:
    """Yields each item after `ahead` further items have begun, so that they run in the meantime.

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
    """Returns the smallest power of two that is not below `length`, or 0 for 0.

    >>> [power(length) for length in (0, 1, 3, 64, 65)]
    [0, 1, 4, 64, 128]
    """
    return 1 << (length - 1).bit_length() if length else 0


def bucket(length: int, step: int) -> int:
    """Rounds a length up to a multiple of `step` (four of them), then to 2^i or 1.5 * 2^i.

    This keeps the lengths few for which programs are compiled.

    >>> [bucket(length, 16) for length in (0, 1, 17, 65, 100, 500)]
    [0, 16, 32, 96, 128, 512]
    """
    if length <= 4 * step:
        return -(-length // step) * step
    most = power(length)
    return most * 3 // 4 if length <= most * 3 // 4 else most


def group_prompts(prompts: Sequence[list[int]], slots: int) -> list[PrefixGroup]:
    """Groups rows by shared prefix, so that each unique token runs once.

    All rows form one group with their longest common prefix, unless some share a longer prefix. A
    longer prefix gets its own group if running it separately costs less than running it in each
    row. At least one token of each row stays outside the prefix. A prefix is 0 if a separate run
    saves too
    little: packed sequences of `slots` slots run a short prefix once each.
    """

    def apart(shared: int, rows: list[int]) -> int:
        """Returns the prefix length, or 0 if a separate run saves too little."""
        times = len(rows) - 1  # runs of the prefix that are saved
        if shared < slots // 2:
            # The rows of a sequence share a short prefix anyway: it runs once in each sequence.
            own_tokens = sum(_lengths(prompts, rows)) - shared * len(rows)
            times = min(times, own_tokens // slots)
        return shared if times * shared > RUN_COST else 0

    # In lexicographic order, rows with a common prefix are neighbors.
    order = sorted(range(len(prompts)), key=prompts.__getitem__)
    return [PrefixGroup(apart(*subgroup), subgroup.rows) for subgroup in _group(prompts, order)]


def _group(prompts: Sequence[list[int]], order: list[int], depth: int = 32) -> list[PrefixGroup]:
    """Splits rows in lexicographic order into groups with a common prefix.

    A prefix that the first and the last row share is common to all rows.
    """
    common = _shared(prompts, order)

    def pays(rows: list[int], shared: int) -> bool:
        # The factor 2 pays for the compilation too.
        return len(rows) * (shared - common) > 2 * (shared + RUN_COST)

    ungrouped: list[int] = []
    groups: list[PrefixGroup] = []
    next_tokens = [prompts[row][common] for row in order]
    for _, run in groupby(zip(next_tokens, order, strict=True), key=itemgetter(0)):
        rows = [row for _, row in run]
        longest = max(_lengths(prompts, rows))
        # Rows cannot share more tokens than the longest row has. This test ends most searches.
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
    """Returns the length of the common prefix of rows in lexicographic order.

    The first and the last row decide it.
    """
    first, last = prompts[rows[0]], prompts[rows[-1]]
    most = min(_lengths(prompts, rows)) - 1
    return next((i for i in range(most) if first[i] != last[i]), most)


def _lengths(prompts: Sequence[list[int]], rows: Sequence[int]) -> Iterator[int]:
    return map(len, map(prompts.__getitem__, rows))


def batches(
    rows: Sequence[int], lengths: Sequence[int], size: int, budget: int, step: int
) -> Iterator[Batch]:
    """Yields batches of up to `size` rows, long rows first, within a budget of tokens.

    The size is halved until the batch fits `budget`. The last few rows form a batch of an eighth of
    the size, so that each length has at most two sizes.
    """
    waiting = sorted(rows, key=lambda row: (-lengths[row], row))
    while waiting:
        length = bucket(lengths[waiting[0]], step)
        fit = size
        while fit > 1 and fit * length > budget:  # Halving keeps the number of sizes small.
            fit //= 2
        if len(waiting) <= fit // 8:
            fit //= 8
        yield Batch(waiting[:fit], fit, length)
        waiting = waiting[fit:]

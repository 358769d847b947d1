"""Inputs of a scorer: texts that are rendered when they are read, and images."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple, Protocol, cast, overload


class ImageRef(Protocol):
    """Where an image lies; its text names it in sentences."""

    def read(self) -> bytes:
        """The encoded image (JPEG, PNG, ...); `InputError` where it cannot be read."""

    def signature(self) -> str:
        """A cheap sign of whether the image was replaced under its name; "" where there is none."""


class ImageRows(NamedTuple):
    """Rows of one split of an image task."""

    images: tuple[ImageRef, ...]
    labels: tuple[int, ...]  # -1 where it is unknown
    ids: tuple[str, ...]  # names that lead back
    where: str  # where they were read, in words
    split: str = ""  # the split that served
    present: tuple[int, ...] = ()  # the labels that the source has any images of
    notes: tuple[str, ...] = ()  # what a reader of the numbers must know


@dataclass(frozen=True)
class ImageInputs:
    """Images to be scored, opened one batch after the other."""

    refs: Sequence[ImageRef]

    def __len__(self) -> int:
        return len(self.refs)


Inputs = Sequence[str] | ImageInputs  # what is scored: `n` texts or `n` images


class LazyTexts(Sequence[str]):
    """Texts that are rendered on access: a long list takes no more memory than its rows.

    >>> LazyTexts(3, "Review: {}".format)[1:]
    ['Review: 1', 'Review: 2']
    """

    def __init__(self, count: int, render: Callable[[int], str]):
        self._rows = range(count)
        self._render = render

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return list(map(self._render, self._rows[index]))
        return self._render(self._rows[index])


def joined(blocks: Sequence[Inputs]) -> Inputs:
    """The inputs of several blocks, which are all texts or all images."""
    images = [block.refs for block in blocks if isinstance(block, ImageInputs)]
    if images:
        return ImageInputs(list(chain(*images)))
    texts = cast("Sequence[Sequence[str]]", blocks)
    if all(isinstance(block, list) for block in texts):
        return list(chain(*texts))
    starts = [0, *accumulate(map(len, texts))]  # first row of each block, and the end

    def render(row: int) -> str:
        block = bisect_right(starts, row) - 1  # the last one that starts at the row or before
        return texts[block][row - starts[block]]

    return LazyTexts(starts[-1], render)

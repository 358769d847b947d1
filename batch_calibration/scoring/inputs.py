"""The inputs of a scorer: texts that are rendered on access, and images."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple, Protocol, cast, overload


class ImageRef(Protocol):
    """The location of an image; `str` gives its name for messages."""

    def read(self) -> bytes:
        """Reads the encoded image (JPEG, PNG, ...).

        Raises:
            InputError: the image cannot be read.
        """

    def signature(self) -> str:
        """Returns a cheap signature that changes if the image is replaced; "" without one."""


class ImageRows(NamedTuple):
    """Rows of one split of an image task."""

    images: tuple[ImageRef, ...]
    labels: tuple[int, ...]  # -1 if unknown
    ids: tuple[str, ...]  # names that identify the rows in the source
    where: str  # a description of the source
    split: str = ""  # the split that was read
    present: tuple[int, ...] = ()  # the labels that have images in the source
    notes: tuple[str, ...] = ()  # sentences for readers of the scores


@dataclass(frozen=True)
class ImageInputs:
    """Images to score, opened batch by batch."""

    refs: Sequence[ImageRef]

    def __len__(self) -> int:
        return len(self.refs)


Inputs = Sequence[str] | ImageInputs  # `n` texts or `n` images to score


class LazyTexts(Sequence[str]):
    """Texts that are rendered on access, so that a long list needs no more memory than its rows.

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
    """Concatenates the inputs of several blocks, which are all texts or all images."""
    images = [block.refs for block in blocks if isinstance(block, ImageInputs)]
    if images:
        return ImageInputs(list(chain(*images)))
    texts = cast("Sequence[Sequence[str]]", blocks)
    if all(isinstance(block, list) for block in texts):
        return list(chain(*texts))
    starts = [0, *accumulate(map(len, texts))]  # first row of each block, then the number of rows

    def render(row: int) -> str:
        block = bisect_right(starts, row) - 1  # the last block that starts at or before the row
        return texts[block][row - starts[block]]

    return LazyTexts(starts[-1], render)

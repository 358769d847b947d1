"""What a scorer is asked about: texts that are rendered when they are read, and images."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol, overload


class ImageRef(Protocol):
    """Where an image lies; its text names it in sentences."""

    def read(self) -> bytes:
        """The encoded image (JPEG, PNG, ...); `InputError` where it cannot be read."""


@dataclass(frozen=True)
class ImageInputs:
    """Images to be scored, opened one batch after the other."""

    refs: Sequence[ImageRef]

    def __len__(self) -> int:
        return len(self.refs)


Inputs = Sequence[str] | ImageInputs
"""What is scored: `n` texts or `n` images."""


class LazyTexts(Sequence[str]):
    """Texts that are rendered when they are asked for: a long list takes no more memory than rows.

    >>> LazyTexts(3, "Review: {}".format)[1:]
    ['Review: 1', 'Review: 2']
    """

    def __init__(self, count: int, render: Callable[[int], str]):
        self._rows = range(count)
        self._render = render

    @classmethod
    def joined(cls, parts: Sequence[Sequence[str]]) -> "LazyTexts":
        """Several sequences as one."""
        starts = [0, *accumulate(map(len, parts))]

        def render(row: int) -> str:
            part = bisect_right(starts, row) - 1
            return parts[part][row - starts[part]]

        return cls(starts[-1], render)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._render(row) for row in self._rows[place]]
        return self._render(self._rows[place])


def joined(parts: Sequence[Inputs]) -> Inputs:
    """The inputs of several blocks, which are all texts or all images."""
    images = [part for part in parts if isinstance(part, ImageInputs)]
    if images:
        return ImageInputs([ref for part in images for ref in part.refs])
    return LazyTexts.joined([part for part in parts if not isinstance(part, ImageInputs)])

"""Accuracy along an axis, as records keep it: strengths, rows learned from, rows seen."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

STRENGTHS = 101
"""Points of a curve."""

Draws = tuple[tuple[float, ...], ...]
"""For each number on the axis, a value per draw."""


@dataclass(frozen=True)
class Curve:
    """Accuracy at each of the 101 strengths, on the labeled set and on the test rows."""

    labeled: tuple[float, ...]
    test: tuple[float, ...]


@dataclass(frozen=True)
class ProbeSizes:
    """Accuracy on all test rows when a method learns from so many of them.

    Attributes:
        sizes: rows a method learned from.
        accuracy: method -> for each size, a value per draw of rows.
    """

    sizes: tuple[int, ...]
    accuracy: Mapping[str, tuple[tuple[float, ...], ...]]

    def every(self) -> tuple[tuple[int, ...], Collection[Draws]]:
        """The numbers, and the accuracies of each method."""
        return self.sizes, self.accuracy.values()


@dataclass(frozen=True)
class OverStream:
    """Accuracy of the test rows as they come in random orders, each corrected when it comes.

    Attributes:
        rows: rows seen, ascending.
        accuracy: method -> for each of these numbers, a value per order: the share that is right
            among the rows that came after the number before it, up to this one.
    """

    rows: tuple[int, ...]
    accuracy: Mapping[str, tuple[tuple[float, ...], ...]]

    def every(self) -> tuple[tuple[int, ...], Collection[Draws]]:
        """The numbers, and the accuracies of each method."""
        return self.rows, self.accuracy.values()

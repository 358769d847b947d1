"""Marks of figures: lines, dots, bars and cells as data, which renderers draw."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

Numbers = Sequence[float] | np.ndarray
INK = "ink"  # the color of text: black on paper, light on a dark page
FAINT = "faint"  # of lines behind the numbers


class Line(NamedTuple):
    """A line through points, and a band around it."""

    name: str  # in the legend and the CSV; "" stays out of both
    x: Numbers
    y: Numbers
    color: str = INK
    dash: str = "solid"
    width: float = 1.5
    low: Numbers | None = None  # ends of the band
    high: Numbers | None = None
    alpha: float = 0.15  # of the band
    has_dots: bool = False


class Dots(NamedTuple):
    """Points, each perhaps with an interval, a text beside it, and one that is shown on hover."""

    name: str
    x: Numbers
    y: Numbers
    color: str | Sequence[str] = INK
    symbol: str = "circle"
    size: float = 5.0
    is_hollow: bool = False
    alpha: float = 1.0
    along: str = "y"  # the axis of the values and intervals; the other one is that of positions
    low: Numbers | None = None  # ends of the intervals
    high: Numbers | None = None
    texts: Sequence[str] = ()
    hover: Sequence[str] = ()
    extra: Mapping[str, Sequence[object]] = {}  # more columns of the CSV

    def spans(self) -> "Spans | None":
        """The intervals as lines."""
        if self.low is None or self.high is None:
            return None
        at = self.y if self.along == "x" else self.x
        return Spans(at, self.low, self.high, self.along, self.color)


class Spans(NamedTuple):
    """Straight lines along an axis, each at its place on the other one."""

    at: Numbers
    low: Numbers
    high: Numbers
    along: str = "y"
    color: str | Sequence[str] = INK
    width: float = 1.4


class Bars(NamedTuple):
    """Upright bars, from `low` to `high`, each as wide as `width` says."""

    name: str
    at: Numbers
    high: Numbers
    color: str | Sequence[str] = INK
    width: float = 0.6
    low: Numbers | None = None  # 0 by default
    alpha: float = 1.0
    has_edge: bool = False


class Rule(NamedTuple):
    """A line across the panel: `along` "y" stands upright at a place of the horizontal axis."""

    at: float
    along: str = "y"
    color: str = INK
    dash: str = "solid"
    width: float = 1.0
    name: str = ""


class Heat(NamedTuple):
    """A cell for each pair of names, colored by its number, which stands in it; NaN is empty."""

    values: np.ndarray  # [down across]
    low: float  # the number of the first color
    high: float  # that of the last one
    colors: tuple[str, ...]
    label: str  # what the colors are
    digits: int = 1


class Field(NamedTuple):
    """The part of the plane where a number is below 0 in one color, the rest in another."""

    ticks: np.ndarray  # [t], of both axes
    values: np.ndarray  # [t t]: y, x
    colors: tuple[str, str]


Mark = Line | Dots | Spans | Bars | Rule | Heat | Field

"""What a figure shows: panels of marks on axes; renderers draw it, and its numbers are its CSV."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cells

Numbers = Sequence[float] | np.ndarray
INK = "ink"  # the color of text: black on paper, light on a dark page
FAINT = "faint"  # of lines behind the numbers
INTERVALS = "Lines are 95 % intervals."


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
        return Spans(self.y if self.along == "x" else self.x, self.low, self.high, self.along,
                     self.color)  # fmt: skip


class Spans(NamedTuple):
    """Straight lines along an axis, each at its place on the other one."""

    at: Numbers
    low: Numbers
    high: Numbers
    along: str = "y"
    color: str | Sequence[str] = INK
    width: float = 1.4
    name: str = ""


class Bars(NamedTuple):
    """Bars along an axis, from `low` to `high`, each as wide on the other axis as `width` says."""

    name: str
    at: Numbers
    high: Numbers
    color: str | Sequence[str] = INK
    width: float = 0.6
    low: Numbers | None = None  # 0 by default
    along: str = "y"
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


class Axis(NamedTuple):
    """What an axis counts, and what part of it is shown."""

    title: str = ""
    limits: tuple[float, float] | None = None
    names: Sequence[str] | None = None  # of the places 0, 1, ... where it has no numbers
    from_top: bool = False  # whether the first name is on top
    is_log: bool = False
    ticks: Sequence[float] | None = None
    # Whether points beyond the limits are shown at the edge, with their number beside them.
    clips: bool = False
    shows_names: bool = True


class Panel(NamedTuple):
    """Marks on two axes."""

    name: str
    marks: Sequence[Mark]
    x: Axis
    y: Axis
    title: str = ""  # the name by default
    is_square: bool = False  # whether a unit is as long on both axes


class Chart(NamedTuple):
    """A figure: what it shows, in panels, and how they lie."""

    heading: str
    panels: Sequence[Panel]
    # Of the CSV: what a panel is, what a mark is, what the places are, what the values are.
    columns: tuple[str, str, str, str]
    note: str = ""  # how to read it
    size: tuple[float, float] = (3.0, 2.4)  # inches of a panel
    across: int = 4  # panels side by side, at most
    together: bool = False  # whether a page shows all panels at once; else one is chosen
    slider: str = ""  # what a slider over the places of the lines sets, if there is one
    dpi: int = 150
    cells: Cells | None = None  # its numbers, where they are others than those of the marks
    shares_y: bool = True  # whether panels have one vertical axis
    first: int = 0  # the panel that a page shows first

    def data(self) -> Cells:
        """The numbers that are drawn, as cells: a header, and a line for each point."""
        return frame(self) if self.cells is None else self.cells


def frame(chart: Chart) -> Cells:
    """A line for each point of each named mark: panel, mark, place, value, and its interval."""
    lines: list[dict[str, object]] = []
    for panel in chart.panels:
        for mark in panel.marks:
            lines += [_point(chart, panel, mark, *place) for place in _places(panel, mark)]
    names = list(dict.fromkeys(name for line in lines for name in line if name))
    rows: Cells = [names]
    for line in lines:
        rows.append([_cell(line.get(name, "")) for name in names])
    return rows


def _cell(content: object) -> str:
    return f"{content:.6g}" if isinstance(content, float) else str(content)


# A place on an axis, the value there, the ends of its interval, and more columns.
Place = tuple[object, float, Sequence[float], Mapping[str, object]]


def _places(panel: Panel, mark: Mark) -> list[Place]:
    if isinstance(mark, Heat):
        places: list[Place] = []
        for (down, across), number in np.ndenumerate(mark.values):
            if not np.isnan(number):
                extra = {panel.x.title: (panel.x.names or ())[across]}
                places.append(((panel.y.names or ())[down], float(number), (), extra))
        return places
    if not isinstance(mark, Line | Dots | Bars) or not mark.name:
        return []
    if isinstance(mark, Bars):
        at, values, low, high, along = mark.at, mark.high, None, None, mark.along
    else:
        along = mark.along if isinstance(mark, Dots) else "y"
        at, values = (mark.x, mark.y) if along == "y" else (mark.y, mark.x)
        low, high = mark.low, mark.high
    names = (panel.x if along == "y" else panel.y).names
    places = []
    for i, (place, value) in enumerate(zip(at, values, strict=True)):
        ends = [] if low is None or high is None else [float(low[i]), float(high[i])]
        shown = float(place) if names is None else names[round(float(place))]
        columns = mark.extra if isinstance(mark, Dots) else {}
        more = {name: column[i] for name, column in columns.items()}
        places.append((shown, float(value), ends, more))
    return places


def _point(
    chart: Chart, panel: Panel, mark: Mark, place: object, value: float, ends: Sequence[float],
    extra: Mapping[str, object],
) -> dict[str, object]:  # fmt: skip
    name = "" if isinstance(mark, Heat | Field | Rule) else mark.name
    content = dict(zip(chart.columns, (panel.name, name, place, value), strict=True))
    return content | dict(zip(("low", "high"), ends, strict=False)) | dict(extra)


def share_values(panels: Sequence[Panel]) -> list[Panel]:
    """The panels with one range of the vertical axis, which holds all lines and their bands."""
    ends: list[float] = []
    for panel in panels:
        for mark in panel.marks:
            if isinstance(mark, Line):
                bounds = [
                    numbers for numbers in (mark.y, mark.low, mark.high) if numbers is not None
                ]
                ends += [float(np.min(numbers)) for numbers in bounds]
                ends += [float(np.max(numbers)) for numbers in bounds]
    pad = 0.04 * (max(ends) - min(ends)) or 1.0
    limits = min(ends) - pad, max(ends) + pad
    return [panel._replace(y=panel.y._replace(limits=limits)) for panel in panels]


def shown_marks(panel: Panel) -> list[Mark]:
    """The marks as they are drawn: those beyond an axis that clips stand at its edge.

    The dot and the ends of its interval are moved to the edge, where an arrow says that the end is
    beyond, and a number where the dot is.
    """
    axis = panel.x
    if not axis.clips or axis.limits is None:
        return list(panel.marks)
    left, right = axis.limits
    marks: list[Mark] = []
    for mark in panel.marks:
        if not isinstance(mark, Dots) or mark.along != "x":
            marks.append(mark)
            continue
        x, y = np.asarray(mark.x, float), np.asarray(mark.y, float)
        low, high = (x if end is None else np.asarray(end, float) for end in (mark.low, mark.high))
        texts = ["" if left <= value <= right else f"{value:+.0f}" for value in x]
        moved = [np.clip(numbers, left, right) for numbers in (x, low, high)]
        marks.append(mark._replace(x=moved[0], low=moved[1], high=moved[2], texts=texts))
        for beyond, edge, symbol in (
            (low < left, left, "triangle-left"), (high > right, right, "triangle-right"),
        ):  # fmt: skip
            if beyond.any():
                colors = mark.color
                if not isinstance(colors, str):
                    colors = [color for color, out in zip(colors, beyond, strict=True) if out]
                at = np.full(int(beyond.sum()), edge)
                marks.append(Dots("", at, y[beyond], colors, symbol, 4.0))
    return marks

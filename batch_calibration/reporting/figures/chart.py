"""What a figure shows: panels of marks on axes; renderers draw it, and its numbers are its CSV."""

from collections.abc import Iterator, Sequence
from itertools import chain, compress
from typing import NamedTuple

import numpy as np

from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.figures.marks import Bars, Dots, Heat, Line, Mark

INTERVALS = "Lines are 95 % intervals."


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

    @property
    def ends(self) -> tuple[float, float] | None:
        """The numbers at its ends, None where marks decide."""
        if self.limits is not None:
            pad = 0.04 * (self.limits[1] - self.limits[0]) if self.clips else 0.0
            return self.limits[0] - pad, self.limits[1] + pad
        if self.names is None:
            return None
        ends = -0.6, len(self.names) - 0.4
        return ends[::-1] if self.from_top else ends

    @property
    def tick_texts(self) -> list[str]:
        """The numbers beside its ticks."""
        return [f"{tick:,g}" for tick in self.ticks or ()]

    @property
    def longest_name(self) -> int:
        """The letters of the longest name that is shown."""
        return max(map(len, self.names or ()), default=0) if self.shows_names else 0


ACCURACY = Axis("accuracy (%)")


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
        """The numbers that are drawn, as cells: a header, and a line for each point.

        Of each named mark: the panel, the mark, the place, the value, and its interval.
        """
        if self.cells is not None:
            return self.cells
        lines: list[dict[str, object]] = []
        for panel in self.panels:
            for mark in panel.marks:
                for *point, more in _points(panel, mark):
                    pairs = zip(self.columns, (panel.name, *point), strict=True)
                    lines.append(dict(pairs) | more)
        header = list(filter(None, dict.fromkeys(chain.from_iterable(lines))))
        rows: Cells = [header]
        for line in lines:
            rows.append([_cell(line.get(column, "")) for column in header])
        return rows


def _cell(content: object) -> str:
    return f"{content:.6g}" if isinstance(content, float) else str(content)


def _points(panel: Panel, mark: Mark) -> Iterator[tuple[str, object, float, dict[str, object]]]:
    """Of each point the mark's name, the position on an axis, the value there, and more columns."""
    if isinstance(mark, Heat):
        across, down = panel.x.names or (), panel.y.names or ()
        for (i, j), number in np.ndenumerate(mark.values):
            if not np.isnan(number):
                yield "", down[i], float(number), {panel.x.title: across[j]}
    elif isinstance(mark, Line | Dots | Bars) and mark.name:
        places, values = (mark.at, mark.high) if isinstance(mark, Bars) else (mark.x, mark.y)
        names, more = panel.x.names, dict[str, Sequence[object]]()
        if isinstance(mark, Dots) and mark.along == "x":
            names, places, values = panel.y.names, values, places
        # The lower end of a bar is no end of an interval.
        if not isinstance(mark, Bars) and mark.low is not None and mark.high is not None:
            more = {"low": [*map(float, mark.low)], "high": [*map(float, mark.high)]}
        more |= mark.extra if isinstance(mark, Dots) else {}
        for i, (position, value) in enumerate(zip(places, values, strict=True)):
            shown = float(position) if names is None else names[round(float(position))]
            yield mark.name, shown, float(value), {column: more[column][i] for column in more}


def share_values(panels: Sequence[Panel]) -> list[Panel]:
    """The panels with one range of the vertical axis, which holds all lines and their bands."""
    ends: list[float] = []
    for mark in chain.from_iterable(panel.marks for panel in panels):
        if isinstance(mark, Line):
            ends += [*mark.y]
            ends += [] if mark.low is None or mark.high is None else [*mark.low, *mark.high]
    pad = 0.04 * (max(ends) - min(ends)) or 1.0
    limits = float(min(ends) - pad), float(max(ends) + pad)
    return [panel._replace(y=panel.y._replace(limits=limits)) for panel in panels]


def shown_marks(panel: Panel) -> list[Mark]:
    """The marks as they are drawn: those beyond an axis that clips stand at its edge.

    The dot and the ends of its interval are moved to the edge, where an arrow says that the end is
    beyond, and a number where the dot is.
    """
    axis, marks = panel.x, list[Mark]()
    if not axis.clips or axis.limits is None:
        return list(panel.marks)
    left, right = axis.limits
    for mark in panel.marks:
        if not isinstance(mark, Dots) or mark.along != "x":
            marks.append(mark)
            continue
        x = np.asarray(mark.x, float)
        low, high = (x if end is None else np.asarray(end, float) for end in (mark.low, mark.high))
        texts = ["" if left <= value <= right else f"{value:+.0f}" for value in x]
        moved = [np.clip(numbers, left, right) for numbers in (x, low, high)]
        marks.append(mark._replace(x=moved[0], low=moved[1], high=moved[2], texts=texts))
        for is_beyond, edge, side in ((low < left, left, "left"), (high > right, right, "right")):
            if is_beyond.any():
                colors = mark.color
                if not isinstance(colors, str):
                    colors = list(compress(colors, is_beyond))
                at, y = np.full(int(is_beyond.sum()), edge), np.asarray(mark.y, float)[is_beyond]
                marks.append(Dots("", at, y, colors, f"triangle-{side}", 4.0))
    return marks

"""Tables, figures and words of the study "failure"."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cells, markdown
from batch_calibration.artifacts.grouping import REFERENCES
from experiments.evidence import batches, statistics
from experiments.evidence.page import Written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASELINE, SHOWN = REFERENCES


class Grid(NamedTuple):
    """Gains of methods over a grid.

    Attributes:
        title: what the rows are.
        shares: [s] of the most frequent label.
        sizes: [z] of batches.
        strengths: [b], nats added to the first label.
        accuracy: method -> [s z b u], points above the baseline of u models or draws.
        balanced: the same of balanced accuracy.
    """

    title: str
    shares: np.ndarray
    sizes: Sequence[int]
    strengths: Sequence[float]
    accuracy: dict[str, np.ndarray]
    balanced: dict[str, np.ndarray]

    def even(self, method: str, size: int, strength: int, *, balanced: bool = False) -> str:
        """The share beyond which a method costs, and its interval, at a size and a strength."""
        gains = (self.balanced if balanced else self.accuracy)[method]
        at = self.shares, gains[:, self._nearest(size), strength]
        value, low, high = statistics.break_even_interval(*at)
        return f"{self._share(value)} [{self._share(low)}, {self._share(high)}]"

    def _nearest(self, size: int) -> int:
        return int(np.argmin(np.abs(np.array(self.sizes) - size)))

    def _share(self, value: float) -> str:
        if np.isinf(value):
            return f"> {self.shares[-1]:.2f}" if value > 0 else f"< {self.shares[0]:.2f}"
        return f"{value:.2f}"

    def gain(self, method: str, share: int, size: int, strength: int) -> str:
        """A cell with its interval over models or draws."""
        values = self.accuracy[method][share, self._nearest(size), strength]
        value, low, high = statistics.mean_interval(values)
        return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"


def tell(real: Sequence[Grid], simulated: Sequence[Grid], told: int) -> Written:
    """What the grids say."""
    every = [*real, *simulated]
    return Written(
        findings(real, told), section(real, simulated, told),
        {"evidence_failure": cells(every), "evidence_failure_break_even": break_evens(every)},
        {
            "evidence_failure_real": partial(draw_real, real),
            "evidence_failure_methods": partial(draw_methods, real[0]),
            "evidence_failure_simulated": partial(draw_simulated, simulated),
        },
    )  # fmt: skip


def findings(real: Sequence[Grid], told: int) -> list[str]:
    """Where the paper's method costs on real rows."""
    shares = "; ".join(f"{one.title}: {one.even(SHOWN, told, 0)}" for one in real)
    one = real[0]
    small = [size for size in one.sizes if size < told]
    sizes = ", ".join(f"{one.gain(SHOWN, 0, size, 0)} with {size}" for size in small)
    return [
        f"**Do not use {SHOWN} where one label is much more frequent than the others.** In batches "
        f"of {told} rows its accuracy falls below {BASELINE}'s when the most frequent label has "
        f"more than this share of the rows (95 % interval over models): {shares}.",
        f"**Do not use {SHOWN} on a few rows**, even where labels are balanced. Points above "
        f"{BASELINE} on {one.title}: {sizes}; {one.gain(SHOWN, 0, told, 0)} with {told} rows.",
    ]


def section(real: Sequence[Grid], simulated: Sequence[Grid], told: int) -> str:
    """The section in Markdown."""
    return "\n\n".join([
        "Batches are drawn with replacement from the rows of one model: first each row's label, by "
        "the wanted shares, then one of its rows. Each label is the most frequent one in turn, and "
        "a cell is the mean over these. A batch is corrected by what is learned from itself. "
        "Simulated rows have two labels with Gaussian margins; their log-probabilities are right "
        f"but for a bias, added to the first label. {left_out()}",
        "![Gain of BC over ICL by share of the most frequent label and batch size]"
        "(figures/evidence_failure_real.png)",
        f"### The break-even share, batches of {told} rows, no bias added",
        "The share of the most frequent label beyond which a method has lower accuracy than ICL; "
        "95 % interval by a bootstrap of models. `<` means that it is lower already at the least "
        "share tried, `>` that it is not lower at the largest.",
        markdown(by_method(real, told)),
        "![The same for every method](figures/evidence_failure_methods.png)",
        f"### {SHOWN}: the break-even share by batch size and added bias",
        *(markdown(by_size(one)) for one in real),
        "### Simulated rows",
        "![Simulated rows](figures/evidence_failure_simulated.png)",
        markdown(by_strength(simulated, told)),
    ])  # fmt: skip


def left_out() -> str:
    """Which methods without labels are too slow for so many batches."""
    shown = batches.without_labels()
    slow = [f"`{name}`" for name in batches.without_labels(looped=True) if name not in shown]
    return f"Left out, as they work on one batch after the other: {', '.join(slow)}."


def by_method(grids: Sequence[Grid], told: int) -> Cells:
    """A line a method: its break-even share on each grid."""
    head = ["method", *(one.title for one in grids)]
    return [head] + [
        [name, *(one.even(name, told, 0) for one in grids)] for name in grids[0].accuracy
    ]


def by_size(one: Grid) -> Cells:
    """A line a batch size: the break-even share at each strength."""
    head = [f"{one.title}: rows of a batch", *(f"{b:g} nats added" for b in one.strengths)]
    places = range(len(one.strengths))
    return [head] + [
        [f"{size:,}", *(one.even(SHOWN, size, place) for place in places)] for size in one.sizes
    ]


def by_strength(grids: Sequence[Grid], told: int) -> Cells:
    """A line a strength: the break-even share of the paper's method on each grid."""
    head = [f"bias, nats (batches of {told} rows)", *(one.title for one in grids)]
    return [head] + [
        [f"{strength:g}", *(one.even(SHOWN, told, place) for one in grids)]
        for place, strength in enumerate(grids[0].strengths)
    ]


def cells(grids: Sequence[Grid]) -> Cells:
    """Every cell, for a spreadsheet."""
    found = [["rows", "method", "share", "batch", "strength", "gain", "low", "high",
              "balanced_gain", "balanced_low", "balanced_high"]]  # fmt: skip
    for one in grids:
        for name, gains in one.accuracy.items():
            for a, b, c in np.ndindex(gains.shape[:3]):
                at = f"{one.shares[a]:g}", str(one.sizes[b]), f"{one.strengths[c]:g}"
                both = [
                    *statistics.mean_interval(gains[a, b, c], draws=1000),
                    *statistics.mean_interval(one.balanced[name][a, b, c], draws=1000),
                ]
                found.append([one.title, name, *at, *(f"{x:.4g}" for x in both)])
    return found


def break_evens(grids: Sequence[Grid]) -> Cells:
    """Every break-even share, for a spreadsheet."""
    found = [["rows", "method", "batch", "strength", "accuracy", "balanced_accuracy"]]
    for one in grids:
        for name in one.accuracy:
            for size in one.sizes:
                for place, strength in enumerate(one.strengths):
                    shares = [one.even(name, size, place, balanced=b) for b in (False, True)]
                    found.append([one.title, name, str(size), f"{strength:g}", *shares])
    return found


LABELS = "share of the most frequent label", "rows of a batch", f"points above {BASELINE}"


def draw_real(grids: Sequence[Grid]) -> "Figure":
    """The paper's method on each kind of real rows, accuracy and balanced accuracy."""
    from batch_calibration.artifacts.figures import heat_maps

    # Grids of four labels have more shares; those of all are drawn.
    shared = [s for s in grids[0].shares if all(np.isclose(one.shares, s).any() for one in grids)]
    panels = {}
    for words, metric in (("accuracy", "accuracy"), ("balanced accuracy", "balanced")):
        for one in grids:
            kept = [int(np.argmin(abs(one.shares - share))) for share in shared]
            gains = getattr(one, metric)[SHOWN][kept, :, 0].mean(axis=-1)
            panels[f"{SHOWN}, {one.title}: {words}"] = gains
    return heat_maps.draw(panels, *_ticks(grids[0], shared), LABELS, columns=len(grids))


def draw_methods(one: Grid) -> "Figure":
    """Every method on one kind of real rows."""
    from batch_calibration.artifacts.figures import heat_maps

    panels = {name: gains[:, :, 0].mean(axis=-1) for name, gains in one.accuracy.items()}
    return heat_maps.draw(panels, *_ticks(one, list(one.shares)), LABELS)


def draw_simulated(grids: Sequence[Grid]) -> "Figure":
    """The paper's method on simulated rows: a line of panels an accuracy, a column a bias."""
    from batch_calibration.artifacts.figures import heat_maps

    panels = {
        f"{one.title.removeprefix('simulated, ')}, bias {strength:g} nats":
            one.accuracy[SHOWN][:, :, place].mean(axis=-1)
        for one in grids
        for place, strength in enumerate(one.strengths)
    }  # fmt: skip
    columns = len(grids[0].strengths)
    return heat_maps.draw(panels, *_ticks(grids[0], list(grids[0].shares)), LABELS, columns)


def _ticks(one: Grid, shares: Sequence[float]) -> tuple[list[str], list[str]]:
    return [f"{share:.2f}" for share in shares], [f"{size:,}" for size in one.sizes]

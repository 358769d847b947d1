"""How methods fare on labeled rows, of one context or pooled, as text, frame and HTML."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate, with_intervals

if TYPE_CHECKING:
    import pandas as pd

BASELINE = "icl"
ALWAYS_SHOWN = (BASELINE, "bc")


class MethodResult(NamedTuple):
    """How one method fares.

    Attributes:
        method: its name in `METHODS`.
        accuracy: the share of labeled rows that it answers rightly, with its 95 % interval.
        gain: accuracy less ICL's, paired by row; None for ICL and where ICL was not run.
        better: contexts whose accuracy is above ICL's.
        worse: contexts whose accuracy is below ICL's.
    """

    method: str
    accuracy: Estimate
    gain: Estimate | None
    better: int = 0
    worse: int = 0

    @property
    def verdict(self) -> str:
        """Whether the gain is one, a loss, or noise; "" for ICL."""
        if self.gain is None:
            return ""
        return ("within noise", "a gain", "a loss")[self.gain.beyond_noise]


class Comparison(NamedTuple):
    """Methods side by side on one context, or on several together.

    Attributes:
        results: one of each method, in the order of `METHODS`.
        rows: how many labeled rows were judged.
        contexts: how many contexts these are of.
        skipped: method -> why it could not be used.
    """

    results: tuple[MethodResult, ...]
    rows: int
    contexts: int
    skipped: dict[str, str]

    def best_of_groups(self) -> list[MethodResult]:
        """ICL, BC, and the most accurate other method of each group of the table of methods."""
        best: dict[str, MethodResult] = {}
        chosen = set(ALWAYS_SHOWN)
        # The first of equal ones: sorting keeps their order.
        for outcome in sorted(self.results, key=lambda outcome: -outcome.accuracy.value):
            if outcome.method not in ALWAYS_SHOWN:
                chosen.add(best.setdefault(METHODS[outcome.method].group, outcome).method)
        return [outcome for outcome in self.results if outcome.method in chosen]

    def cells(self, *, is_all: bool = False) -> list[list[str]]:
        """Header and a row a method, in %: all of them, or the best of each group."""
        # Of several contexts counts say more than the interval of their mean accuracy.
        is_one = self.contexts == 1
        header = ["method", "accuracy", f"gain over {BASELINE}", "verdict"]
        rows = [header if is_one else [*header, "better, worse"]]
        for outcome in self.results if is_all else self.best_of_groups():
            accuracy = str(outcome.accuracy) if is_one else f"{100 * outcome.accuracy.value:.1f}"
            gain = outcome.gain.points if outcome.gain else ""
            row = [outcome.method, accuracy, gain, outcome.verdict]
            if not is_one:
                row.append(f"{outcome.better}, {outcome.worse}" if outcome.gain else "")
            rows.append(row)
        return rows

    def note(self, *, is_all: bool = False, more: str = ".to_frame() has") -> str:
        """How to read the cells; `more` is what shows the methods that are left out."""
        text = "In %, with 95 % intervals; gains are paired by row."
        if self.contexts > 1:
            text += " 'better, worse' counts contexts."
        hidden = len(self.results) - len(self.best_of_groups())
        if hidden and not is_all:
            text += f" Shown is the best of each group by these labels; {more} {hidden} more."
        if self.skipped:
            text += f" {len(self.skipped)} methods need what was not given."
        return text

    def lines(self, *, is_all: bool = False) -> list[str]:
        """The table in aligned columns."""
        cells = self.cells(is_all=is_all)
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        cells.insert(1, ["─" * width for width in widths])
        lines = []
        for row in cells:
            # Names stand to the left, numbers to the right.
            padded = [f"{row[0]:{widths[0]}}"]
            padded += [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
            lines.append("  ".join(padded).rstrip())
        return lines

    def __str__(self) -> str:
        return "\n".join([*self.lines(), self.note()])

    def _repr_html_(self) -> str:
        header, *rows = self.cells()
        head = "".join(f"<th>{escape(name)}</th>" for name in header)
        body = ""
        for row in rows:
            body += f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p>{self.rows:,} labeled rows</p>{table}<p>{escape(self.note())}</p>"

    def to_frame(self) -> "pd.DataFrame":
        """A row a method: accuracy and gain (0 to 1) with the ends of their 95 % intervals.

        Raises:
            InputError: pandas is not installed.
        """
        pandas = need_pandas("to_frame")
        rows = []
        for outcome in self.results:
            method, accuracy, gain, *counts = outcome
            numbers = *accuracy, *(gain or (np.nan, np.nan, np.nan))
            rows.append([method, *numbers, outcome.verdict, *counts])
        columns = ["method", "accuracy", "accuracy_low", "accuracy_high", "gain", "gain_low",
                   "gain_high", "verdict", "better", "worse"]  # fmt: skip
        return pandas.DataFrame(rows, columns=columns).set_index("method")


def need_pandas(where: str):  # type: ignore[no-untyped-def]
    """Pandas, or a sentence that says how to install it."""
    try:
        import pandas
    except ImportError as error:
        raise InputError(
            where=where, expected="pandas to be installed", remedy="pip install pandas"
        ) from error
    return pandas


def judge(
    picks: Mapping[str, np.ndarray], gold: np.ndarray, skipped: Mapping[str, str]
) -> Comparison:
    """Predictions [n] of each method against the right labels [n], -1 where unknown."""
    is_labeled = gold >= 0
    labels = gold[is_labeled]
    right = {name: pick[: len(gold)][is_labeled] == labels for name, pick in picks.items()}
    outcomes = []
    for name, is_right in right.items():
        before = right.get(BASELINE) if name != BASELINE else None
        numbers = with_intervals({"accuracy": float(is_right.mean())}, is_right, before)
        accuracy = Estimate(*(numbers[f"accuracy{end}"] for end in ("", "_low", "_high")))
        gain = None
        if before is not None:
            gain = Estimate(*(numbers[f"gain{end}"] for end in ("", "_low", "_high")))
        change = gain.value if gain else 0.0
        outcomes.append(MethodResult(name, accuracy, gain, int(change > 0), int(change < 0)))
    return Comparison(tuple(outcomes), int(is_labeled.sum()), 1, dict(skipped))


def pool(comparisons: Sequence[Comparison]) -> Comparison:
    """Several contexts together, of the methods that all have, weighted by their labeled rows.

    Intervals suppose that the contexts have no rows in common: how far they reach is added in
    squares, as by `over_tasks`.
    """
    rows = np.array([comparison.rows for comparison in comparisons])
    shares = rows / rows.sum()
    by_method: dict[str, list[MethodResult]] = {}
    skipped: dict[str, str] = {}
    for comparison in comparisons:
        skipped |= comparison.skipped
        for outcome in comparison.results:
            by_method.setdefault(outcome.method, []).append(outcome)
    pooled = []
    for method, outcomes in by_method.items():
        if len(outcomes) == len(comparisons):
            _, accuracies, gains, better, worse = zip(*outcomes, strict=True)
            gain = None if None in gains else _weighted_mean(gains, shares)
            accuracy = _weighted_mean(accuracies, shares)
            pooled.append(MethodResult(method, accuracy, gain, sum(better), sum(worse)))
    return Comparison(tuple(pooled), int(rows.sum()), len(comparisons), skipped)


def _weighted_mean(estimates: Sequence[Estimate], shares: np.ndarray) -> Estimate:
    """The mean of estimates of rows that have nothing in common, with its interval."""
    means, low, high = np.array(estimates).T  # [c] each
    mean = float(shares @ means)
    below, above = (float(np.linalg.norm(shares * (end - means))) for end in (low, high))
    return Estimate(mean, mean - below, mean + above)

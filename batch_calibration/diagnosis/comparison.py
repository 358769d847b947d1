"""A comparison of methods on labeled rows: accuracy, and gain over ICL with its interval."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays.alignment import column_numbers, in_row_order
from batch_calibration.arrays.frames import is_frame, names_of
from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.diagnosis.forms import ends, to_frame
from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, Options, find_skipped, run_methods, validation
from batch_calibration.methods.run import task_of
from batch_calibration.methods.table import SHIPPED, in_table_order
from batch_calibration.metrics import Estimate, accuracy_of, gain_of, measure_reliability
from batch_calibration.metrics.reliability import COLUMNS, Reliability
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.typing import FromProbs

BASELINE, CORRECTED = REFERENCES = "icl", "bc"
"""The baseline of all gains is ICL. Short tables always show ICL and BC."""


class MethodResult(NamedTuple):
    """The accuracy of one method, and its gain.

    Attributes:
        method: its name in `METHODS`.
        accuracy: the share of labeled rows with a right prediction, with its 95 % interval.
        gain: accuracy minus ICL's accuracy, paired by row; None for ICL and if ICL was not run.
        better: the number of contexts with a higher accuracy than ICL's.
        worse: the number of contexts with a lower accuracy than ICL's.
        reliability: the quality of its probabilities; None for cosines without a scale.
    """

    method: str
    accuracy: Estimate
    gain: Estimate | None
    better: int = 0
    worse: int = 0
    reliability: Reliability | None = None

    @property
    def verdict(self) -> str:
        """A phrase: "a gain", "a loss" or "within noise"; "" without a gain."""
        if self.gain is None:
            return ""
        return ("within noise", "a gain", "a loss")[self.gain.beyond_noise]


class Comparison(NamedTuple):
    """Results of several methods on one context, or pooled over several contexts.

    Attributes:
        results: one result for each method, in the order of `METHODS`.
        rows: the number of labeled rows.
        contexts: the number of contexts.
        skipped: method -> the reason why it could not be used.
    """

    results: tuple[MethodResult, ...]
    rows: int
    contexts: int
    skipped: dict[str, str]

    def __repr__(self) -> str:
        return f"Comparison({len(self.results)} methods, {self.rows:,} labeled rows: print it)"

    def cells(self, *, is_all: bool = False) -> list[list[str]]:
        """Returns a header and rows in %: all methods, or the best method of each group."""
        # For several contexts, counts are more informative than an interval of the mean accuracy.
        is_one = self.contexts == 1
        header = ["method", "accuracy", f"gain over {BASELINE}", "verdict"]
        rows = [header if is_one else [*header, "better, worse"]]
        for outcome in self.results if is_all else self._best_of_groups():
            accuracy = str(outcome.accuracy) if is_one else f"{100 * outcome.accuracy.value:.1f}"
            gain = outcome.gain.points if outcome.gain else ""
            row = [outcome.method, accuracy, gain, outcome.verdict]
            if not is_one:
                row.append(f"{outcome.better}, {outcome.worse}" if outcome.gain else "")
            rows.append(row)
        return rows

    def probability_cells(self, *, is_all: bool = False) -> list[list[str]]:
        """Returns a header and a row for each method with log loss, Brier score and ECE."""
        rows = [["method", *COLUMNS]]
        for method, *_, found in self.results if is_all else self._best_of_groups():
            rows += [[method, *found.texts()]] if found else []
        return rows

    def _best_of_groups(self) -> list[MethodResult]:
        """Returns the results of ICL, BC, own methods, and the best other method of each group."""
        best: dict[str, MethodResult] = {}
        chosen = {*REFERENCES, *METHODS.keys() - SHIPPED}
        # Sorting is stable, so the first of equally accurate methods is chosen.
        for outcome in sorted(self.results, key=lambda outcome: -outcome.accuracy.value):
            if outcome.method not in REFERENCES:
                chosen.add(best.setdefault(METHODS[outcome.method].group, outcome).method)
        return [outcome for outcome in self.results if outcome.method in chosen]

    def reading_note(self, *, is_all: bool = False, more: str = ".to_frame() has") -> str:
        """Explains the cells.

        Args:
            is_all: True if the cells show all methods.
            more: the beginning of a clause that gives the number of hidden methods.
        """
        text = "In %, with 95 % intervals; gains are paired by row."
        if self.contexts > 1:
            text += " 'better, worse' counts contexts."
        hidden = len(self.results) - len(self._best_of_groups())
        if hidden and not is_all:
            text += f" Each group's best method on these labels is shown; {more} {hidden} more."
        if self.skipped:
            text += f" {len(self.skipped)} methods need inputs that were not given."
        return text

    def __str__(self) -> str:
        rows = self.cells()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, ["─" * width for width in widths])
        lines = []
        for name, *numbers in rows:
            cells = map(str.rjust, numbers, widths[1:])
            lines.append("  ".join([name.ljust(widths[0]), *cells]).rstrip())
        return "\n".join([*lines, self.reading_note()])

    def _repr_html_(self) -> str:
        header, *rows = self.cells()
        head = "".join(f"<th>{escape(name)}</th>" for name in header)
        body = ""
        for row in rows:
            body += f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p>{self.rows:,} labeled rows</p>{table}<p>{escape(self.reading_note())}</p>"

    def to_frame(self) -> pd.DataFrame:
        """Returns a row for each method: accuracy, gain, nll, brier and ece with 95 % intervals.

        Raises:
            InputError: pandas is not installed.
        """
        rows = []
        for row in self.results:
            numbers = ends("accuracy", row.accuracy) | ends("gain", row.gain)
            counts = {"verdict": row.verdict, "better": row.better, "worse": row.worse}
            for name in ("nll", "brier", "ece"):
                numbers |= ends(name, getattr(row.reliability, name, None))
            rows.append({"method": row.method} | numbers | counts)
        return to_frame(rows, "method")


def judge_answers(
    scores: Mapping[str, np.ndarray], gold: np.ndarray, skipped: Mapping[str, str], *,
    are_probs: bool = True,
) -> Comparison:  # fmt: skip
    """Compares the scores [n, k] of each method with the right labels [n], -1 if unknown."""
    is_labeled = gold >= 0
    labels, known, right = gold[is_labeled], {}, {}
    for name, of_method in scores.items():
        known[name] = of_method[: len(gold)][is_labeled]
        right[name] = known[name].argmax(axis=-1) == labels
    outcomes = []
    for name, is_right in right.items():
        before = right.get(BASELINE) if name != BASELINE else None
        gain = None if before is None else gain_of(before, is_right)
        change = gain.value if gain else 0.0
        better, worse = int(change > 0), int(change < 0)
        reliability = measure_reliability(known[name], labels) if are_probs else None
        accuracy = accuracy_of(is_right)
        outcomes.append(MethodResult(name, accuracy, gain, better, worse, reliability))
    return Comparison(tuple(outcomes), int(is_labeled.sum()), 1, dict(skipped))


def pool(comparisons: Sequence[Comparison]) -> Comparison:
    """Averages results over contexts, weighted by their numbers of labeled rows.

    Methods that some context lacks are left out. The intervals assume that contexts have different
    rows, so their errors are independent: half-widths add in squares, as in `over_tasks`.
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
            _, accuracies, gains, better, worse, probs = zip(*outcomes, strict=True)
            gain = None if None in gains else _weighted_mean(gains, shares)
            accuracy, reliability = _weighted_mean(accuracies, shares), None
            if None not in probs:
                *kinds, bins = zip(*probs, strict=True)
                nll, brier, ece = (_weighted_mean(kind, shares) for kind in kinds)
                reliability = Reliability(nll, brier, ece, tuple(map(tuple, np.sum(bins, axis=0))))
            counts = sum(better), sum(worse)
            pooled.append(MethodResult(method, accuracy, gain, *counts, reliability))
    return Comparison(tuple(pooled), int(rows.sum()), len(comparisons), skipped)


def _weighted_mean(estimates: Sequence[Estimate], shares: np.ndarray) -> Estimate:
    """Averages independent estimates; each half of the interval is a root of a sum of squares."""
    means, low, high = np.array(estimates).T  # [c] each
    mean = float(shares @ means)
    below, above = (float(np.linalg.norm(shares * (end - means))) for end in (low, high))
    return Estimate(mean, mean - below, mean + above)


@usual_jax
def compare(
    scores: ArrayLike,
    gold: ArrayLike,
    *,
    methods: Sequence[str] | None = None,
    probe: ArrayLike | None = None,
    labeled: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    options: Mapping[str, Options] | None = None,
    columns: Sequence[Hashable] | None = None,
    from_probs: FromProbs = None,
    seed: int = 0,
) -> Comparison:
    """Measures the accuracy of every usable method on rows with known right labels.

    Args:
        scores: [n, k], log-probabilities in nats of the rows to correct.
        gold: [n], the right labels of these rows as indices or names of columns; -1 if unknown.
        methods: names from `METHODS`; by default all usable methods.
        probe: [m, k], scores of content-free prompts, for the methods that learn from them.
        labeled: [m, k], scores of other, labeled rows, for the methods that learn from labels.
        labels: [m], the labels of the labeled rows.
        options: method -> arguments of its `make`, such as `{"bc": {"strength": 0.5}}`.
        columns: the names of the label columns, if a frame has other columns, too. Frames of
            labeled and probe must have columns with the same names.
        from_probs: True if scores, probe and labeled are probabilities, see `calibrate`.
        seed: the seed of methods with a random start.

    Raises:
        InputError: `calibrate` would refuse the scores; no right label is known; only one of
            labeled and labels is given; a method is unknown; or no method is usable.

    >>> comparison = compare(20 * [[-1.0, -3.0], [-2.0, -2.5]], 20 * [0, 1], methods=["icl", "bc"])
    >>> [(result.method, result.accuracy.value, result.verdict) for result in comparison.results]
    [('icl', 0.5, ''), ('bc', 1.0, 'a gain')]
    """
    rows = validation.check_scores(scores, from_probs=from_probs, columns=columns)
    names = names_of(scores, columns)
    right = validation.check_labels(column_numbers(in_row_order(gold, "gold", scores), names), rows)

    def read_by_name(source: ArrayLike, where: str) -> np.ndarray:
        of_frame = names if is_frame(source) else None
        return validation.check_scores(source, where, from_probs=from_probs, columns=of_frame)

    if (labeled is None) != (labels is None):
        raise InputError.at("labeled", "labeled= and labels= together", "one of them", "give both")
    blocks = {"test": make_block(rows, right)}
    if probe is not None:
        blocks["cc"] = make_block(read_by_name(probe, "probe"))
    if labeled is not None and labels is not None:
        labeled_rows = read_by_name(labeled, "labeled")
        label_numbers = column_numbers(in_row_order(labels, "labels", labeled), names)
        known = validation.check_labels(label_numbers, labeled_rows)
        blocks["labeled"] = make_block(labeled_rows, known)
    table = ScoreTable({}, tuple(map(str, range(rows.shape[-1]))), blocks)
    chosen = in_table_order(methods)
    skipped = find_skipped(table, chosen, options)
    usable = [name for name in chosen if name not in skipped]
    if not usable:
        expected = "a method that the scores allow"
        got = "; ".join(f"{name}: {why}" for name, why in skipped.items()) or "none"
        raise InputError.at("methods", expected, got)
    comparison = next(compare_tables([table], usable, options=options, seed=seed))
    return comparison._replace(skipped=skipped)


def compare_tables(
    tables: Sequence[ScoreTable],
    methods: Sequence[str] | None = None,
    *,
    options: Mapping[str, Options] | None = None,
    seed: int = 0,
    common: Sequence[Options] | None = None,
) -> Iterator[Comparison]:
    """Yields the results of the usable methods on each table; see `run_methods`."""
    groups = [task_of(table) for table in tables]
    found = run_methods(tables, methods, options=options, seed=seed, groups=groups, common=common)
    for table, corrected, skipped in zip(tables, found.results, found.skipped, strict=True):
        scores = {name: np.asarray(found.scores) for name, found in corrected.items()}
        rows, gold, *_ = table.blocks["test"]
        are_probs = not validation.look_like_cosines(rows)
        yield judge_answers(scores, gold, skipped, are_probs=are_probs)


if TYPE_CHECKING:
    import pandas as pd

"""Every method side by side on labeled rows: accuracy, gain over ICL, and whether it is noise."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

import jax
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays import column_numbers, in_row_order, names_of
from batch_calibration.errors import InputError
from batch_calibration.methods import (
    METHODS,
    Evidence,
    Group,
    Options,
    check_chosen,
    check_labels,
    check_scores,
    find_unusable,
    get_method,
    no_log_probs,
)
from batch_calibration.methods import compare as correct_by_methods
from batch_calibration.metrics import Estimate, with_intervals

if TYPE_CHECKING:
    import pandas as pd

BASELINE = "icl"
ALWAYS_SHOWN = (BASELINE, "bc")
FrozenOptions = tuple[tuple[str, tuple[tuple[str, object], ...]], ...]
"""Method -> its options, as tuples: a compiled program is kept under them."""


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
        chosen = set(ALWAYS_SHOWN)
        for group in get_args(Group):
            members = [result for result in self.results
                       if METHODS[result.method].group == group
                       and result.method not in ALWAYS_SHOWN]  # fmt: skip
            if members:
                chosen.add(max(members, key=lambda result: result.accuracy.value).method)
        return [result for result in self.results if result.method in chosen]

    def cells(self, *, is_all: bool = False) -> list[list[str]]:
        """Header and a row a method, in %: all of them, or the best of each group."""
        # Of several contexts counts say more than the interval of their mean accuracy.
        is_one = self.contexts == 1
        header = ["method", "accuracy", f"gain over {BASELINE}", "verdict"]
        rows = [header if is_one else [*header, "better, worse"]]
        for result in self.results if is_all else self.best_of_groups():
            accuracy = str(result.accuracy) if is_one else f"{100 * result.accuracy.value:.1f}"
            row = [result.method, accuracy, result.gain.points if result.gain else ""]
            row.append(result.verdict)
            if not is_one:
                row.append(f"{result.better}, {result.worse}" if result.gain else "")
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
        for result in self.results:
            gain = result.gain or Estimate(np.nan, np.nan, np.nan)
            numbers = *result.accuracy, *gain
            rows.append([result.method, *numbers, result.verdict, result.better, result.worse])
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


def compare(
    scores: ArrayLike,
    gold: ArrayLike,
    *,
    methods: Sequence[str] | None = None,
    probe: ArrayLike | None = None,
    labeled: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    options: Mapping[str, Options] | None = None,
    from_probs: bool | None = None,
    seed: int = 0,
) -> Comparison:
    """Every method that the scores allow, judged on rows whose right labels are known.

    Args:
        scores: [n, k], log-probabilities in nats of the rows to correct.
        gold: [n], their right labels as indices or names of columns; -1 where unknown.
        methods: names from `METHODS`; all that can be used by default.
        probe: [m, k], scores of content-free prompts, for the methods that learn from them.
        labeled: [m, k], scores of other, labeled rows, for the methods that learn from labels.
        labels: [m], the labels of these.
        options: method -> what its `make` takes, such as `{"bc": {"strength": 0.5}}`.
        from_probs: whether scores, probe and labeled are probabilities, as in `calibrate`.
        seed: of methods that start at random.

    Raises:
        InputError: as `calibrate`; no right label; labeled without labels or the reverse; an
            unknown method, or none that can be used.

    >>> comparison = compare(20 * [[-1.0, -3.0], [-2.0, -2.5]], 20 * [0, 1], methods=["icl", "bc"])
    >>> [(result.method, result.accuracy.value, result.verdict) for result in comparison.results]
    [('icl', 0.5, ''), ('bc', 1.0, 'a gain')]
    """
    rows, names = check_scores(scores, from_probs=from_probs), names_of(scores)
    right = check_labels(column_numbers(in_row_order(gold, "gold", scores), names), rows)
    if (labeled is None) != (labels is None):
        raise InputError(
            where="labeled", expected="labeled and labels together", got="one of them",
            remedy="give the scores of the labeled rows and their labels",
        )  # fmt: skip
    blocks = {"test": Evidence(rows[None], right[None])}
    if probe is not None:
        blocks["cc"] = Evidence(check_scores(probe, from_probs=from_probs)[None])
    if labeled is not None and labels is not None:
        labeled_rows = check_scores(labeled, from_probs=from_probs)
        known = column_numbers(in_row_order(labels, "labels", labeled), names)
        blocks["labeled"] = Evidence(labeled_rows[None], check_labels(known, labeled_rows)[None])
    chosen = [get_method(name) and name for name in (METHODS if methods is None else methods)]
    skipped = find_unusable(
        chosen, rows.shape[-1], {name: block.log_probs.shape[1] for name, block in blocks.items()},
        no_level=no_log_probs(rows), options=options,
    )  # fmt: skip
    usable = [name for name in METHODS if name in chosen and name not in skipped]
    if not usable:
        raise InputError(
            where="methods", expected="one that the scores allow",
            got="; ".join(f"{name}: {why}" for name, why in skipped.items()) or "none",
        )  # fmt: skip
    checked = check_chosen(options, usable, [rows.shape[-1]])
    picks = predict_by_methods(blocks, usable, checked, seed=seed)
    return judge({name: pick[0] for name, pick in picks.items()}, right, skipped)


def predict_by_methods(
    blocks: Mapping[str, Evidence],
    methods: Sequence[str],
    options: Mapping[str, Options],
    *,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """What each method predicts for the test rows of c contexts: name -> label indices [c n]."""
    frozen = tuple((name, tuple(chosen.items())) for name, chosen in options.items())
    picks = dict[str, jax.Array]()
    for is_looped, level in ((True, 1), (False, 0)):
        names = tuple(name for name in methods if METHODS[name].looped == is_looped)
        if names:
            picks |= _PREDICT[level](
                dict(blocks), jax.random.key(seed), methods=names, options=frozen
            )
    # A compiled program returns a dict in the order of the alphabet.
    return {name: np.asarray(picks[name]) for name in methods}


def _predict(
    blocks: dict[str, Evidence], key: jax.Array, *, methods: tuple[str, ...],
    options: FrozenOptions,
) -> dict[str, jax.Array]:  # fmt: skip
    by_method = {name: dict(pairs) for name, pairs in options}
    corrected = correct_by_methods(blocks, methods=methods, key=key, options=by_method)
    return {name: method.scores.argmax(axis=-1) for name, method in corrected.items()}


# How much the CPU's compiler optimizes: loops over contexts run for seconds, all else for
# milliseconds, where a compiler that takes its time costs more than it saves.
_PREDICT = {}
for _level in (0, 1):
    _PREDICT[_level] = jax.jit(
        _predict, static_argnames=("methods", "options"),
        compiler_options={"xla_backend_optimization_level": _level},
    )  # fmt: skip


def judge(
    picks: Mapping[str, np.ndarray], gold: np.ndarray, skipped: Mapping[str, str]
) -> Comparison:
    """Predictions [n] of each method against the right labels [n], -1 where unknown."""
    is_labeled = gold >= 0
    known = gold[is_labeled]
    right = {name: pick[: len(gold)][is_labeled] == known for name, pick in picks.items()}
    results = []
    for name, is_right in right.items():
        before = right.get(BASELINE) if name != BASELINE else None
        numbers = with_intervals({"accuracy": float(is_right.mean())}, is_right, before)
        gain = None
        if before is not None:
            gain = Estimate(numbers["gain"], numbers["gain_low"], numbers["gain_high"])
        accuracy = (numbers["accuracy"], numbers["accuracy_low"], numbers["accuracy_high"])
        change = gain.value if gain else 0.0
        results.append(
            MethodResult(name, Estimate(*accuracy), gain, int(change > 0), int(change < 0))
        )
    return Comparison(tuple(results), int(is_labeled.sum()), 1, dict(skipped))


def pool(comparisons: Sequence[Comparison]) -> Comparison:
    """Several contexts together, of the methods that all have, weighted by their labeled rows.

    Intervals suppose that the contexts have no rows in common: how far they reach is added in
    squares, as by `over_tasks`.
    """
    rows = np.array([comparison.rows for comparison in comparisons])
    shares = rows / rows.sum()
    by_method: dict[str, list[MethodResult]] = {}
    for comparison in comparisons:
        for result in comparison.results:
            by_method.setdefault(result.method, []).append(result)
    results = []
    for method, of_contexts in by_method.items():
        if len(of_contexts) < len(comparisons):
            continue
        gains = [result.gain for result in of_contexts]
        has_gains = all(gain is not None for gain in gains)
        results.append(
            MethodResult(
                method, _weighted_mean([result.accuracy for result in of_contexts], shares),
                _weighted_mean(cast("list[Estimate]", gains), shares) if has_gains else None,
                sum(result.better for result in of_contexts),
                sum(result.worse for result in of_contexts),
            )
        )  # fmt: skip
    skipped: dict[str, str] = {}
    for comparison in comparisons:
        skipped |= comparison.skipped
    return Comparison(tuple(results), int(rows.sum()), len(comparisons), skipped)


def _weighted_mean(estimates: Sequence[Estimate], shares: np.ndarray) -> Estimate:
    """The mean of estimates of rows that have nothing in common, with its interval."""
    value, low, high = np.array(estimates).T  # [c] each
    mean = float(shares @ value)
    below, above = (float(np.linalg.norm(shares * (end - value))) for end in (low, high))
    return Estimate(mean, mean - below, mean + above)

"""Preferences of prompts: shares of each label before and after, or the gain of each context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.diagnosis import Advice, Comparison, Diagnosis
from batch_calibration.diagnosis.threshold import Threshold
from batch_calibration.errors import InputError
from batch_calibration.metrics import Estimate
from batch_calibration.reporting import palette
from batch_calibration.reporting.figures import intervals, style
from batch_calibration.reporting.figures.style import INK, Drawn
from batch_calibration.reporting.figures.thresholds import draw_thresholds
from batch_calibration.reporting.frame import BASELINE, CORRECTED

MAX_PANELS = 3  # contexts with panels; of more contexts only the gains are drawn
HEADING = "What the prompts prefer"
Row = tuple[object, ...]  # of the CSV: context, what, label, value


def draw_preferences(diagnoses: Sequence[Diagnosis], titles: Sequence[str]) -> Drawn:
    """Draws the preference and shares of each label of a few contexts, or the gains of many.

    Without right labels it draws the strength of each preference instead of gains.
    """
    pairs = list(zip(titles, diagnoses, strict=True))
    if len(diagnoses) <= MAX_PANELS:
        return _draw_labels(pairs)
    gains = {title: diagnosis.gain for title, diagnosis in pairs if diagnosis.gain}
    if not gains:
        return _draw_strengths(pairs)
    methods = {diagnosis.method for diagnosis in diagnoses}
    subject = methods.pop() if len(methods) == 1 else "the recommended method"
    return intervals.draw_contexts(gains, f"Gain in accuracy by {subject}, context by context")


@style.styled
def _draw_labels(pairs: Sequence[tuple[str, Diagnosis]]) -> Drawn:
    """Draws preferences, shares and, with right labels, the reliability of each context."""
    most = max(len(diagnosis.label_names) for _, diagnosis in pairs)
    has_probs = all(_has_probs(diagnosis) for _, diagnosis in pairs)
    size, across = (3.2 + 0.3 * most, 2.4), 3 if has_probs else 2
    figure, grid = style.panels(across * len(pairs), size, across=across, shares_y=False)
    rows: list[Row] = [("context", "what", "label", "value")]
    for number, (title, diagnosis) in enumerate(pairs):
        left, right, *more = grid[across * number : across * (number + 1)]
        for axes in more:
            rows += _draw_reliability(axes, title, diagnosis)
        drawn = _draw_preference(left, title, diagnosis) | _draw_shares(right, title, diagnosis)
        for kind, numbers in drawn.items():
            for label, number in zip(diagnosis.label_names, numbers, strict=True):
                rows.append((title, kind, label, float(number)))
        for axes in (left, right):
            style.name_ticks(axes.xaxis, np.take(diagnosis.label_names, diagnosis.order).tolist())
    note = "Lines on the bars of a preference are ± 2 standard errors over rows."
    if has_probs:
        note += f" {RELIABILITY_NOTE}"
    return style.finish(figure, HEADING, note, rows)


RELIABILITY_NOTE = (
    "Right: the share of right predictions among rows of similar probability; on the diagonal "
    "probabilities are right, below it they are too high. Larger dots are more rows."
)


@style.styled
def draw_reliability(diagnoses: Sequence[Diagnosis], titles: Sequence[str]) -> Drawn | None:
    """Draws the reliability of all contexts with right labels, or returns None."""
    found = [pair for pair in zip(titles, diagnoses, strict=True) if _has_probs(pair[1])]
    if not found:
        return None
    figure, grid = style.panels(len(found), (3.0, 2.4), across=3, shares_y=False)
    rows: list[Row] = [("context", "what", "label", "value")]
    for axes, (title, diagnosis) in zip(grid, found, strict=True):
        rows += _draw_reliability(axes, title, diagnosis)
    return style.finish(figure, "How reliable probabilities are", RELIABILITY_NOTE, rows)


def _has_probs(diagnosis: Diagnosis) -> bool:
    return diagnosis.before is not None and diagnosis.before.reliability is not None


def _draw_reliability(axes: Axes, title: str, diagnosis: Diagnosis) -> list[Row]:
    """Draws accuracy by confidence before and after; returns the rows of the CSV."""
    after, rows = diagnosis.after and diagnosis.after.reliability, list[Row]()
    found = {"predicted": diagnosis.before and diagnosis.before.reliability}
    found |= {f"after {diagnosis.method}": after, "with a temperature": diagnosis.tempered}
    axes.plot([0, 100], [0, 100], color=style.FAINT, lw=1.4, zorder=0)
    colors = palette.color(BASELINE), palette.color(CORRECTED), palette.SPARES[4]
    for (name, reliability), color in zip(found.items(), colors, strict=True):
        if reliability is None:
            continue
        counts, *sums = np.array([bin_ for bin_ in reliability.bins if bin_[0]]).T
        x, y = (100 * sum_ / counts for sum_ in sums)
        axes.plot(x, y, color=color, lw=1.2, label=name)
        dots = axes.scatter(x, y, 8 + 120 * counts / counts.sum(), color=color)
        texts = []
        for confidence, right, count in zip(x, y, counts, strict=True):
            texts.append(f"{name}: {count:.0f} rows, {confidence:.1f} %, {right:.1f} % right")
            rows.append((title, f"right in %, {name}", f"{confidence:.4g} %", float(right)))
        style.name_marks(dots, texts)
    x_title = "probability of the prediction (%)"
    style.label(axes, f"{title}: reliability", x_title, "right (%)", width=3.5)
    return rows


def _draw_preference(axes: Axes, title: str, diagnosis: Diagnosis) -> dict[str, np.ndarray]:
    """Draws the preference for each label and its error; returns the numbers of the CSV."""
    at = diagnosis.order.argsort()
    unit = np.nan_to_num(diagnosis.unit, nan=1.0)
    size, error = diagnosis.preference / unit, 2 * np.nan_to_num(diagnosis.error) / unit
    color = palette.SPARES[4]
    _draw_bars(axes, "preference", at, size, diagnosis.label_names, color=color, width=0.6)
    axes.vlines(at, size - error, size + error, colors=INK, lw=1.4)
    axes.axhline(0.0, color=INK, lw=1.0, zorder=0)
    y = "mean log-probability\nless the labels' mean (nats)"
    if diagnosis.is_matched:
        y = "bias that matches the shares,\nless the labels' mean (nats)"
    if diagnosis.cosines:
        y = "mean cosine less the labels' mean\n(standard deviations)"
    style.label(axes, f"{title}: preference", y=y, width=3.5)
    return {"preference": size}


def _draw_shares(axes: Axes, title: str, diagnosis: Diagnosis) -> dict[str, np.ndarray]:
    """Draws the shares of each label before, after and right, in %; returns them."""
    at, names = diagnosis.order.argsort(), diagnosis.label_names
    shares = {"predicted": 100 * diagnosis.predicted}
    shares[f"after {diagnosis.method}"] = 100 * diagnosis.corrected
    looks = (-0.2, BASELINE), (0.2, CORRECTED)
    for (name, share), (shift, method) in zip(shares.items(), looks, strict=True):
        _draw_bars(axes, name, at + shift, share, names, color=palette.color(method), width=0.38)
    if diagnosis.classes is not None:
        right = shares["right"] = 100 * diagnosis.classes
        lines = axes.hlines(right, at - 0.42, at + 0.42, colors=INK, lw=1.8, label="right")
        style.name_marks(lines, [f"right: {share:.1f} %" for share in right])
    style.label(axes, f"{title}: {diagnosis.rows:,} rows", y="share of rows (%)", width=3.5)
    return shares


def _draw_bars(
    axes: Axes, kind: str, at: np.ndarray, heights: np.ndarray, names: Sequence[str], **look: Any
) -> None:
    """Draws a bar of one kind for each label."""
    bars = axes.bar(at, heights, label=kind, **look)
    for bar, name, height in zip(bars, names, heights, strict=True):
        style.name_marks(bar, [f"{name}, {kind}: {height:.4g}"])


def _draw_strengths(pairs: Iterable[tuple[str, Diagnosis]]) -> Drawn:
    """Draws the strength of each preference, the strongest first."""
    strengths, units = [], set[str]()
    for title, diagnosis in pairs:
        size, error = diagnosis.size, diagnosis.pair_error / diagnosis.unit
        strengths.append((float(np.nan_to_num(size)), error, title))
        units.add("standard deviations" if diagnosis.cosines else "nats")
    sizes, errors, names = zip(*sorted(strengths, reverse=True), strict=True)
    height, reach = np.array(sizes), 2 * np.nan_to_num(np.array(errors))
    numbers = np.stack([height, height - reach, height + reach], axis=1)
    unit = " or ".join(sorted(units))
    titles = "contexts, the strongest first", f"preference of a label ({unit})"
    heading, note = f"{HEADING}: how strongly", "Lines are ± 2 standard errors over rows."
    color = palette.color(CORRECTED)
    return intervals.draw_strip(unit, names, numbers, color, titles, heading, note)


@usual_jax
def plot(result: Diagnosis | Advice | Comparison | Threshold, title: str = "scores") -> Figure:
    """Draws a result of `diagnose`, `recommend`, `compare` or `choose_threshold` with matplotlib.

    For a diagnosis it draws the preference for each label with ± 2 standard errors, and the shares
    of labels before and after. For advice it draws the measured accuracy of each method, or the
    expected gain if there are no labels. For a comparison it draws the gain of each method over
    ICL. For a threshold it draws precision, recall and F1 over the cut-offs. Intervals are at 95 %.
    The figure can be saved by `plot(found).savefig("found.png")`. A notebook shows it once, and
    pyplot does not keep it.

    Args:
        result: the result.
        title: a name of the scores.

    Raises:
        InputError: another object; advice without a known gain; a comparison without ICL.

    >>> from batch_calibration import diagnose
    >>> figure = plot(diagnose(20 * [[-1.0, -3.0], [-2.0, -2.5]], label_names=("no", "yes")))
    >>> [axes.get_ylabel().split()[0] for axes in figure.axes]
    ['mean', 'share']
    """
    return _draw(result, title).figure


def _draw(result: object, title: str) -> Drawn:
    if isinstance(result, Diagnosis):
        return draw_preferences([result], [title])
    if isinstance(result, Threshold):
        return draw_thresholds([result], [title])
    if isinstance(result, Comparison):
        gains = {row.method: row.gain for row in result.results if row.gain}
        if not gains:
            got = ", ".join(row.method for row in result.results)
            raise InputError.at("plot", "icl and another method", got)
        return _draw_gains(gains, f"Gain over icl: {title}, {result.rows:,} labeled rows")
    if isinstance(result, Advice):
        if result.measured:
            panels = {title: result.measured}
            return intervals.draw_estimates(panels, "Each judged on held-out rows")
        if gain := result.expected.gain:
            heading = f"Gain to expect: {title} ({result.expected.source})"
            return _draw_gains({result.short: gain}, heading)
        expected = "accuracies or a gain to expect"
        raise InputError.at("plot", expected, f"{result.short} alone", "give labeled=")
    expected = "a result of diagnose, recommend, compare or choose_threshold"
    raise InputError.at("plot", expected, type(result).__name__, "give one")


def _draw_gains(gains: Mapping[str, Estimate], heading: str) -> Drawn:
    pairs = {method: (gain, gain.beyond_noise) for method, gain in gains.items()}
    label, columns = "gain in accuracy (points)", ("", "method")
    return intervals.draw_forest({"gain": pairs}, list(gains), label, heading, columns)

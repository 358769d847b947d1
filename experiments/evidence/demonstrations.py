"""The study "demonstrations": one model's prompts with different demonstrations.

A prompt of a subject is a context. The unit of inference is the subject, because all prompts of a
subject have the same questions.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from batch_calibration.metrics import Estimate
from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.figures.intervals import draw_forest
from experiments.evidence import batches, charts, statistics
from experiments.evidence.comparing import BASELINE, Difference
from experiments.evidence.judging import answers
from experiments.evidence.page import Written, csv_link
from experiments.evidence.sets import PROMPTS, ScoreSet, read_sets

SHOWN = "bc"
"""The method in the findings."""
LARGEST_EXACT = 2**16
"""Largest number of sign vectors for an exact test; 16 subjects have this many."""


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        methods: names of methods that learn from unlabeled test rows; by default all of them.
        seed: seed of methods with a random start and of the bootstrap.
        draws: number of bootstrap draws.
    """

    methods: Sequence[str] = ()
    seed: int = 0
    draws: int = 10_000


class Judged(NamedTuple):
    """One method's results on every prompt of every subject.

    Attributes:
        accuracy: [subjects, prompts], in percent.
        won: number of contexts with higher accuracy than the baseline.
        lost: number of contexts with lower accuracy than the baseline.
    """

    accuracy: np.ndarray
    won: int
    lost: int

    @property
    def deviation(self) -> np.ndarray:
        """The standard deviation of accuracy over the prompts of each subject, [subjects]."""
        return np.asarray(self.accuracy.std(axis=1, ddof=1))


class Change(Difference):
    """A method's change: mean over subjects, interval, and p-value after Holm's correction."""

    __slots__ = ()

    def __str__(self) -> str:
        mark = " *" if self.sign else ""
        return statistics.interval_cell(*self[:3], mark, digits=2)


def run(folder: Path, options: Options) -> Written:
    """Runs the study: judges every method on every prompt."""
    names = batches.chosen(options.methods)
    (score_set,) = read_sets(folder, ["demonstrations"])
    judged = judge(score_set, names, options.seed)
    gains, spreads = changes(judged, options)
    table, figure = cells(judged, gains, spreads), partial(draw, gains, spreads)
    tables, figures = {"evidence_demonstrations": table}, {"evidence_demonstrations": figure}
    return Written(findings(judged, gains, spreads), section(), tables, figures)


def judge(score_set: ScoreSet, names: Sequence[str], seed: int) -> dict[str, Judged]:
    """Measures each method's accuracy by subject and prompt."""
    by_method = answers(score_set.tables, names, seed=seed).by_method
    judged: dict[str, Judged] = {}
    for name in names:
        hits = []
        for table, predicted in zip(score_set.tables, by_method[name], strict=True):
            assert predicted is not None
            hits.append(100 * np.mean(predicted == table.blocks["test"].labels))
        accuracy = np.array(hits).reshape(-1, PROMPTS)
        plain = judged[BASELINE].accuracy if judged else accuracy
        won, lost = int((accuracy > plain).sum()), int((accuracy < plain).sum())
        judged[name] = Judged(accuracy, won, lost)
    return judged


def changes(
    judged: Mapping[str, Judged], options: Options
) -> tuple[dict[str, Change], dict[str, Change]]:
    """Computes each method's change of accuracy, and of its deviation over prompts."""
    plain = judged[BASELINE]
    gains, spreads = dict[str, np.ndarray](), dict[str, np.ndarray]()  # [subjects] each
    for name, method in judged.items():
        if name != BASELINE:
            gains[name] = (method.accuracy - plain.accuracy).mean(axis=1)
            spreads[name] = method.deviation - plain.deviation
    return _tested(gains, options), _tested(spreads, options)


def _tested(by_subject: Mapping[str, np.ndarray], options: Options) -> dict[str, Change]:
    """Computes means over subjects, intervals, and p-values with Holm's correction."""
    p_values = []
    for numbers in by_subject.values():
        random = np.random.default_rng(options.seed)
        p_values.append(statistics.sign_flip(numbers, random, draws=LARGEST_EXACT))
    changed = {}
    for (name, numbers), p in zip(by_subject.items(), statistics.holm(p_values), strict=True):
        interval = statistics.mean_interval(numbers, options.seed, draws=options.draws)
        changed[name] = Change(*interval, p)
    return changed


def findings(
    judged: Mapping[str, Judged], gains: Mapping[str, Change], spreads: Mapping[str, Change]
) -> list[str]:
    """Writes the finding: accuracy and its deviation over prompts, before and after BC."""
    plain, shown = judged[BASELINE], judged[SHOWN]

    def in_words(change: Change) -> str:
        return "beyond noise" if change.sign else "inside the noise, after Holm"

    return [
        f"**{SHOWN} with other demonstrations**: on LLaMA-13B with {PROMPTS} one-shot prompts for "
        f"each of {len(plain.accuracy)} MMLU subjects the standard deviation of accuracy over "
        f"prompts goes from {plain.deviation.mean():.2f} to {shown.deviation.mean():.2f} points "
        f"({spreads[SHOWN]}, 95 % interval over subjects: {in_words(spreads[SHOWN])} over "
        f"{len(gains)} methods), and accuracy from {plain.accuracy.mean():.1f} to "
        f"{shown.accuracy.mean():.1f} ({gains[SHOWN]}: {in_words(gains[SHOWN])}); of "
        f"{plain.accuracy.size} contexts {shown.won} are won and {shown.lost} lost."
    ]


def section() -> str:
    """Writes the section in Markdown."""
    return "\n\n".join([
        "![Change of accuracy and of its deviation over ten demonstrations]"
        "(figures/evidence_demonstrations.png)",
        f"[Every method]({csv_link('evidence_demonstrations')}).",
    ])  # fmt: skip


def cells(
    judged: Mapping[str, Judged], gains: Mapping[str, Change], spreads: Mapping[str, Change]
) -> Cells:
    """Formats a header and a line for each method."""
    lines = [["method", "accuracy", f"- {BASELINE}", "deviation", f"- {BASELINE}"]]
    for name, method in judged.items():
        is_plain = name == BASELINE
        lines.append([
            name, f"{method.accuracy.mean():.1f}", "" if is_plain else str(gains[name]),
            f"{method.deviation.mean():.2f}", "" if is_plain else str(spreads[name]),
        ])  # fmt: skip
    return lines


def draw(gains: Mapping[str, Change], spreads: Mapping[str, Change]) -> Figure:
    """Draws a panel for accuracy and one for its deviation, with a row for each method."""
    panels: dict[str, dict[str, tuple[Estimate, int]]] = {}
    # A lower deviation is better, so its sign is reversed for the color.
    for title, by_method, sign in (("accuracy", gains, 1), ("deviation over prompts", spreads, -1)):
        panels[title] = {}
        for name, change in by_method.items():
            panels[title][name] = charts.forest_row(*change[:3], sign * change.sign)
    heading, label = "Ten demonstrations: changes by each method", f"change from {BASELINE}"
    return draw_forest(panels, list(gains), f"{label} (points)", heading, ("what", "method")).figure

"""Measured gains by ranges of the gain that corrected scores promised."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from batch_calibration.diagnosis.experience import Range, find_range
from batch_calibration.diagnosis.recommend import TO_SHARES
from batch_calibration.reporting.cells import Cells
from experiments.evidence.sources import Source
from experiments.evidence.statistics import number_cells
from experiments.evidence.trials import RULES, LabeledTrial, Outcome, Trial

EDGES = (0.3, 1.0, 3.0, 6.0, np.inf)
"""Points of promised gain up to which contexts are taken together."""


class Judged(NamedTuple):
    """A source's trials, and its outcomes with constants that the other rows chose."""

    source: Source
    trials: list[Trial]
    elsewhere: list[Outcome]
    labeled: list[LabeledTrial]


def ranges(judged: Sequence[Judged], method: str) -> tuple[Range, ...]:
    """A method's gain in contexts whose corrected scores promise alike."""
    rule = RULES[-1] if method == TO_SHARES else method
    rows = []
    for judgment in judged:
        for trial in judgment.trials:
            # Where nothing is changed there is nothing to learn.
            if trial.promised[method] > 0:
                gain = trial.outcomes[rule].gain
                rows.append((trial.promised[method], gain, 1 / len(judgment.trials)))
    promised, gains, weights = np.array(rows).T
    learned = []
    for above, up_to in pairwise((-np.inf, *EDGES)):
        inside = (promised > above) & (promised <= up_to)
        if inside.any():
            low, high = np.quantile(gains[inside], (0.025, 0.975))
            mean = round(float(np.average(gains[inside], weights=weights[inside])), 1)
            ends = round(float(low), 1), round(float(high), 1)
            fell = round(float((gains[inside] < 0).mean()), 2)
            learned.append(Range(float(up_to), int(inside.sum()), mean, *ends, fell))
    return tuple(learned)


def held(judged: Sequence[Judged], method: str) -> float:
    """Percentage of contexts whose gain lies in the range of other rows, each source alike."""
    rule = RULES[-1] if method == TO_SHARES else method
    shares = []
    for judgment in judged:
        own_rows = judgment.source.rows
        unlike = [candidate for candidate in judged if candidate.source.rows != own_rows]
        if not unlike:
            continue
        learned = ranges(unlike, method)
        holds = []
        for trial in judgment.trials:
            promised, gain = trial.promised[method], trial.outcomes[rule].gain
            range_ = find_range(learned, promised)
            holds.append(promised == 0 or range_.low <= gain <= range_.high)
        shares.append(np.mean(holds))
    return 100 * float(np.mean(shares)) if shares else float("nan")


def experience_cells(experience: Mapping[str, Sequence[Range]]) -> Cells:
    """A line a range of promised gains."""
    table = [["method", "promised up to", "contexts", "gain", "2.5 %", "97.5 %", "fell"]]
    for method, ranges_of_method in experience.items():
        for up_to, contexts, *gains, fell in ranges_of_method:
            row = [method, f"{up_to:g}", f"{contexts}", *number_cells(gains, "+.1f")]
            table.append([*row, f"{100 * fell:.0f} %"])
    return table

"""What came of gains that corrected scores promised, by ranges of the promise."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cells
from batch_calibration.diagnosis.experience import Range
from batch_calibration.diagnosis.recommend import TO_SHARES
from experiments.evidence.sources import Source
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
    """What a method gained in contexts whose corrected scores promise alike."""
    rule = RULES[-1] if method == TO_SHARES else method
    sizes = {each.source.set.name: len(each.trials) for each in judged}
    rows = [
        (trial.promised[method], trial.outcomes[rule].gain, 1 / sizes[each.source.set.name])
        for each in judged
        for trial in each.trials
        # Where nothing is changed there is nothing to learn.
        if trial.promised[method] > 0
    ]
    promised, gains, weights = np.array(rows).T
    parts = []
    for least, most in zip((-np.inf, *EDGES), EDGES, strict=False):
        inside = (promised > least) & (promised <= most)
        if inside.any():
            low, high = np.quantile(gains[inside], (0.025, 0.975))
            parts.append(Range(
                float(most), int(inside.sum()),
                round(float(np.average(gains[inside], weights=weights[inside])), 1),
                round(float(low), 1), round(float(high), 1),
                round(float((gains[inside] < 0).mean()), 2),
            ))  # fmt: skip
    return tuple(parts)


def held(judged: Sequence[Judged], method: str) -> float:
    """How often the range that other rows gave holds a context's gain, each source alike, in %."""
    rule = RULES[-1] if method == TO_SHARES else method
    shares = []
    for each in judged:
        others = [other for other in judged if other.source.rows != each.source.rows]
        if not others:
            continue
        learned = ranges(others, method)
        holds = []
        for trial in each.trials:
            promised, gain = trial.promised[method], trial.outcomes[rule].gain
            part = next((part for part in learned if promised <= part.most), learned[-1])
            holds.append(promised == 0 or part.low <= gain <= part.high)
        shares.append(np.mean(holds))
    return 100 * float(np.mean(shares)) if shares else float("nan")


def experience_cells(experience: Mapping[str, Sequence[Range]]) -> Cells:
    """A line a range of promised gains."""
    table = [["method", "promised up to", "contexts", "gain", "2.5 %", "97.5 %", "fell"]]
    for method, parts in experience.items():
        table += [
            [method, f"{part.most:g}", f"{part.contexts}", f"{part.gain:+.1f}",
             f"{part.low:+.1f}", f"{part.high:+.1f}", f"{100 * part.fell:.0f} %"]
            for part in parts
        ]  # fmt: skip
    return table

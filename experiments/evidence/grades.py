"""Measures the gain of advice on simulated grades: python -m experiments.evidence.grades."""

from collections.abc import Mapping

import numpy as np

from batch_calibration.diagnosis.known_shares import Known
from batch_calibration.diagnosis.recommend import advise
from batch_calibration.diagnosis.verdicts import follow
from batch_calibration.scores import ScoreTable
from experiments.evidence.sources import PLANTED, simulate_grades

KNOWN: Mapping[str, Known | None] = {"balanced": Known("the grades are balanced"), "unknown": None}
"""What is known of the shares -> the argument of `advise`."""


def gain_of_advice(table: ScoreTable, known: Known | None) -> float:
    """Computes the gain of the advice over ICL on a context, in points of accuracy."""
    scores, labels, *_ = table.blocks["test"]
    corrected = np.asarray(follow(table, advise(scores, table.label_names, known)).scores)
    before, after = (rows.argmax(axis=1) == labels for rows in (scores, corrected))
    return 100 * float(after.mean() - before.mean())


if __name__ == "__main__":
    for bias in (0.0, PLANTED):
        for words, known in KNOWN.items():
            by_sureness = dict[str, list[float]]()
            for table in simulate_grades(0, bias).tables:
                sureness = str(table.context["task"]).partition(",")[0]
                by_sureness.setdefault(sureness, []).append(gain_of_advice(table, known))
            means = {sureness: float(np.mean(gains)) for sureness, gains in by_sureness.items()}
            listed = ", ".join(f"{sureness}: {mean:+.1f}" for sureness, mean in means.items())
            mean = float(np.mean([*means.values()]))
            print(f"bias {bias:g} nats, {words}: {listed}; mean {mean:+.1f}")

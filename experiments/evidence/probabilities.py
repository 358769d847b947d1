"""Measures probabilities and cut-offs: real scores, temperatures and thresholds of a few labels.

python -m experiments.evidence.probabilities > docs/evidence/probabilities.csv

Needs the scores of ../shared. Of each source's contexts with at least 128 labeled rows, up to 14
are drawn. In each of three draws some rows are labeled, and at most 736 others are judged: log loss
and ECE without a temperature and with the temperature of 16, 32 or 64 labels; and the precision and
recall of a cut-off that 64 or 128 labels choose for the most frequent label. The last lines compare
the rows that `rows_to_label` chooses with random rows and with the most doubtful rows, by the gain
over icl in points that two methods learn from them. Means are over contexts, then over
sources; intervals (Student's t) are over sources. docs/probabilities.md has the results. The pull
of the temperature toward 1 was chosen on these sources; between 0.3 and 3 the mean log loss differs
by at most 0.01.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from batch_calibration.calibration.temperature import find_temperature
from batch_calibration.diagnosis.labeling import rows_to_label
from batch_calibration.diagnosis.recommend import recommend_tables
from batch_calibration.diagnosis.threshold import answer, choose_threshold
from batch_calibration.diagnosis.verdicts import follow
from batch_calibration.errors import InputError
from batch_calibration.files import csv_text
from batch_calibration.methods import METHODS, Evidence, correct_context
from batch_calibration.methods.run import task_of
from batch_calibration.metrics import measure_reliability
from batch_calibration.scores import ScoreTable
from experiments.evidence.sets import shared_scores
from experiments.evidence.sources import GRADES, Source, read_sources
from experiments.evidence.statistics import number_cells

CONTEXTS, DRAWS = 14, 3  # of each source
LABELED, JUDGED = 128, 736  # rows of a context, at most
SIZES, CUT_SIZES = (16, 32, 64), (64, 128)
GOALS = "precision:0.8", "recall:0.9"
LEARNED, ROW_DRAWS = ("bcl_empirical_bayes", "prior_moved"), 10
Measured = dict[tuple[str, ...], list[float]]
"""Correction, rows and measure -> one number for each source."""


def draw_contexts(source: Source) -> list[ScoreTable]:
    """Draws contexts with enough rows, all labeled."""
    usable = []
    for table in source.set.tables:
        labels = table.blocks["test"].labels
        if len(labels) >= LABELED and (labels >= 0).all():
            usable.append(table)
    order = np.random.default_rng(0).permutation(len(usable))[:CONTEXTS]
    return [usable[place] for place in sorted(order)]


def correct(tables: Sequence[ScoreTable]) -> Iterator[dict[str, np.ndarray]]:
    """Yields the scores of each context: as they are, by bc, and as advised without labels."""
    advised = recommend_tables(tables, [*map(task_of, tables)])
    for table, advice in zip(tables, advised, strict=True):
        rows = table.blocks["test"].log_probs
        found = correct_context(METHODS["bc"], {"test": Evidence(rows)}), follow(table, advice)
        bc, by_advice = (np.asarray(one.scores) for one in found)
        yield {"icl": rows, "bc": bc, "advised": by_advice}


def judge_temperatures(scores: np.ndarray, gold: np.ndarray) -> dict[str, tuple[float, float]]:
    """Measures log loss and ECE on the rows after the largest number of labels."""
    judged, of_judged = scores[SIZES[-1] :], gold[SIZES[-1] :]
    found = {}
    for size in (0, *SIZES):
        divisor = float(find_temperature(scores[:size], gold[:size])) if size else 1.0
        nll, _, ece, _ = measure_reliability(judged / divisor, of_judged)
        found[str(size)] = nll.value, 100 * ece.value
    return found


def judge_cut(scores: np.ndarray, gold: np.ndarray, size: int, goal: str) -> dict[str, float]:
    """Measures a cut-off chosen on the first rows, on the other rows; empty if there is none."""
    label = int(np.bincount(gold[:size]).argmax())
    try:
        found = choose_threshold(scores[:size], gold[:size], label, goal)
    except InputError:  # labels of one side only
        return {}
    judged, is_label = answer(scores[size:], label, found.log_odds) == label, gold[size:] == label
    of = judged if goal.startswith("precision") else is_label
    if not of.any():
        return {}
    reached = float((judged & is_label).sum() / of.sum())
    # The judged rows have a sampling error, too.
    error = 1.96 * np.sqrt(max(reached * (1 - reached), 0.01) / of.sum())
    low, high = found.reached.value - found.reached.low, found.reached.high - found.reached.value
    away = reached - found.reached.value
    covers = -np.hypot(low, error) <= away <= np.hypot(high, error)
    return {
        "goal reached on the labels": 100.0 * found.is_reached,
        "estimate": 100 * found.reached.value,
        "on other rows": 100 * reached,
        "interval covers": 100.0 * covers,
    }


def compare_rows(
    table: ScoreTable, corrected: np.ndarray, learned_by: str, seed: int
) -> Iterator[tuple[str, float]]:
    """Yields the gain learned from each choice of rows, and its difference from random rows."""
    rows, gold, *_ = table.blocks["test"]
    before = float((rows.argmax(axis=1) == gold).mean())
    chosen = {
        "systematic": rows_to_label(corrected, SIZES[0], seed=seed),
        "random": np.random.default_rng(seed).permutation(len(gold))[: SIZES[0]],
        "most doubtful": np.ptp(np.sort(corrected)[:, -2:], axis=1).argsort()[: SIZES[0]],
    }
    gains = {}
    for name, places in chosen.items():
        blocks = {"test": Evidence(rows), "labeled": Evidence(rows[places], gold[places])}
        after = (
            np.asarray(correct_context(METHODS[learned_by], blocks).scores).argmax(axis=1) == gold
        )
        gains[name] = 100 * (float(after.mean()) - before)
        yield f"gain, {name}", gains[name]
        yield f"harmed by more than a point in %, {name}", 100.0 * (gains[name] < -1)
    for name in ("systematic", "most doubtful"):
        yield f"gain, {name} - random", gains[name] - gains["random"]


def measure_source(source: Source) -> dict[tuple[str, ...], float]:
    """Measures a source: correction or goal, number of labels, measure -> mean over contexts."""
    sums: Measured = {}
    tables = draw_contexts(source)
    for table, corrected in zip(tables, correct(tables), strict=True):
        gold = table.blocks["test"].labels
        for draw, name in product(range(ROW_DRAWS), LEARNED):
            for measure, number in compare_rows(table, corrected["bc"], name, draw):
                key = f"rows to label for {name}", str(SIZES[0]), measure
                sums.setdefault(key, []).append(number)
        for draw in range(DRAWS):
            order = np.random.default_rng(draw).permutation(len(gold))[: SIZES[-1] + JUDGED]
            for name, scores in corrected.items():
                of_sizes = judge_temperatures(scores[order], gold[order])
                for labels, (nll, ece) in of_sizes.items():
                    sums.setdefault((name, labels, "log loss, nats"), []).append(nll)
                    sums.setdefault((name, labels, "ECE, %"), []).append(ece)
            for goal in GOALS:
                for size in CUT_SIZES:
                    if len(order) < 2 * size:
                        continue
                    cut = judge_cut(corrected["bc"][order], gold[order], size, goal)
                    for measure, number in cut.items():
                        sums.setdefault((goal, str(size), measure), []).append(number)
    return {key: float(np.mean(numbers)) for key, numbers in sums.items()}


def main() -> None:
    """Prints each mean over sources with its interval as CSV."""
    of_sources: Measured = {}
    for source in read_sources(shared_scores()):
        if source.kind == GRADES:
            continue
        for key, number in measure_source(source).items():
            of_sources.setdefault(key, []).append(number)
        print(source.set.name, file=sys.stderr)
    rows = [["correction or goal", "labels", "measure", "sources", "mean", "low", "high", "worst"]]
    for key, numbers in of_sources.items():
        rows.append([*key, str(len(numbers)), *summarize(key[2], np.array(numbers))])
    print(csv_text(rows), end="")


def summarize(measure: str, numbers: np.ndarray) -> list[str]:
    """Formats the mean over sources, its 95 % interval, and the worst source."""
    from scipy.stats import t

    reach = t.ppf(0.975, len(numbers) - 1) * numbers.std(ddof=1) / np.sqrt(len(numbers))
    worst = numbers.max() if measure[:3] in ("log", "ECE") else numbers.min()
    mean = numbers.mean()
    return number_cells((mean, mean - reach, mean + reach, worst))


if __name__ == "__main__":
    main()

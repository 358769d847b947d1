"""Measures corrections of sampled answers: real scores against counts of 10, 20 and 50 answers.

python -m experiments.evidence.sampled_answers

Needs the scores of ../shared. The answers of each row are drawn from the softmax of its scores over
the labels, and counted; `to_nats` converts the counts. "Kept" is the gain of bc over uncorrected
counts, divided by its gain over uncorrected scores. "Equal, true, estimated" match the shares of
labels: equal shares, those of the right labels, and estimates (bc_empirical_bayes); "advised" is
the default of `recommend`. Numbers are accuracies in %, means over units (a model of MMLU, a prompt
of SST-2, a task of the small models); intervals are over units, by a bootstrap for ratios and by
Student's t for gains. Every fourth subject of MMLU is measured.

The last table draws one answer a row, and corrects the shares of these answers by the right labels
of 100 random rows, in both ways of `corrected_shares`: the distance from the true shares in points,
mean over labels, next to the distance of the labeled rows' own shares, and the share of 95 %
intervals that hold the true shares.
"""

from collections.abc import Callable
from itertools import chain

import numpy as np
from scipy.special import softmax

from batch_calibration import calibrate, recommend
from batch_calibration.arrays.score_scale import to_nats
from batch_calibration.metrics.confusion import LEAST_LABELED, corrected_shares
from batch_calibration.metrics.intervals import over_units
from batch_calibration.scores import ScoreTable
from experiments.evidence.sets import read_sets, shared_scores, task_of
from experiments.evidence.statistics import ends_of

SIZES, DRAWS, LABELED = (10, 20, 50), 10_000, 100
METHODS = ("uncorrected", "bc", "equal", "true", "estimated", "advised")
PROMPTS = ("smollm_prompts_balanced", "gemma_prompts_balanced")
Unit = Callable[[ScoreTable], str]


def read_groups() -> dict[str, tuple[list[ScoreTable], Unit]]:
    """Reads the contexts of each line of the table, and the function that names their units."""
    folder, groups = shared_scores(), dict[str, tuple[list[ScoreTable], Unit]]()
    for name, title in (("mmlu", "MMLU"), ("mmlu_neverA", "MMLU, never A")):
        (score_set,) = read_sets(folder, [name])
        subjects = sorted({str(table.context["task"]) for table in score_set.tables})[::4]
        tables = [table for table in score_set.tables if table.context["task"] in subjects]
        groups[title] = tables, lambda table: str(table.context["model"])
    small = [*chain.from_iterable(of_model.tables for of_model in read_sets(folder, PROMPTS))]
    sst2 = [table for table in small if task_of(table) == "sst2"]
    groups["SST-2"] = sst2, lambda table: f"{table.context['model']} {table.context['task']}"
    groups["11 tasks"] = small, task_of
    return groups


def measure(scores: np.ndarray, gold: np.ndarray) -> list[float]:
    """Measures the accuracy in % of each of `METHODS` on a context."""
    k = scores.shape[1]
    true = (np.bincount(gold, minlength=k) / len(gold)).tolist()
    corrected = (
        scores,
        calibrate(scores, from_probs=False),
        calibrate(scores, "prior_matching", target_prior=[1 / k] * k, from_probs=False),
        calibrate(scores, "prior_matching", target_prior=true, from_probs=False),
        calibrate(scores, "bc_empirical_bayes", from_probs=False),
        recommend(scores, from_probs=False).apply(scores),
    )
    return [100 * float((np.asarray(s).argmax(axis=1) == gold).mean()) for s in corrected]


def mean_by_unit(tables: list[ScoreTable], unit: Unit, rows: list[list[float]]) -> np.ndarray:
    """Computes the means [units, numbers] of rows of numbers, one row for each context."""
    by_unit: dict[str, list[list[float]]] = {}
    for table, row in zip(tables, rows, strict=True):
        by_unit.setdefault(unit(table), []).append(row)
    return np.array([np.mean(of_unit, axis=0) for of_unit in by_unit.values()])


def compare(title: str, tables: list[ScoreTable], unit: Unit) -> list[str]:
    """Measures the lines of the table for a group of contexts: full scores, then counts."""
    random, lines, full = np.random.default_rng(0), list[str](), np.empty(0)
    for size in (0, *SIZES):
        rows = list[list[float]]()
        for table in tables:
            scores = np.asarray(table.blocks["test"].log_probs, np.float64)
            if size:
                counts = random.multinomial(size, softmax(scores, axis=1))
                scores = to_nats(counts.astype(float), "counts", "counts")
            rows.append(measure(scores, table.blocks["test"].labels))
        means = mean_by_unit(tables, unit, rows)  # [units, methods]
        gain, kept = means[:, 1] - means[:, 0], "100"
        full = full if size else gain
        if size:
            drawn = random.integers(len(gain), size=(DRAWS, len(gain)))
            low, high = ends_of(gain[drawn].mean(axis=1) / full[drawn].mean(axis=1))
            kept = f"{100 * gain.mean() / full.mean():.0f} [{100 * low:.0f}, {100 * high:.0f}]"
        cells = [title, str(size or "scores"), *(f"{mean:.1f}" for mean in means.mean(axis=0))]
        lines.append(" | ".join([*cells, over_units((gain / 100).tolist()).points, kept]))
    return lines


def count_hard_answers(title: str, tables: list[ScoreTable], unit: Unit) -> str:
    """Measures the distance of answered and of corrected shares from the true ones in points."""
    random, rows, used = np.random.default_rng(0), list[list[float]](), list[ScoreTable]()
    for table in tables:
        probs, gold = softmax(table.blocks["test"].log_probs, axis=1), table.blocks["test"].labels
        k = probs.shape[1]
        answers = random.multinomial(1, probs.astype(float) / probs.sum(1, keepdims=True)).argmax(1)
        order = random.permutation(len(gold))
        labeled, others = order[:LABELED], order[LABELED:]
        crossed = np.bincount(k * gold[labeled] + answers[labeled], minlength=k * k).reshape(k, k)
        if crossed.sum(axis=1).min() < LEAST_LABELED:
            continue
        others_answers = np.bincount(answers[others], minlength=k)
        true = np.bincount(gold, minlength=k) / len(gold)
        row = [np.abs(np.bincount(answers, minlength=k) / len(gold) - true).mean()]
        row.append(np.abs(crossed.sum(axis=1) / crossed.sum() - true).mean())
        for estimates in corrected_shares(crossed, others_answers):
            shares, low, high = np.array(estimates).T
            row += [np.abs(shares - true).mean(), ((low <= true) & (true <= high)).mean()]
        rows.append((100 * np.array(row)).tolist())
        used.append(table)
    means = mean_by_unit(used, unit, rows).mean(axis=0)
    return " | ".join([title, str(len(rows)), *(f"{mean:.1f}" for mean in means)])


def main() -> None:
    """Prints both tables."""
    groups = read_groups()
    head = ["rows", "answers", *METHODS, "gain of bc", "kept, %"]
    print("| ", " | ".join(head), " |\n", "|---" * len(head), "|", sep="")
    for title, (tables, unit) in groups.items():
        for line in compare(title, tables, unit):
            print(f"| {line} |", flush=True)
    head = ["rows", "contexts", "answered", "labeled rows", "corrected", "intervals hold, %"]
    head += ["of a sample", "intervals hold, %"]
    print("\n| ", " | ".join(head), " |\n", "|---" * len(head), "|", sep="")
    (whole,) = read_sets(shared_scores(), ["mmlu_batch"])
    groups |= {"MMLU": (whole.tables, groups["MMLU"][1])}
    for title in ("MMLU", "SST-2", "11 tasks"):
        print(f"| {count_hard_answers(title, *groups[title])} |")


if __name__ == "__main__":
    main()

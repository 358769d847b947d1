"""The study "law": the gain that three numbers predict, and the measured gain.

Each pool is one model's rows. The three numbers (bias, separation, spread) are fitted to one half
of the rows. The gain is measured on batches drawn from the other half, so the measured gains do not
influence the fit.
"""

from collections.abc import Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from experiments.evidence import law_tables, pools
from experiments.evidence.gain import expected_gain
from experiments.evidence.law_tables import GainCells, PairCells
from experiments.evidence.margins import fit_label_scores, fit_margins, fit_mixture
from experiments.evidence.page import Written
from experiments.evidence.pools import Pool
from experiments.evidence.sets import read_sets
from experiments.evidence.sources import read_workdir

MIN_ROWS_OF_LABEL = 20
"""Minimum number of rows of a label in half of a pool."""
LABELS = 4
LABEL_SHARES = (0.0, 0.4, 0.55, 0.7, 0.85)
"""Shares of one label, for each label in turn; the other labels share the rest equally."""
LABEL_SIZES = (30, 300)


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        sets: one-batch sets of four labels; every two labels are a pair.
        never_right: one-batch sets in which one label is never right.
        contexts: sets of many contexts; every two labels of a context are a pair.
        embedded: workdirs with scores of the embedded suite, one for each model, used like
            `contexts`.
        shares: shares of the first label of a pair.
        sizes: numbers of rows that the bias is learned from.
        draws: number of batches in each cell.
        labeled: number of labeled rows for estimates from few labels.
        repeats: number of draws of these labeled rows.
        seed: seed of the draws.
    """

    sets: Sequence[str]
    never_right: Sequence[str]
    contexts: Sequence[str]
    embedded: Sequence[str]
    shares: Sequence[float]
    sizes: Sequence[int]
    draws: int = 200
    labeled: int = 32
    repeats: int = 10
    seed: int = 0


def run(folder: Path, options: Options) -> Written:
    """Runs the study: measures every cell and compares it with the law's prediction."""
    pair_cells: list[PairCells] = []
    label_cells: list[GainCells] = []
    for number, name in enumerate((*options.sets, *options.never_right)):
        title = pools.TITLES.get(name, name)
        for index, pool in enumerate(pools.real_pools(folder, [name], LABELS)):
            random = np.random.default_rng([options.seed, number, index])
            fitted, judged = split_in_halves(pool, random)
            if name in options.sets:
                for pair in combinations(range(LABELS), 2):
                    cells = measure_pair(title, fitted, judged, pair, options, random)
                    pair_cells += [cells] if cells else []
            label_cells.append(measure_labels(title, fitted, judged, options, random))
    context_cells = measure_contexts(folder, options)
    shares, sizes, labeled = options.shares, options.sizes, options.labeled
    return Written(
        law_tables.findings(pair_cells),
        law_tables.section(pair_cells, label_cells, shares, labeled),
        {
            "evidence_law": law_tables.all_cells(pair_cells, shares, sizes),
            "evidence_law_other": law_tables.other_cells(context_cells),
        },
        {"evidence_law": partial(law_tables.draw, pair_cells, shares, sizes)},
    )


def split_in_halves(pool: Pool, random: np.random.Generator) -> tuple[Pool, Pool]:
    """Splits the rows at random: one half to fit the numbers, the other to measure the gain."""
    is_first = random.random(len(pool.gold)) < 0.5

    def take(rows: np.ndarray) -> Pool:
        return pool._replace(log_probs=pool.log_probs[rows], gold=pool.gold[rows])

    return take(is_first), take(~is_first)


def measure_pair(
    set_name: str, fitted: Pool, judged: Pool, pair: tuple[int, int], options: Options,
    random: np.random.Generator,
) -> PairCells | None:  # fmt: skip
    """Measures the cells of two labels of a pool, or returns None with too few rows of a label."""
    own, judged_rows = _rows_of_pair(fitted, pair), _rows_of_pair(judged, pair)
    if not (_has_rows(own) and _has_rows(judged_rows)):
        return None
    rows, gold = own
    shares, sizes = np.array(options.shares)[:, None], np.array(options.sizes)
    margins = fit_margins(rows, gold)
    by_few = np.zeros((options.repeats, len(shares), len(sizes)))
    for repeat in range(options.repeats):
        few = _draw_labeled(gold, options.labeled, random)
        by_few[repeat] = expected_gain(fit_margins(rows[few], gold[few]), shares, sizes)
    by_label = _margins_by_label(*judged_rows)
    by_none = _expected_without_labels(by_label, options, random)
    measured = _measure_gains(by_label, options, random)
    expected = np.asarray(expected_gain(margins, shares, sizes))
    return PairCells(set_name, fitted.name, margins, measured, expected, by_few, by_none)


def _rows_of_pair(pool: Pool, pair: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Selects the rows of two labels: their scores [n, 2] and gold [n], 1 for the second label."""
    is_of_pair = np.isin(pool.gold, pair)
    rows = pool.log_probs[is_of_pair][:, pair].astype(np.float64)
    return rows, (pool.gold[is_of_pair] == pair[1]).astype(np.int32)


def _has_rows(half: tuple[np.ndarray, np.ndarray]) -> bool:
    """Returns True if a half has enough rows of both labels."""
    return int(np.bincount(half[1], minlength=2).min()) >= MIN_ROWS_OF_LABEL


def _margins_by_label(rows: np.ndarray, gold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    margins = rows[:, 0] - rows[:, 1]
    return margins[gold == 0], margins[gold == 1]


def measure_contexts(folder: Path, options: Options) -> list[GainCells]:
    """Measures the cells of every two labels of contexts, with numbers of the context's first half.

    If a set has several models, also uses numbers of the first halves of the model's other tasks.
    This prediction needs no labels of the task.
    """
    score_sets = [*read_sets(folder, options.contexts)]
    score_sets += map(read_workdir, map(Path, options.embedded))
    shares, sizes = np.array(options.shares)[:, None], np.array(options.sizes)
    cells: list[GainCells] = []
    for number, score_set in enumerate(score_sets):
        # Numbers from 100 on are not used by one-batch sets, so no random stream is used twice.
        random = np.random.default_rng([options.seed, 100 + number])
        halves = [split_in_halves(pool, random) for pool in pools.context_pools(score_set)]
        for index, (fitted, judged) in enumerate(halves):
            for pair in combinations(range(fitted.log_probs.shape[1]), 2):
                own, judged_rows = _rows_of_pair(fitted, pair), _rows_of_pair(judged, pair)
                if not (_has_rows(own) and _has_rows(judged_rows)):
                    continue
                measured = _measure_gains(_margins_by_label(*judged_rows), options, random)
                by_own = np.asarray(expected_gain(fit_margins(*own), shares, sizes))
                cells.append(GainCells(score_set.title, fitted.name, measured, by_own))
                if score_set.models == 1:
                    continue
                others = [half for half, _ in halves[:index] + halves[index + 1 :]]
                # Other tasks of the same model.
                alike = [other for other in others if other.name == fitted.name]
                elsewhere = [_rows_of_pair(other, pair) for other in alike]
                rows, gold = map(np.concatenate, zip(*elsewhere, strict=True))
                by_others = np.asarray(expected_gain(fit_margins(rows, gold), shares, sizes))
                title = f"{score_set.title}, numbers of the other subjects"
                cells.append(GainCells(title, fitted.name, measured, by_others))
    return cells


def _draw_labeled(gold: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    """Draws indices of at most `most` rows, with at least two rows of each label."""
    while True:
        few = random.choice(len(gold), min(most, len(gold)), replace=False)
        if np.bincount(gold[few], minlength=2).min() >= 2:
            return few


def _measure_gains(
    by_label: Sequence[np.ndarray], options: Options, random: np.random.Generator
) -> np.ndarray:
    """Measures the mean gain of BC [shares, sizes] over drawn batches, judged on all rows."""
    first, second = map(np.sort, by_label)
    gains = np.zeros((len(options.shares), len(options.sizes)))
    for column, size in enumerate(options.sizes):
        # Cumulative sums over the rows drawn of a label. A batch takes the first rows of each
        # label, so the sums serve all shares.
        sums = []
        for margins in by_label:
            drawn = margins[random.integers(0, len(margins), (options.draws, size))]
            zeros = np.zeros((options.draws, 1))
            sums.append(np.concatenate([zeros, drawn.cumsum(axis=1)], axis=1))
        for line, share in enumerate(options.shares):
            count = random.binomial(size, share, options.draws)
            batch = np.arange(options.draws)
            thresholds = (sums[0][batch, count] + sums[1][batch, size - count]) / size
            after = _accuracy_at(first, second, share, thresholds).mean()
            gains[line, column] = after - _accuracy_at(first, second, share, np.zeros(1))[0]
    return gains


def _accuracy_at(
    first: np.ndarray, second: np.ndarray, share: float, thresholds: np.ndarray
) -> np.ndarray:
    """Computes accuracy [t] from the sorted margins of two labels; ties go to the first label."""
    first_right = 1 - np.searchsorted(first, thresholds, side="left") / len(first)
    second_right = np.searchsorted(second, thresholds, side="left") / len(second)
    return np.asarray(share * first_right + (1 - share) * second_right)


def _expected_without_labels(
    by_label: Sequence[np.ndarray], options: Options, random: np.random.Generator
) -> np.ndarray:
    """Predicts the gain from a mixture fitted to unlabeled rows; NaN if it is not identified."""
    expected = np.full((len(options.shares), len(options.sizes)), np.nan)
    size = max(options.sizes)
    for line, share in enumerate(options.shares):
        is_second = (random.random(size) >= share).astype(int)
        second, first = random.choice(by_label[1], size), random.choice(by_label[0], size)
        drawn = np.where(is_second, second, first)
        fit = fit_mixture(np.stack([drawn, np.zeros(size)], axis=1))
        if fit.is_identified:
            expected[line] = expected_gain(fit.margins, fit.share, np.array(options.sizes))
    return expected


def measure_labels(
    set_name: str, fitted: Pool, judged: Pool, options: Options, random: np.random.Generator
) -> GainCells:
    """Measures the cells of all labels of a pool, for each label with each share in turn.

    A label without rows keeps the share 0, and the other labels share the rest.
    """
    law = fit_label_scores(fitted.log_probs, fitted.gold)
    right = np.unique(fitted.gold)  # labels that are right in at least one row
    vectors = [np.bincount(right, np.full(len(right), 1 / len(right)), LABELS)]
    for label, most in product(range(len(right)), LABEL_SHARES):
        uneven = pools.uneven(len(right), label, most)
        vectors.append(np.bincount(right, uneven, LABELS))
    shares, sizes = np.array(vectors), np.array(LABEL_SIZES, np.float32)
    over_sizes = jax.vmap(partial(expected_gain, law), (None, 0))
    expected = np.asarray(jax.vmap(over_sizes, (0, None))(shares, sizes))
    rows = judged.log_probs.astype(np.float64)
    by_label = [rows[judged.gold == label] for label in range(LABELS)]
    before = _accuracies(by_label, np.zeros(LABELS))
    draws = max(1, options.draws // 5)  # fewer, because each draw judges all rows
    measured = np.zeros(expected.shape)
    for line, column in np.ndindex(*measured.shape):
        share, size = shares[line], LABEL_SIZES[column]
        for counts in random.multinomial(size, share, draws):  # rows of each label, [k]
            total = np.zeros(LABELS)
            for group, count in zip(by_label, counts, strict=True):
                total += group[random.integers(0, len(group), count)].sum(axis=0)
            after = _accuracies(by_label, total / size)
            measured[line, column] += share @ (after - before) / draws
    return GainCells(set_name, fitted.name, measured, expected)


def _accuracies(by_label: Sequence[np.ndarray], bias: np.ndarray) -> np.ndarray:
    """Computes the accuracy on each label's rows [n, k] minus a bias [k]; 0 without rows."""
    shares = np.zeros(len(by_label))
    for label, rows in enumerate(by_label):
        if len(rows):
            shares[label] = ((rows - bias).argmax(axis=1) == label).mean()
    return shares

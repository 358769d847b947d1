"""How often 95 % intervals of the gain of BC hold it, seeds and rows drawn from a larger study.

python -m experiments.score --config=configs/mini.py --config.seeds=40 --workdir=W \
    --config.labeled_per_class=0 --config.dc_texts=1 --config.tasks=sst2,mnli,cb,qnli
python -m benchmarks.intervals --workdir=W

A trial draws s seeds and n rows with replacement from those of a task, applies BC to the n rows of
each seed, and asks five intervals for the gain over ICL. What they shall hold is the mean gain of
all trials of that s and n: with ever more seeds and rows.
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

from batch_calibration.metrics import OF_GAIN, over_rows
from batch_calibration.store import Store

SEEDS = (1, 2, 5)
ROWS = (56, 500)
Ends = tuple[float, float]


def rows_and_seeds_alike(gains: np.ndarray) -> Ends:
    """The s x n outcomes as if they were rows of one draw."""
    return over_rows(gains.reshape(1, -1), OF_GAIN)[1:]


def rows(gains: np.ndarray) -> Ends:
    """Rows alone: each has the mean of its outcomes over the draws."""
    return over_rows(gains.mean(axis=0)[None], OF_GAIN)[1:]


def seeds(gains: np.ndarray) -> Ends:
    """Seeds alone: Student's t of the means of the draws."""
    means = gains.mean(axis=1)
    reach = stdtrit(len(means) - 1, 0.975) * means.std(ddof=1) / len(means) ** 0.5
    return means.mean() - reach, means.mean() + reach


def crossed(gains: np.ndarray) -> Ends:
    """What tables show: t over seeds and z over rows, added in squares."""
    return over_rows(gains, OF_GAIN)[1:]


def bootstrap(gains: np.ndarray) -> Ends:
    """Seeds and, apart from these, rows drawn with replacement, 200 times."""
    random, (s, n) = np.random.default_rng(0), gains.shape
    times = [random.multinomial(m, np.full(m, 1 / m), 200) for m in (s, n)]
    low, high = np.quantile(((times[0] @ gains) * times[1]).sum(axis=1) / (s * n), (0.025, 0.975))
    return float(low), float(high)


WAYS: tuple[Callable[[np.ndarray], Ends], ...] = (
    rows_and_seeds_alike, rows, seeds, bootstrap, crossed,
)  # fmt: skip


def gains_of(scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """BC right less ICL right, [seeds rows], of scores [seeds rows labels]."""
    before = scores.argmax(axis=-1) == gold
    after = (scores - scores.mean(axis=1, keepdims=True)).argmax(axis=-1) == gold
    return after.astype(float) - before


def main() -> None:
    """A line for each task, number of seeds and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workdir", required=True)
    parser.add_argument("--trials", type=int, default=300)
    args = parser.parse_args()
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for table in Store(args.workdir).tables()[0]:
        block = table.blocks["test"]
        one = np.asarray(block.log_probs, float), np.asarray(block.labels)
        found.setdefault(str(table.context["task"]), []).append(one)
    random = np.random.default_rng(0)
    names = "".join(f"{way.__name__:>22}" for way in WAYS)
    print(f"{'task':6}{'seeds':>6}{'rows':>6}{'gain':>7}{names}")
    for task, contexts in sorted(found.items()):
        every, gold = np.array([scores for scores, _ in contexts]), contexts[0][1]
        for s, n in ((s, n) for s in SEEDS for n in ROWS):
            ways = [way for way in WAYS if s > 1 or way is not seeds]
            ends, means = [], []
            for _ in range(args.trials):
                i, j = random.integers(0, len(every), s), random.integers(0, len(gold), n)
                gains = gains_of(every[i][:, j], gold[j])
                means.append(gains.mean())
                ends.append([way(gains) for way in ways])
            low, high = np.moveaxis(np.array(ends), -1, 0)
            held = ((low <= np.mean(means)) & (np.mean(means) <= high)).mean(axis=0)
            reach = 50 * (high - low).mean(axis=0)
            cells = {
                way: f"{100 * share:.0f} % (±{far:.1f})"
                for way, share, far in zip(ways, held, reach, strict=True)
            }
            line = "".join(f"{cells.get(way, '-'):>22}" for way in WAYS)
            print(f"{task:6}{s:6}{n:6}{100 * np.mean(means):+7.1f}{line}", flush=True)


if __name__ == "__main__":
    main()

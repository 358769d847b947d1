"""Measures accuracy with the bias of m rows, removed fully or shrunk toward zero.

python -m experiments.evidence.small_batches

Needs ../shared/scores. The mean bias of m rows, centered over the labels, is multiplied by a factor
and subtracted from all rows of the context ("all rows") or only from these m ("the m rows"). Each
context is one unit (MMLU: a model and a subject; MMBench and OOD-CV, A to D: a model; BEAR: a
relation). Models and relations with even numbers are the choosing half, the others the reporting
half. The last factor is used by `bc_shrunk`. Below each table is its gain over bc and icl, with the
standard error over contexts.
"""

from collections.abc import Callable, Iterator

import numpy as np

from experiments.evidence.sets import read_sets, shared_scores

SIZES = (1, 2, 5, 10, 20, 50, 100, 500)
DRAWS = 40
MOST_ROWS = 1000
Factor = Callable[[float, float, int], float]
# (half, data) -> m -> accuracies of each context
Found = dict[tuple[int, str], dict[int, list[np.ndarray]]]

# Functions of the squared norm b of the centered bias, its expected error e and m.
FACTORS: dict[str, Factor] = {
    "icl": lambda b, e, m: 0.0,
    "bc": lambda b, e, m: 1.0,
    "m/(m+1)": lambda b, e, m: m / (m + 1),
    "m/(m+4)": lambda b, e, m: m / (m + 4),
    "m/(m+16)": lambda b, e, m: m / (m + 16),
    "b/(b+e)": lambda b, e, m: b / (b + e) if np.isfinite(e) else 0.0,  # e is infinite if m = 1
    "1 - e/b": lambda b, e, m: max(0.0, 1 - e / b),
    "1 - 2e/b": lambda b, e, m: max(0.0, 1 - 2 * e / b),
    "(1 - e/b)(m-1)/m": lambda b, e, m: max(0.0, 1 - e / b) * (m - 1) / m,
}


def contexts() -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Yields name of the data, number of the model or relation, scores [n, k], and gold [n]."""
    for score_set in read_sets(shared_scores(), ("mmlu", "mmbench", "oodcv", "bear")):
        tables = [table for table in score_set.tables if len(table.blocks["test"].labels) > 30]
        name, tasks = score_set.title.partition(",")[0], len(tables) // score_set.models
        for number, (log_probs, gold, *_) in enumerate(table.blocks["test"] for table in tables):
            model, task = divmod(number, tasks)
            # One subject in four, to save time.
            if name != "MMLU" or task % 4 == 0:
                most = MOST_ROWS if tasks == 1 else None
                unit = model if score_set.models > 1 else task
                yield name, unit, log_probs[:most].astype(float), gold[:most]


def factors(batch: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Computes the centered bias of a batch [m, k], and each factor."""
    m = len(batch)
    rows = batch - batch.mean(axis=1, keepdims=True)  # a constant per row changes no prediction
    bias = rows.mean(axis=0)
    # Squared standard error, summed over labels.
    error = ((rows - bias) ** 2).sum() / (m * (m - 1)) if m > 1 else np.inf
    length = float(max((bias**2).sum(), 1e-12))  # a divisor, so never 0
    return bias, [factor(length, error, m) for factor in FACTORS.values()]


def measure(
    scores: np.ndarray, gold: np.ndarray, m: int, random: np.random.Generator
) -> np.ndarray:
    """Measures accuracy [all rows or the m rows, factor] in percent, as the mean over draws."""
    accuracies = []
    for _ in range(DRAWS):
        learned_rows = random.choice(len(scores), m, replace=False)
        bias, several = factors(scores[learned_rows])
        right = [(scores - factor * bias).argmax(axis=1) == gold for factor in several]
        of_all = [is_right.mean() for is_right in right]
        accuracies.append([of_all, [is_right[learned_rows].mean() for is_right in right]])
    return 100 * np.mean(accuracies, axis=0)


def summed(accuracies: Found) -> None:
    """Prints the choosing half's mean over data and sizes 2 to 20, used to choose the factor."""
    print("choosing half, mean over data and 2, 5, 10, 20 rows: all rows, the m rows")
    by_unit = []
    for (half, _), by_size in accuracies.items():
        if half == 0:
            means_by_size = [np.mean(by_size[m], axis=0) for m in (2, 5, 10, 20)]
            by_unit.append(np.mean(means_by_size, axis=0))
    for factor, means in zip(FACTORS, np.mean(by_unit, axis=0).T, strict=True):
        print(f"{factor:18}" + "".join(f"{mean:8.2f}" for mean in means))


def main() -> None:
    """Prints tables of factors by m, and the gains of bc_shrunk."""
    random = np.random.default_rng(0)
    accuracies: Found = {}
    for name, number, scores, gold in contexts():
        by_size = accuracies.setdefault((number % 2, name), {})
        for m in SIZES:
            if m < len(scores):
                by_size.setdefault(m, []).append(measure(scores, gold, m, random))
    summed(accuracies)
    for (half, name), by_size in sorted(accuracies.items()):
        for rows_judged, rows in enumerate(("all rows", "the m rows")):
            print(f"\n{name}, {'reporting' if half else 'choosing'} half, {rows}, mean of "
                  f"{len(by_size[1])} contexts")  # fmt: skip
            print(f"{'m':18}" + "".join(f"{m:8}" for m in by_size))
            tables = {m: np.array(units)[:, rows_judged] for m, units in by_size.items()}
            for column, factor in enumerate(FACTORS):
                means = (table[:, column].mean() for table in tables.values())
                print(f"{factor:18}" + "".join(f"{mean:8.2f}" for mean in means))
            for baseline in ("bc", "icl"):
                theirs = list(FACTORS).index(baseline)
                # The last factor is used by bc_shrunk.
                gains = [table[:, -1] - table[:, theirs] for table in tables.values()]
                errors = (gain.std(ddof=1) / len(gain) ** 0.5 for gain in gains)
                columns = zip(gains, errors, strict=True)
                cells = "".join(f"{gain.mean():+5.1f}±{error:.1f}" for gain, error in columns)
                print(f"{'over ' + baseline:18}{cells}")


if __name__ == "__main__":
    main()

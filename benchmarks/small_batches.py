"""What is right when the bias of m rows is removed whole, or shrunk toward zero by its error.

python -m benchmarks.small_batches

Needs ../shared/scores. The mean bias of m rows, centered over the labels, is multiplied by a
factor and taken off all rows of the context ("all rows") or those m alone ("the m rows"). Each
context (MMLU: a model and a subject, MMBench and OOD-CV, A to D: a model, BEAR: a relation) is one
unit; models and relations of even number choose, those of odd number report. Below each table is
what `bc_shrunk`, whose factor is the last, gains over bc and icl, with its standard error over
contexts.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

SCORES = Path(__file__).resolve().parents[2] / "shared" / "scores"
SIZES = (1, 2, 5, 10, 20, 50, 100, 500)
DRAWS = 40
MOST_ROWS = 1000
Factor = Callable[[float, float, int], float]
Found = dict[tuple[int, str], dict[int, list[np.ndarray]]]

# Of the squared length b of the centered bias, its expected error e and the rows m.
FACTORS: dict[str, Factor] = {
    "icl": lambda b, e, m: 0.0,
    "bc": lambda b, e, m: 1.0,
    "m/(m+1)": lambda b, e, m: m / (m + 1),
    "m/(m+4)": lambda b, e, m: m / (m + 4),
    "m/(m+16)": lambda b, e, m: m / (m + 16),
    "b/(b+e)": lambda b, e, m: b / (b + e) if np.isfinite(e) else 0.0,
    "1 - e/b": lambda b, e, m: max(0.0, 1 - e / b),
    "1 - 2e/b": lambda b, e, m: max(0.0, 1 - 2 * e / b),
    "(1 - e/b)(m-1)/m": lambda b, e, m: max(0.0, 1 - e / b) * (m - 1) / m,
}


def contexts() -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Name of the data, number of the model or relation, scores [n, k], gold [n]."""
    with np.load(SCORES / "mmlu_base" / "orig.npz") as held:
        for model, scores in enumerate(held["scores"]):
            for subject in range(0, 56, 4):
                rows = held["subject"] == subject
                yield "MMLU", model, scores[rows].astype(float), held["gold"][rows]
    for name, file in (("MMBench", "mmbench"), ("OOD-CV", "oodcv")):
        with np.load(SCORES / "vlm" / f"{file}.npz") as held:
            for model, logits in enumerate(held["logits"]):
                yield name, model, logits[:MOST_ROWS, :4].astype(float), held["gold"][:MOST_ROWS]
    with np.load(SCORES / "bear_gpt2" / "bear_gpt2.npz") as held:
        names = [name for name in held.files if name.endswith("_scores") and len(held[name]) > 30]
        for number, name in enumerate(names):
            yield "BEAR", number, held[name].astype(float), held[name.replace("_scores", "_gold")]


def factors(batch: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """The centered bias of a batch [m, k], and each factor."""
    m = len(batch)
    rows = batch - batch.mean(axis=1, keepdims=True)
    bias = rows.mean(axis=0)
    error = ((rows - bias) ** 2).sum() / (m * (m - 1)) if m > 1 else np.inf
    length = float(max((bias**2).sum(), 1e-12))
    return bias, [factor(length, error, m) for factor in FACTORS.values()]


def measure(
    scores: np.ndarray, gold: np.ndarray, m: int, random: np.random.Generator
) -> np.ndarray:
    """Accuracy [all rows or the m rows, factor] in percent, the mean over draws."""
    found = []
    for _ in range(DRAWS):
        kept = random.choice(len(scores), m, replace=False)
        bias, several = factors(scores[kept])
        right = [(scores - factor * bias).argmax(axis=1) == gold for factor in several]
        found.append([[one.mean() for one in right], [one[kept].mean() for one in right]])
    return 100 * np.mean(found, axis=0)


def summed(found: Found) -> None:
    """Print the choosing half's mean over data and sizes from 2 to 20 rows, by which we chose."""
    print("choosing half, mean over data and 2, 5, 10, 20 rows: all rows, the m rows")
    every = [
        np.mean([np.mean(by_size[m], axis=0) for m in (2, 5, 10, 20)], axis=0)
        for (half, _), by_size in found.items()
        if half == 0
    ]
    for factor, parts in zip(FACTORS, np.mean(every, axis=0).T, strict=True):
        print(f"{factor:18}" + "".join(f"{mean:8.2f}" for mean in parts))


def main() -> None:
    """Tables of factors against rows, and what bc_shrunk gains."""
    if not SCORES.is_dir():
        raise SystemExit(f"error: needs the shared scores, and {SCORES} is not there.")
    random = np.random.default_rng(0)
    found: Found = {}
    for name, number, scores, gold in contexts():
        by_size = found.setdefault((number % 2, name), {})
        for m in SIZES:
            if m < len(scores):
                by_size.setdefault(m, []).append(measure(scores, gold, m, random))
    summed(found)
    for (half, name), by_size in sorted(found.items()):
        for part, rows in enumerate(("all rows", "the m rows")):
            print(f"\n{name}, {'reporting' if half else 'choosing'} half, {rows}, mean of "
                  f"{len(by_size[1])} contexts")  # fmt: skip
            print(f"{'m':18}" + "".join(f"{m:8}" for m in by_size))
            tables = {m: np.array([one[part] for one in each]) for m, each in by_size.items()}
            for column, factor in enumerate(FACTORS):
                means = (table[:, column].mean() for table in tables.values())
                print(f"{factor:18}" + "".join(f"{mean:8.2f}" for mean in means))
            for other in ("bc", "icl"):
                theirs = list(FACTORS).index(other)
                gains = [table[:, -1] - table[:, theirs] for table in tables.values()]
                errors = (gain.std(ddof=1) / len(gain) ** 0.5 for gain in gains)
                told = zip(gains, errors, strict=True)
                print(
                    f"{'over ' + other:18}" + "".join(f"{a.mean():+5.1f}±{e:.1f}" for a, e in told)
                )


if __name__ == "__main__":
    main()

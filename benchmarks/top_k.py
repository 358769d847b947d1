"""What becomes of missing labels: real scores cut to the best few, against the whole ones.

python -m benchmarks.top_k

Scores of ../shared. Each row keeps its best labels, as a list of the likeliest tokens would, and the
others are missing; the whole vocabulary is not in the files, so the bound is the least label that
is left. "MMLU, simulated lists" draws the other tokens: the probability that the labels leave is
shared among 32,000 tokens by a power of their rank (exponent 1.2, ranks drawn per row), and the list
holds the likeliest of all. Batch Calibration takes each way to fill; the whole scores are the
reference. Means over contexts, with 95 % intervals of the difference (bootstrap over contexts).
The figures of docs/missing-labels.md.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.stats import norm

from batch_calibration.censored import fill, least_returned

SCORES = Path(__file__).resolve().parents[2] / "shared" / "scores"
Context = tuple[np.ndarray, np.ndarray, np.ndarray | None]
"""Scores [n, k], gold [n], and the log-probabilities [n, v] of other tokens, where simulated."""
Fill = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Scores with minus infinity, bound [n] -> scores that are predicted from, bias [k]."""


def least(below: float) -> Fill:
    """Just below the bound, or farther."""

    def filled(scores: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        whole, _ = fill(scores, "least", bound, below=below)
        return whole, whole.mean(axis=0)

    return filled


def at(nats: float) -> Fill:
    """One number for all rows."""

    def filled(scores: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        whole = np.where(np.isfinite(scores), scores, nats)
        return whole, whole.mean(axis=0)

    return filled


def drop(scores: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bias of the rows that lack no label; a label that a row lacks is not predicted for it."""
    kept = np.isfinite(scores).all(axis=1)
    return scores, scores[kept].mean(axis=0) if kept.any() else np.zeros(scores.shape[1])


def returned(scores: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bias of each label from the rows that returned it."""
    there = np.isfinite(scores)
    total = np.where(there, scores, 0.0).sum(axis=0)
    return scores, total / np.maximum(there.sum(axis=0), 1)


def mean(scores: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each label's mean where it was returned, below the bound at most."""
    _, bias = returned(scores, bound)
    whole = np.where(np.isfinite(scores), scores, np.minimum(bias, bound[:, None]))
    return whole, whole.mean(axis=0)


def tobit(scores: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a normal distribution of each label expects below the bound (EM, 50 rounds)."""
    there = np.isfinite(scores)
    whole = np.where(there, scores, bound[:, None] - 1e-3)
    center, spread = whole.mean(axis=0), whole.std(axis=0) + 0.1
    for _ in range(50):
        z = (bound[:, None] - center) / spread
        ratio = np.exp(norm.logpdf(z) - norm.logcdf(z))
        expected = center - spread * ratio
        left = spread**2 * np.maximum(1 - z * ratio - ratio**2, 0.0)
        whole = np.where(there, scores, expected)
        center = whole.mean(axis=0)
        spread = np.sqrt(((whole - center) ** 2 + np.where(there, 0.0, left)).mean(axis=0)) + 1e-6
    return whole, whole.mean(axis=0)


WAYS: dict[str, Fill] = {
    "least (0.001 below)": least(1e-3),
    "0.5 below": least(0.5),
    "1 below": least(1.0),
    "2 below": least(2.0),
    "5 below": least(5.0),
    "-30": at(-30.0),
    "-100": at(-100.0),
    "drop": drop,
    "bias of the returned": returned,
    "mean of the returned": mean,
    "censored normal (EM)": tobit,
}


def cut(context: Context, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the labels in the list of each row's best `size`, and the least of the list."""
    scores, _, others = context
    listed = scores if others is None else np.concatenate([scores, others], axis=1)
    bound = np.sort(listed, axis=1)[:, -min(size, listed.shape[1])]
    return np.where(scores >= bound[:, None], scores, -np.inf), bound


def measure(name: str, contexts: list[Context], sizes: tuple[int, ...]) -> None:
    """Print a table for each size of the list."""
    random = np.random.default_rng(0)
    for size in sizes:
        found, shares = {way: [] for way in WAYS}, []
        base = []
        for context in contexts:
            whole, gold, _ = context
            scores, bound = cut(context, size)
            answered = np.isfinite(least_returned(scores, ~np.isfinite(scores)))
            scores, bound = scores[answered], bound[answered]
            whole, gold = whole[answered], gold[answered]
            if len(gold) < 10:
                continue
            true = (whole - whole.mean(axis=0)).argmax(axis=1)
            shares.append([answered.mean(), (~np.isfinite(scores)).any(axis=1).mean()])
            base.append([(whole.argmax(axis=1) == gold).mean(), (true == gold).mean()])
            for way, filled in WAYS.items():
                used, bias = filled(scores, bound)
                picks = (used - bias).argmax(axis=1)
                found[way].append([(picks == gold).mean(), (picks == true).mean()])
        icl, bc = 100 * np.mean(base, axis=0)
        answered, lack = 100 * np.mean(shares, axis=0)
        print(
            f"\n{name}, lists of {size}: {len(base)} contexts; {answered:.0f} % of rows have a "
            f"label, {lack:.0f} % of these lack one. Whole: ICL {icl:.1f}, BC {bc:.1f}\n\n"
            "| missing labels | BC, % | minus whole BC | same prediction, % |\n|---|---|---|---|"
        )
        draws = random.integers(len(base), size=(2000, len(base)))
        for way, values in found.items():
            each = 100 * np.array(values)
            difference = each[:, 0] - 100 * np.array(base)[:, 1]
            low, high = np.percentile(difference[draws].mean(axis=1), [2.5, 97.5])
            print(
                f"| {way} | {each[:, 0].mean():.1f} | {difference.mean():+.1f} "
                f"[{low:+.1f}, {high:+.1f}] | {each[:, 1].mean():.1f} |"
            )


def mmlu(file: str, *, simulated: bool = False) -> Iterator[Context]:
    """7 models, 56 subjects each."""
    random = np.random.default_rng(0)
    with np.load(SCORES / "mmlu_base" / f"{file}.npz") as held:
        for of in held["scores"].astype(np.float64):
            for subject in range(56):
                pick = held["subject"] == subject
                scores, gold = of[pick], held["gold"][pick]
                yield scores, gold, others(scores, random) if simulated else None


def others(scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The likeliest 40 of 32,000 other tokens, which share what the labels leave."""
    left = np.maximum(1 - np.exp(scores).sum(axis=1, keepdims=True), 1e-6)
    weight = np.arange(1, 32_001) ** -1.2
    noise = np.exp(random.normal(0.0, 0.5, (len(scores), 40)))
    return np.log(left * weight[:40] / weight.sum() * noise)


def vlm(labels: int) -> Iterator[Context]:
    """26 models, two sets of questions."""
    for name in ("mmbench", "oodcv"):
        with np.load(SCORES / "vlm" / f"{name}.npz") as held:
            for of in held["logits"]:
                yield of[:, :labels].astype(np.float64), held["gold"], None


def bear() -> Iterator[Context]:
    """GPT-2, relations with more than 30 rows."""
    with np.load(SCORES / "bear_gpt2" / "bear_gpt2.npz") as held:
        for name in held.files:
            if name.endswith("_scores") and len(held[name]) > 30:
                yield held[name].astype(np.float64), held[name.replace("_scores", "_gold")], None


def main() -> None:
    """Print all tables."""
    if not SCORES.is_dir():
        raise SystemExit(f"error: needs the shared scores, and {SCORES} is not there.")
    measure("MMLU", list(mmlu("orig")), (2, 3))
    measure("MMLU, right answers never A", list(mmlu("neverA")), (2,))
    measure("MMLU, simulated lists", list(mmlu("orig", simulated=True)), (2, 3, 5, 20))
    measure("VLM, A to D", list(vlm(4)), (2, 3))
    measure("VLM, A to F", list(vlm(6)), (2, 3, 5))
    measure("BEAR", list(bear()), (2, 3, 5, 20))


if __name__ == "__main__":
    main()

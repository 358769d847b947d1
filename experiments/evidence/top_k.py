"""Measures accuracy with missing labels: real scores cut to the top k, against complete scores.

python -m experiments.evidence.top_k

Needs the scores of ../shared. Each row keeps its best labels, as in a list of the most probable
tokens, and the other labels are missing. The archives do not have scores of the whole vocabulary,
so the bound is the lowest remaining label. "Simulated lists" draw other tokens: 32,000 tokens share
the rest of the probability by the power -1.2 of their rank, with noise, and the list holds the most
probable labels and tokens. Rows without a label in the list are left out, and so are contexts with
fewer than 10 remaining rows. Batch Calibration runs with each method to fill missing scores, and is
compared with itself on the complete scores. Results are means over contexts (a model's subject, a
model's set, or a relation) with 95 % bootstrap intervals over contexts. docs/your-scores.md has the
numbers.
"""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.stats import norm

from batch_calibration.arrays.missing_scores import BELOW, Missing, fill_scores
from experiments.evidence.sets import read_sets, shared_scores

Context = tuple[np.ndarray, np.ndarray, np.ndarray | None]
"""Scores [n, k], gold [n], and log-probabilities [n, v] of simulated other tokens, or None."""
Fill = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Scores with minus infinity for missing labels, bound [n] -> scores for prediction, bias [k]."""


def filled(missing: Missing, below: float = BELOW) -> Fill:
    """Returns a function that fills missing scores by `fill_scores`, and learns the BC bias."""

    def fill(scores: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        complete, _ = fill_scores(scores, missing, bound, below=below)
        return complete, complete.mean(axis=0)

    return fill


def drop(scores: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Learns the bias from complete rows; missing labels of a row are never predicted."""
    whole_rows = np.isfinite(scores).all(axis=1)
    # Without complete rows the bias is zero.
    bias = scores[whole_rows].mean(axis=0) if whole_rows.any() else np.zeros(scores.shape[1])
    return scores, bias


def mean(scores: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fills each label with its mean over rows that have it, limited by the bound."""
    is_known = np.isfinite(scores)
    # The mean of a label without any score is 0.
    bias = np.where(is_known, scores, 0.0).sum(axis=0) / np.maximum(is_known.sum(axis=0), 1)
    complete = np.where(is_known, scores, np.minimum(bias, bound[:, None]))
    return complete, complete.mean(axis=0)


def tobit(scores: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fills with expected scores below the bound, under a normal distribution per label (EM)."""
    is_known = np.isfinite(scores)
    filled = np.where(is_known, scores, bound[:, None] - 1e-3)
    center, spread = filled.mean(axis=0), filled.std(axis=0) + 0.1
    for _ in range(50):
        z = (bound[:, None] - center) / spread  # standard deviations from the label's mean
        # Density over distribution function; logarithms avoid underflow.
        ratio = np.exp(norm.logpdf(z) - norm.logcdf(z))
        expected = center - spread * ratio
        variance = spread**2 * np.maximum(1 - z * ratio - ratio**2, 0.0)
        filled = np.where(is_known, scores, expected)
        center = filled.mean(axis=0)
        # Censored scores contribute their conditional variance.
        squares = (filled - center) ** 2 + np.where(is_known, 0.0, variance)
        spread = np.sqrt(squares.mean(axis=0)) + 1e-6
    return filled, filled.mean(axis=0)


WAYS: dict[str, Fill] = {
    "least (0.5 below)": filled("least", 0.5),
    "0.001 below": filled("least", 1e-3),
    "1 below": filled("least", 1.0),
    "2 below": filled("least", 2.0),
    "-30": filled(-30.0),
    "-100": filled(-100.0),
    "drop": drop,
    "mean of the returned": mean,
    "censored normal": tobit,
}


def cut(context: Context, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Limits each row to its list of the best `size` labels and tokens; returns also the bound."""
    scores, _, other_tokens = context
    listed = scores if other_tokens is None else np.concatenate([scores, other_tokens], axis=1)
    bound = np.sort(listed, axis=1)[:, -min(size, listed.shape[1])]  # [n], the lowest in the list
    return np.where(scores >= bound[:, None], scores, -np.inf), bound


def measure(name: str, contexts: list[Context], size: int) -> tuple[str, str]:
    """Measures two table rows: gains over complete scores, and shares of equal predictions."""
    random = np.random.default_rng(0)
    outcomes: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    lacking, base = [], []
    for context in contexts:
        complete, gold, _ = context
        scores, bound = cut(context, size)
        answered = np.isfinite(scores).any(axis=1)  # rows with at least one label in the list
        scores, bound, complete, gold = (rows[answered] for rows in (scores, bound, complete, gold))
        if len(gold) < 10:
            continue
        true = (complete - complete.mean(axis=0)).argmax(axis=1)
        lacking.append(1 - np.isfinite(scores).mean())
        base.append([(complete.argmax(axis=1) == gold).mean(), (true == gold).mean()])
        for way, fill in WAYS.items():
            used, bias = fill(scores, bound)
            picks = (used - bias).argmax(axis=1)
            outcomes[way].append(((picks == gold).mean(), (picks == true).mean()))
    icl, bc = 100 * np.mean(base, axis=0)
    draws = random.integers(len(base), size=(2000, len(base)))  # used for all ways to fill
    gains, agreements = [], []
    for pairs in outcomes.values():
        points = 100 * np.array(pairs)
        # Relative to Batch Calibration on the complete scores.
        gain = points[:, 0] - 100 * np.array(base)[:, 1]
        low, high = np.percentile(gain[draws].mean(axis=1), [2.5, 97.5])
        gains.append(f"{gain.mean():+.1f} [{low:+.1f}, {high:+.1f}]")
        agreements.append(f"{points[:, 1].mean():.1f}")
    start = f"{name}, {size}"
    gone = f"{100 * np.mean(lacking):.0f}"
    whole_row = [start, str(len(base)), gone, f"{icl:.1f}", f"{bc:.1f}", *gains]
    return f"| {' | '.join(whole_row)} |", f"| {' | '.join([start, *agreements])} |"


def contexts_of(*names: str, simulated: bool = False) -> Iterator[Context]:
    """Yields the contexts of some sets with more than 30 rows."""
    random = np.random.default_rng(0)
    for score_set in read_sets(shared_scores(), names):
        for table in score_set.tables:
            test = table.blocks["test"]
            scores = np.asarray(test.log_probs, np.float64)
            if len(scores) > 30:
                yield scores, test.labels, others(scores, random) if simulated else None


def others(scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Simulates the 40 most probable of 32,000 other tokens, [n, 40] log-probabilities."""
    # The probability that the labels leave to other tokens.
    unlisted = np.maximum(1 - np.exp(scores).sum(axis=1, keepdims=True), 1e-6)
    weight = np.arange(1, 32_001) ** -1.2  # the power of the rank, unnormalized
    noise = np.exp(random.normal(0.0, 0.5, (len(scores), 40)))
    return np.log(unlisted * weight[:40] / weight.sum() * noise)


def main() -> None:
    """Prints all tables."""
    cases = (
        ("MMLU", contexts_of("mmlu"), (2, 3)),
        ("MMLU, right answers never A", contexts_of("mmlu_neverA"), (2, 3)),
        ("MMLU, simulated lists", contexts_of("mmlu", simulated=True), (2, 3, 5, 20)),
        ("VLM, A to D", contexts_of("mmbench", "oodcv"), (2, 3)),
        ("VLM, A to F", contexts_of("mmbench_AF", "oodcv_AF"), (2, 3, 5)),
        ("BEAR", contexts_of("bear"), (2, 3, 5, 20)),
    )
    rows = []
    for name, contexts, sizes in cases:
        listed = list(contexts)
        rows += [measure(name, listed, size) for size in sizes]
    head = ["scores, length of the list", "contexts", "labels missing, %", "ICL", "BC", *WAYS]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    print("\n".join(gains for gains, _ in rows))
    head = [head[0], *WAYS]
    print(f"\n| {' | '.join(head)} |\n{'|---' * len(head)}|")
    print("\n".join(agreement for _, agreement in rows))


if __name__ == "__main__":
    main()

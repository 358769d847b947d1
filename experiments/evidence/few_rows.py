"""Accuracy of Batch Calibration with the bias of a few rows, on the real scores of ../shared.

python -m experiments.evidence.few_rows

The bias is the mean score of m rows drawn at random, applied to all rows of a context; 40 draws a
context. The figures behind `batch_calibration.methods.validation.MIN_ROWS_WITHOUT_WARNING`.
"""

from itertools import product
from pathlib import Path

import numpy as np

SCORES = Path(__file__).resolve().parents[3] / "shared" / "scores"
ROWS = (2, 10, 50)
DRAWS = 40


def accuracy(scores: np.ndarray, gold: np.ndarray, bias: np.ndarray) -> float:
    """Percent of rows [n, k] that are right once `bias [k]` is subtracted."""
    return 100 * float(((scores - bias).argmax(axis=1) == gold).mean())


def measure(name: str, contexts: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Print plain ICL's, few rows' and all rows' accuracy, means over contexts."""
    random = np.random.default_rng(0)  # the same draws for each set
    means: list[list[float]] = []
    for scores, gold in contexts:
        few: list[float] = []
        for m in ROWS:
            accuracies = []
            for _ in range(DRAWS):
                bias = scores[random.choice(len(scores), m, False)].mean(axis=0)
                accuracies.append(accuracy(scores, gold, bias))
            few.append(float(np.mean(accuracies)))
        of_all_rows = accuracy(scores, gold, scores.mean(axis=0))
        means.append([accuracy(scores, gold, np.zeros(scores.shape[1])), *few, of_all_rows])
    columns = zip(("ICL", *(f"{m} rows" for m in ROWS), "all rows"), np.mean(means, 0), strict=True)
    print(f"{name}, {len(contexts)} contexts: " + ", ".join(f"{a} {b:.1f}" for a, b in columns))


def main() -> None:
    """MMLU (7 models, every eighth subject) and BEAR (GPT-2, 20 relations)."""
    if not SCORES.is_dir():
        raise SystemExit(f"error: needs the shared scores, and {SCORES} is not there.")
    with np.load(SCORES / "mmlu_base" / "orig.npz") as file:
        # A subject in eight, to save time.
        picks = [file["subject"] == subject for subject in range(0, 56, 8)]
        contexts = []
        for model_scores, pick in product(file["scores"], picks):
            contexts.append((model_scores[pick].astype(float), file["gold"][pick]))
        measure("MMLU", contexts)
    with np.load(SCORES / "bear_gpt2" / "bear_gpt2.npz") as file:
        names = [name for name in file.files if name.endswith("_scores") and len(file[name]) > 30]
        contexts = []
        for name in names[:20]:
            gold = file[name.replace("_scores", "_gold")]
            contexts.append((file[name].astype(float), gold))
        measure("BEAR", contexts)


if __name__ == "__main__":
    main()

"""A few rows a subject: each subject's bias shrunk to the mean of all subjects, not to 0.

python -m benchmarks.pooled_bias

Needs ../shared/scores: seven models on MMLU, 56 subjects, as they are and with an option that is
never right. A subject's bias is learned from m of its rows without labels, and all its rows are
judged; `pooled` is `bc_shrunk` with the mean bias of the m rows of all subjects as its
`expected_bias`. Mean accuracy in percent over subjects and draws; the gain over `bc` with its 95 %
interval over the seven models (t).
"""

from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
from scipy.stats import t

from batch_calibration import METHODS
from batch_calibration.calibration.base import Calibrator

SCORES = Path(__file__).resolve().parents[2] / "shared" / "scores" / "mmlu_base"
SETS = {"orig": "as they are", "neverA": "A never right", "neverB": "B never right"}
SIZES = (2, 5, 10, 20, 50)
DRAWS = 10
NAMES = ("icl", "bc", "bc_shrunk", "pooled")


def contexts(name: str) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
    """For each model its subjects: scores [n, k] and gold [n]."""
    with np.load(SCORES / f"{name}.npz") as npz:
        gold, subject = npz["gold"].astype(int), npz["subject"]
        for scores in npz["scores"]:
            subjects = [np.flatnonzero(subject == number) for number in np.unique(subject)]
            yield [(scores[rows], gold[rows]) for rows in subjects]


def measure(
    subjects: list[tuple[np.ndarray, np.ndarray]], m: int, random: np.random.Generator
) -> np.ndarray:
    """Accuracy of each of `NAMES` in percent, the mean over subjects and draws."""
    accuracies = []
    for _ in range(DRAWS):
        batches = np.stack(
            [scores[random.choice(len(scores), m, replace=False)] for scores, _ in subjects]
        )  # [subjects, m, k]
        centered = batches - batches.mean(axis=-1, keepdims=True)
        pooled = tuple(float(nats) for nats in centered.mean(axis=(0, 1)))
        makers = [METHODS[name].make() for name in NAMES[:-1]]
        makers.append(METHODS["bc_shrunk"].make(expected_bias=pooled))
        for calibrator in makers:
            biases = np.asarray(jax.vmap(bias_of(calibrator))(batches))  # [subjects, k]
            right = [
                ((scores - bias).argmax(axis=1) == gold).mean()
                for (scores, gold), bias in zip(subjects, biases, strict=True)
            ]
            accuracies.append(100 * np.mean(right))
    return np.array(accuracies).reshape(DRAWS, len(NAMES)).mean(axis=0)


def bias_of(calibrator: Calibrator):  # type: ignore[no-untyped-def]
    """The bias [k] that a pair learns from rows [m, k]."""
    return lambda rows: calibrator.fit(rows).bias


def main() -> None:
    """A table for each set."""
    if not SCORES.is_dir():
        raise SystemExit(f"error: needs the shared scores, and {SCORES} is not there.")
    random = np.random.default_rng(0)
    for name, title in SETS.items():
        print(f"\nMMLU, {title}\n{'rows a subject':16}" + "".join(f"{n:>11}" for n in NAMES))
        for m in SIZES:
            by_model = np.array([measure(subjects, m, random) for subjects in contexts(name)])
            gain = by_model[:, -1] - by_model[:, NAMES.index("bc")]
            half = t.ppf(0.975, len(gain) - 1) * gain.std(ddof=1) / len(gain) ** 0.5
            columns = "".join(f"{mean:11.1f}" for mean in by_model.mean(axis=0))
            ends = f"[{gain.mean() - half:+.1f}, {gain.mean() + half:+.1f}]"
            print(f"{m:<16}{columns}   over bc {gain.mean():+.1f} {ends}")


if __name__ == "__main__":
    main()

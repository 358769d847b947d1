"""Gain of known shares of the labels, and estimates of shares from unlabeled rows.

python -m experiments.evidence.class_shares --scores=../shared/scores/mmlu_base

Mean accuracy in % of the models of an npz file [models, n, 4]: plain scores (icl), less the mean of
content-free prompts (cc) or of the batch (bc); cc with shares by expectation-maximization (Saerens
et al. 2002) on the corrected rows; bc with the shares of 200 labeled rows, drawn at random (seed
0), one more of each label counted.
"""

import argparse
from pathlib import Path

import numpy as np

ROUNDS = 500
LABELED = 200


def probs(scores: np.ndarray) -> np.ndarray:
    """The softmax over labels."""
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))  # the largest is exp(0)
    return shifted / shifted.sum(axis=-1, keepdims=True)


def maximized(corrected: np.ndarray) -> np.ndarray:
    """The shares that expectation-maximization ends in, from equal ones."""
    row_probs = probs(corrected)
    shares = np.full(row_probs.shape[-1], 1 / row_probs.shape[-1])
    for _ in range(ROUNDS):
        weighted = row_probs * shares
        # A share of 0 would stay 0.
        shares = np.maximum((weighted / weighted.sum(axis=-1, keepdims=True)).mean(axis=0), 1e-3)
        shares /= shares.sum()
    return shares


def accuracies(scores: np.ndarray, free: np.ndarray, gold: np.ndarray) -> list[float]:
    """Accuracy in % of each way on one model's scores."""
    cc, bc = scores - free.mean(axis=0), scores - scores.mean(axis=0)
    drawn = np.random.default_rng(0).choice(len(gold), LABELED, replace=False)
    counted = np.bincount(gold[drawn], minlength=scores.shape[-1]) + 1.0  # one more of each label
    ways = scores, cc, bc, cc + np.log(maximized(cc)), bc + np.log(counted / counted.sum())
    return [100 * float((way.argmax(axis=-1) == gold).mean()) for way in ways]


def main() -> None:
    """Print one line a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores", type=Path, default=Path("../shared/scores/mmlu_base"))
    folder = parser.parse_args().scores
    # [models, prompts, 4]
    free = np.load(folder / "control_content_free.npz")["scores"].astype(np.float64)
    print("scores   icl   cc    bc    cc + maximized  bc + counted")
    for name in ("orig", "neverA", "neverB"):
        with np.load(folder / f"{name}.npz") as file:
            scores, gold = file["scores"].astype(np.float64), file["gold"].astype(int)
        by_model = [accuracies(*pair, gold) for pair in zip(scores, free, strict=True)]
        print(f"{name:8}", "  ".join(f"{share:.1f}" for share in np.mean(by_model, axis=0)))


if __name__ == "__main__":
    main()

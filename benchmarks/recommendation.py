"""What `recommend` says from unlabeled rows of real models, and what comes of it.

python -m benchmarks.recommendation --scores=../shared/scores

The rule's constants were found on the models of even index (for BEAR, relations of even index);
those of odd index are reported. Each set's figures are means over its contexts, in %: accuracy and
balanced accuracy of the scores as they are (icl), of BC, and of what is recommended; how often that
is to leave the scores, and how often BC with a target prior. `--labeled=64` gives that many rows of
each context of 400 rows or more, drawn at random (seed 0), as labeled ones and judges on the rest;
`--rows=50` draws that many unlabeled rows to learn from and judges on all. `--kept=0.05` keeps that
share of the rows of one label, of each in turn, in the sets whose labels are about equally right.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.calibration.base import predict
from batch_calibration.diagnosis import recommend
from batch_calibration.methods import METHODS, Evidence, correct

LEAST_ROWS = 400
"""Rows of a context from which labeled ones are taken."""
EVEN = "MMLU orig", "mmbench A-D", "oodcv A-D"
"""Sets of one prompt whose labels are about equally right."""
HALVES = "found on", "reported on"


class Context(NamedTuple):
    """Scores [n, k], labels [n], and the half that they belong to, 0 or 1."""

    scores: np.ndarray
    gold: np.ndarray
    half: int


def sets(folder: Path) -> Iterator[tuple[str, list[Context]]]:
    """Name -> contexts."""
    for name in ("orig", "neverA", "neverB"):
        with np.load(folder / "mmlu_base" / f"{name}.npz") as file:
            scores, gold, subject = file["scores"], file["gold"].astype(int), file["subject"]
        models = list(enumerate(scores))
        yield f"MMLU {name}", [Context(table, gold, i % 2) for i, table in models]
        masks = [subject == number for number in np.unique(subject)]
        by_subject = [
            Context(table[mask], gold[mask], i % 2) for i, table in models for mask in masks
        ]
        yield f"MMLU {name} by subject", by_subject
    for name in ("mmbench", "oodcv"):
        with np.load(folder / "vlm" / f"{name}.npz") as file:
            logits, gold = file["logits"].astype(np.float32), file["gold"].astype(int)
        for letters in ("ABCD", "ABCDEF"):
            offered = logits[:, :, : len(letters)]
            yield (
                f"{name} A-{letters[-1]}",
                [Context(table, gold, i % 2) for i, table in enumerate(offered)],
            )
    with np.load(folder / "bear_gpt2" / "bear_gpt2.npz") as file:
        names = sorted(name.removesuffix("_scores") for name in file if name.endswith("_scores"))
        yield (
            "BEAR, GPT-2",
            [
                Context(file[f"{name}_scores"], file[f"{name}_gold"].astype(int), i % 2)
                for i, name in enumerate(names)
            ],
        )


def thinned(context: Context, kept_share: float, random: np.random.Generator) -> Iterator[Context]:
    """The context with only a share of the rows of one label, of each label in turn."""
    for label in np.unique(context.gold):
        rows = (context.gold != label) | (random.random(len(context.gold)) < kept_share)
        yield Context(context.scores[rows], context.gold[rows], context.half)


def right(guess: np.ndarray, gold: np.ndarray) -> tuple[float, float]:
    """Accuracy and balanced accuracy over the labels that occur, in %."""
    recalls = [(guess[gold == label] == label).mean() for label in np.unique(gold)]
    return 100 * float((guess == gold).mean()), 100 * float(np.mean(recalls))


def judged(context: Context, labeled: int, rows: int, random: np.random.Generator) -> list[float]:
    """Accuracies and balanced ones of icl, BC and the recommended; whether it leaves, or caps."""
    order = random.permutation(len(context.gold))
    drawn, judged_rows = order[:labeled], np.sort(order[labeled:])  # in the order of the file
    scores, gold = context.scores[judged_rows], context.gold[judged_rows]
    seen = scores[random.permutation(len(scores))[:rows]] if rows else scores
    pair = {"labeled": context.scores[drawn], "labels": context.gold[drawn]} if labeled else {}
    advice = recommend(seen, **pair, from_probs=False)
    blocks = {
        "test": Evidence(seen),
        "labeled": Evidence(context.scores[drawn], context.gold[drawn]),
    }
    corrected = correct(METHODS[advice.method], blocks, scores, **advice.options).scores
    guesses = (
        scores.argmax(axis=1),
        (scores - seen.mean(axis=0)).argmax(axis=1),
        predict(corrected),
    )
    pairs = [right(np.asarray(way), gold) for way in guesses]
    return [
        *(a for a, _ in pairs),
        *(b for _, b in pairs),
        advice.method == "icl",
        bool(advice.options),
    ]


def main() -> None:
    """Print a line a set for each half."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores", type=Path, default=Path("../shared/scores"))
    parser.add_argument("--labeled", type=int, default=0)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--kept", type=float, default=1.0)
    args = parser.parse_args()
    score_sets = list(sets(args.scores))
    random = np.random.default_rng(0)
    if args.kept < 1:
        balanced_sets = [(name, contexts) for name, contexts in score_sets if name in EVEN]
        score_sets = [
            (
                name,
                [subset for context in contexts for subset in thinned(context, args.kept, random)],
            )
            for name, contexts in balanced_sets
        ]
    head = f"{'':24}{'accuracy':>21}{'balanced accuracy':>24}"
    names = f"{'contexts':>24}    icl     bc    rec      icl     bc    rec   diff  leave  part"
    for half, heading in enumerate(HALVES):
        print(f"\n{heading}\n{head}\n{names}")
        means = []
        for name, contexts in score_sets:
            of_half = [context for context in contexts if context.half == half]
            if args.labeled:
                of_half = [context for context in of_half if len(context.gold) >= LEAST_ROWS]
            if not of_half:
                continue
            figures = [judged(context, args.labeled, args.rows, random) for context in of_half]
            means.append(np.mean(figures, axis=0))
            print(line(f"{name:23}{len(of_half):4}", means[-1]), flush=True)
        print(line(f"{'mean of the sets':27}", np.mean(means, axis=0)))
        # Balanced accuracy, recommended less icl.
        print(f"least difference {min(mean[5] - mean[3] for mean in means):+.1f}")


def line(title: str, mean: np.ndarray) -> str:
    """A line of the table; diff is the recommended less icl, balanced."""
    accuracies = "".join(f"{number:7.1f}" for number in mean[:3])
    balanced = "".join(f"{number:7.1f}" for number in mean[3:6])
    shares = "".join(f"{number:6.2f}" for number in mean[6:])
    # Balanced accuracy, recommended less icl.
    return f"{title}{accuracies}  {balanced}{mean[5] - mean[3]:+7.1f} {shares}"


if __name__ == "__main__":
    main()

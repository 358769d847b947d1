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
        each = list(enumerate(scores))
        yield f"MMLU {name}", [Context(one, gold, i % 2) for i, one in each]
        parts = [subject == number for number in np.unique(subject)]
        by_subject = [Context(one[part], gold[part], i % 2) for i, one in each for part in parts]
        yield f"MMLU {name} by subject", by_subject
    for name in ("mmbench", "oodcv"):
        with np.load(folder / "vlm" / f"{name}.npz") as file:
            logits, gold = file["logits"].astype(np.float32), file["gold"].astype(int)
        for letters in ("ABCD", "ABCDEF"):
            some = logits[:, :, : len(letters)]
            yield (
                f"{name} A-{letters[-1]}",
                [Context(one, gold, i % 2) for i, one in enumerate(some)],
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


def thinned(one: Context, kept: float, random: np.random.Generator) -> Iterator[Context]:
    """The context with only a share of the rows of one label, of each label in turn."""
    for label in np.unique(one.gold):
        rows = (one.gold != label) | (random.random(len(one.gold)) < kept)
        yield Context(one.scores[rows], one.gold[rows], one.half)


def right(guess: np.ndarray, gold: np.ndarray) -> tuple[float, float]:
    """Accuracy and balanced accuracy over the labels that occur, in %."""
    each = [(guess[gold == label] == label).mean() for label in np.unique(gold)]
    return 100 * float((guess == gold).mean()), 100 * float(np.mean(each))


def judged(one: Context, labeled: int, rows: int, random: np.random.Generator) -> list[float]:
    """Accuracies and balanced ones of icl, BC and the recommended; whether it leaves, or caps."""
    order = random.permutation(len(one.gold))
    drawn, rest = order[:labeled], np.sort(order[labeled:])
    scores, gold = one.scores[rest], one.gold[rest]
    seen = scores[random.permutation(len(scores))[:rows]] if rows else scores
    pair = {"labeled": one.scores[drawn], "labels": one.gold[drawn]} if labeled else {}
    found = recommend(seen, **pair)
    blocks = {"test": Evidence(seen), "labeled": Evidence(one.scores[drawn], one.gold[drawn])}
    made = correct(METHODS[found.method], blocks, scores, **found.options).scores
    ways = scores.argmax(axis=1), (scores - seen.mean(axis=0)).argmax(axis=1), predict(made)
    pairs = [right(np.asarray(way), gold) for way in ways]
    return [
        *(a for a, _ in pairs),
        *(b for _, b in pairs),
        found.method == "icl",
        bool(found.options),
    ]


def main() -> None:
    """Print a line a set for each half."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores", type=Path, default=Path("../shared/scores"))
    parser.add_argument("--labeled", type=int, default=0)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--kept", type=float, default=1.0)
    given = parser.parse_args()
    every = list(sets(given.scores))
    random = np.random.default_rng(0)
    if given.kept < 1:
        some = [(name, contexts) for name, contexts in every if name in EVEN]
        every = [
            (name, [part for one in contexts for part in thinned(one, given.kept, random)])
            for name, contexts in some
        ]
    head = f"{'':24}{'accuracy':>21}{'balanced accuracy':>24}"
    names = f"{'contexts':>24}    icl     bc    rec      icl     bc    rec   diff  leave  part"
    for half, what in enumerate(HALVES):
        print(f"\n{what}\n{head}\n{names}")
        means = []
        for name, contexts in every:
            mine = [one for one in contexts if one.half == half]
            if given.labeled:
                mine = [one for one in mine if len(one.gold) >= LEAST_ROWS]
            if not mine:
                continue
            each = [judged(one, given.labeled, given.rows, random) for one in mine]
            means.append(np.mean(each, axis=0))
            print(line(f"{name:23}{len(mine):4}", means[-1]), flush=True)
        print(line(f"{'mean of the sets':27}", np.mean(means, axis=0)))
        print(f"least difference {min(mean[5] - mean[3] for mean in means):+.1f}")


def line(title: str, mean: np.ndarray) -> str:
    """A line of the table; diff is the recommended less icl, balanced."""
    cells = "".join(f"{value:7.1f}" for value in mean[:3])
    balanced = "".join(f"{value:7.1f}" for value in mean[3:6])
    shares = "".join(f"{value:6.2f}" for value in mean[6:])
    return f"{title}{cells}  {balanced}{mean[5] - mean[3]:+7.1f} {shares}"


if __name__ == "__main__":
    main()

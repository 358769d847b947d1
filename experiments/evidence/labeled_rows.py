"""Measures accuracy and log loss by the number of labeled rows, on the real scores of ../shared.

python -m experiments.evidence.labeled_rows

Labeled rows are drawn at random, and the other rows are judged. Means are over seven models and
five draws, or over seven models and the MMLU subjects with at least 100 rows. docs/method.md has
the results.
"""

import jax
import numpy as np

from batch_calibration import metrics
from batch_calibration.methods import Evidence, compare
from experiments.evidence.sets import arrays, read_archive, shared_scores

METHODS = ("icl", "bc", "bcl", "rbcorr", "vector", "matrix", "linc")
DRAWS = 5
# Indices of held-out models. The defaults were chosen on Phi-2, Mistral-7B and LLaMA3-8B.
HELD_OUT = (0, 2, 5, 6)

_compare = jax.jit(compare, static_argnames="methods")
_accuracy = jax.jit(jax.vmap(metrics.accuracy))
_nll = jax.jit(jax.vmap(metrics.nll))


def measure(name: str, groups: list[np.ndarray], labeled: int) -> None:
    """Prints the mean accuracy and log loss of each method.

    Args:
        name: name of the archive of scores.
        groups: row indices of each context; the first rows of a context are labeled.
        labeled: number of labeled rows.
    """
    scores, gold, *_ = read_archive(shared_scores(), name)
    content_free = arrays(shared_scores(), "content_free")["scores"]
    models, longest = len(scores), max(map(len, groups)) - labeled
    accuracies: dict[str, list[np.ndarray]] = {method: [] for method in METHODS}
    for group in groups:
        learned, judged = group[:labeled], group[labeled:]
        # Padded to one length, so that one program serves all groups; padding has weight 0.
        padded = np.pad(judged, (0, longest - len(judged)), mode="edge")
        weight = np.broadcast_to(
            (np.arange(longest) < len(judged)) * np.float32(1), (models, longest)
        )
        learned_gold = np.broadcast_to(gold[learned], (models, labeled))
        right = np.broadcast_to(gold[padded], (models, longest))
        blocks = {
            "test": Evidence(scores[:, padded], None, weight),
            "labeled": Evidence(scores[:, learned], learned_gold),
            "cc": Evidence(content_free),
        }
        for method, (_, corrected) in _compare(blocks, methods=METHODS).items():
            judge = [measured(corrected, right, weight) for measured in (_accuracy, _nll)]
            accuracies[method].append(np.array(judge))
    print(
        f"{name}, {len(groups)} times {labeled} labeled rows: all seven models; four held out; nll"
    )
    for method, shares in accuracies.items():
        accuracy, nll = np.mean(shares, axis=0)
        held_out = accuracy[list(HELD_OUT)]
        print(
            f"{method:12} {100 * accuracy.mean():.1f} {100 * held_out.mean():.1f} {nll.mean():.2f}"
        )


def main() -> None:
    """Measures on all of MMLU as one context, then on each subject separately."""
    subject = read_archive(shared_scores(), "orig").task
    draws = [np.random.default_rng(seed).permutation(len(subject)) for seed in range(DRAWS)]
    for name in ("orig", "neverB"):
        for labeled in (32, 128, 512):
            measure(name, draws, labeled)
    # Rows of a subject are in the order of the first draw.
    subjects = [draws[0][subject[draws[0]] == number] for number in np.unique(subject)]
    for labeled in (16, 64):
        measure("orig", [rows for rows in subjects if len(rows) >= 100], labeled)


if __name__ == "__main__":
    main()

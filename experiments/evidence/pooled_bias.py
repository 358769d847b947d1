"""Measures BC with few rows per context, shrunk toward the mean bias of other contexts.

python -m experiments.evidence.pooled_bias

Needs ../shared/scores: seven models on 56 MMLU subjects (original, and with an option that is never
right), and LLaMA-13B on 16 subjects with ten demonstrations each. A context's bias is learned from
m of its rows without labels, and all of its rows are judged. `pooled` is `bc_shrunk` with an
`expected_bias`: the mean bias of m rows of each other context of the unit (other subjects of the
model, or other demonstrations of the subject). The output is mean accuracy in percent over contexts
and draws, the gain over `bc` with its 95 % t interval over units, and the share of contexts that
lose rows to ICL beyond noise (exact McNemar test, 5 %).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration.shift import mean_log_prob, shrunk_mean
from batch_calibration.scores import ScoreTable
from experiments.evidence.sets import ScoreSet, read_sets, shared_scores, task_of
from experiments.evidence.statistics import t_interval_cell
from experiments.evidence.trials import is_harmed

SETS = ("mmlu", "mmlu_neverA", "mmlu_neverB", "demonstrations")
SIZES = (2, 5, 10, 20, 50)
DRAWS = 10
NAMES = ("icl", "bc", "bc_shrunk", "pooled")
POOLED = NAMES.index("pooled")


class Measured(NamedTuple):
    """Accuracy and share of harmed contexts in percent, for each method of `NAMES`."""

    accuracy: np.ndarray
    harmed: np.ndarray


def by_unit(score_set: ScoreSet) -> list[list[ScoreTable]]:
    """Groups the contexts by model, or by task if there is only one model."""
    units: dict[str, list[ScoreTable]] = {}
    for table in score_set.tables:
        unit = str(table.context["model"]) if score_set.models > 1 else task_of(table)
        units.setdefault(unit, []).append(table)
    return [*units.values()]


@jax.jit
def learn(batches: jax.Array) -> jax.Array:
    """Learns biases [4, contexts, k] with each of `NAMES`, from rows [contexts, m, k]."""
    means = jax.vmap(mean_log_prob)(batches)
    # Excludes the context itself, so that its rows do not count twice.
    others = (means.sum(axis=0) - means) / (len(means) - 1)
    shrunk = jax.vmap(shrunk_mean)(batches)
    pooled = jax.vmap(lambda rows, expected: shrunk_mean(rows, None, expected))(batches, others)
    return jnp.stack([jnp.zeros_like(means), means, shrunk, pooled])


def measure(tables: Sequence[ScoreTable], m: int, random: np.random.Generator) -> Measured:
    """Measures accuracy with m rows per context, as the mean over contexts and draws."""
    blocks = [table.blocks["test"] for table in tables]
    # Centered, so that a constant added to a row's scores does not change the bias.
    rows = [block.log_probs - block.log_probs.mean(axis=1, keepdims=True) for block in blocks]
    accuracies, harmed = [], []
    for _ in range(DRAWS):
        batches = np.stack([scores[random.choice(len(scores), m, False)] for scores in rows])
        biases = np.asarray(learn(batches))  # [4, contexts, k]
        for context, (scores, block) in enumerate(zip(rows, blocks, strict=True)):
            corrected = scores - biases[:, context, None]  # [4, rows, k]
            hits = corrected.argmax(axis=2) == block.labels
            accuracies.append([hit.mean() for hit in hits])
            won, lost = (hits & ~hits[0]).sum(axis=1), (hits[0] & ~hits).sum(axis=1)
            harmed.append(is_harmed(won, lost))
    return Measured(*(100 * np.mean(part, axis=0) for part in (accuracies, harmed)))


def main() -> None:
    """Prints a table for each set."""
    random = np.random.default_rng(0)
    for score_set in read_sets(shared_scores(), SETS):
        units = by_unit(score_set)
        print(f"\n{score_set.title}, {len(units)} units\n{'rows a context':16}", end="")
        print("".join(f"{name:>11}" for name in NAMES), "  pooled - bc, 95 %; harmed by each")
        for m in SIZES:
            measured = [measure(tables, m, random) for tables in units]
            accuracy, harmed = (np.array(part) for part in zip(*measured, strict=True))
            gain = accuracy[:, POOLED] - accuracy[:, NAMES.index("bc")]
            columns = "".join(f"{mean:11.1f}" for mean in accuracy.mean(axis=0))
            shares = " ".join(f"{share:.0f} %" for share in harmed.mean(axis=0)[1:])
            print(f"{m:<16}{columns}   {t_interval_cell(gain)}; {shares}", flush=True)


if __name__ == "__main__":
    main()

"""Reads the log-probabilities of label tokens off the hidden states of packed sequences."""

import jax
import numpy as np
from jax.sharding import NamedSharding

from batch_calibration.scoring import programs
from batch_calibration.scoring.batches import power

READS = 512
"""Most positions that are unembedded at once: logits of all might not fit."""
STEP = 32
"""They are padded to a multiple of this, which keeps the compiled programs few."""
WORDS = {"cpu": 2048}
"""Words of the vocabulary whose logits are computed at a time, by backend; elsewhere all."""


def read_targets(
    graph: programs.Graph,
    whole: NamedSharding | None,
    vocabulary: int,
    state: programs.State,
    h: jax.Array | np.ndarray,
    targets: np.ndarray,
    slots: np.ndarray | None,
    *,
    normalized: bool,
) -> list[jax.Array]:
    """Log-probabilities `[m, c]` of target tokens, in parts, not waited for.

    Args:
        graph: The network's structure.
        whole: Where results lie on a mesh, whose devices share the vocabulary; None without one.
        vocabulary: Words that the network knows.
        state: The network's weights.
        h: `[b t, d]` hidden states of which `slots` are read, or `[m, d]` without them.
        targets: `[m, c]` tokens that are read after each.
        slots: `[m]` which hidden states are read; all, where it is None.
        normalized: Whether to subtract the log of the softmax's denominator.
    """
    # By a table of the vocabulary: the targets of 1,000 labels are millions, and sorting is slow.
    place = np.zeros(vocabulary, np.int32)
    place[targets] = 1
    tokens = np.flatnonzero(place).astype(np.int32)
    place[tokens] = np.arange(len(tokens))
    indices = place[targets]
    tokens = np.pad(tokens, (0, max(8, power(len(tokens))) - len(tokens)))
    width = power(targets.shape[1])
    at_a_time = WORDS.get(jax.default_backend(), vocabulary) if whole is None else vocabulary
    parts: list[jax.Array] = []
    for start in range(0, len(indices), READS):
        some = indices[start : start + READS]
        rows = -(-len(some) // STEP) * STEP
        rest = (0, rows - len(some))
        padded = np.zeros((rows, width), np.int32)
        padded[: len(some), : some.shape[1]] = some
        if slots is None:
            part = np.pad(h[start : start + READS], (rest, (0, 0)))
        else:
            part = programs.take(h, np.pad(slots[start : start + READS], rest))
        found = programs.read(
            graph, whole, vocabulary, at_a_time if normalized else None, state,
            part, tokens, padded,
        )  # fmt: skip
        parts.append(found)
    return parts

"""Reads the log-probabilities of label tokens off the hidden states of packed sequences."""

import jax
import numpy as np
from jax.sharding import NamedSharding

from batch_calibration.scoring import programs
from batch_calibration.scoring.batches import bucket, power
from batch_calibration.scoring.packing import Layout

READS = 512
"""Most positions that are unembedded at once: logits of all might not fit."""
STEP = 32
"""They are padded to one of a few numbers, this the smallest."""
WORDS = {"cpu": 2048}
"""Words of the vocabulary whose logits are computed at a time, by backend; elsewhere all."""


def read_targets(
    graph: programs.Graph,
    whole: NamedSharding | None,
    vocabulary: int,
    state: programs.State,
    h: jax.Array,
    layout: Layout,
    *,
    normalized: bool,
) -> list[jax.Array]:
    """Log-probabilities `[m, c]` of the tokens that a layout reads, in parts, not waited for.

    Args:
        graph: The network's structure.
        whole: Where results lie on a mesh, whose devices share the vocabulary; None without one.
        vocabulary: Words that the network knows.
        state: The network's weights.
        h: `[b t, d]` hidden states of the layout.
        layout: Its slots and targets.
        normalized: Whether to subtract the log of the softmax's denominator.
    """
    # By a table of the vocabulary: the targets of 1,000 labels are millions, and sorting is slow.
    place = np.zeros(vocabulary, np.int32)
    place[layout.targets] = 1
    tokens = np.flatnonzero(place).astype(np.int32)
    place[tokens] = np.arange(len(tokens))
    indices = place[layout.targets]
    tokens = np.pad(tokens, (0, max(8, power(len(tokens))) - len(tokens)))
    width = power(layout.targets.shape[1])
    at_a_time = WORDS.get(jax.default_backend(), vocabulary) if whole is None else vocabulary
    parts: list[jax.Array] = []
    for start in range(0, len(indices), READS):
        some = indices[start : start + READS]
        rows = bucket(len(some), STEP)
        padded = np.zeros((rows, width), np.int32)
        padded[: len(some), : some.shape[1]] = some
        slots = np.pad(layout.slots[start : start + READS], (0, rows - len(some)))
        found = programs.read(
            graph, whole, vocabulary, at_a_time if normalized else None, state,
            programs.take(h, slots), tokens, padded,
        )  # fmt: skip
        parts.append(found)
    return parts

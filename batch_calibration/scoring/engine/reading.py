"""Reads the log-probabilities of label tokens off the hidden states of packed sequences."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding

from batch_calibration.scoring.engine import programs
from batch_calibration.scoring.engine.batches import power

MAX_READS = 512
"""Most positions that are unembedded at once: logits of all might not fit."""
STEP = 32
"""They are padded to a multiple of this, which keeps the compiled programs few."""
VOCABULARY_SPAN = {"cpu": 2048}
"""Words of the vocabulary whose logits are computed at a time, by backend; elsewhere all."""


class ReadScores(NamedTuple):
    """Log-probabilities of some reads, the first `reads` of an array; the others are padding."""

    log_probs: jax.Array
    reads: int


def wait(scores: Sequence[ReadScores]) -> np.ndarray:
    """Log-probabilities `[e]` of all chunks."""
    return np.concatenate([np.asarray(chunk.log_probs)[: chunk.reads] for chunk in scores])


def read_targets(
    graph: programs.Graph,
    home: NamedSharding | None,
    vocabulary: int,
    state: programs.State,
    h: jax.Array | np.ndarray,
    reads: np.ndarray,
    targets: np.ndarray,
    slots: np.ndarray | None,
    *,
    normalized: bool,
) -> list[ReadScores]:
    """Log-probabilities `[e]` of target tokens, in chunks, not waited for.

    Args:
        graph: The network's structure.
        home: Where results lie on a mesh, whose devices share the vocabulary; None without one.
        vocabulary: Words that the network knows.
        state: The network's weights.
        h: `[b t, d]` hidden states of which `slots` are read, or `[m, d]` without them.
        reads: `[e]` which of them each read is after, ascending.
        targets: `[e]` token that is read there.
        slots: `[m]` which hidden states are read; all, where it is None.
        normalized: Whether to subtract the log of the softmax's denominator.
    """
    # Each token is unembedded once; powers of two keep the compiled programs few.
    tokens, indices = np.unique(targets, return_inverse=True)
    tokens = np.pad(tokens, (0, max(8, power(len(tokens))) - len(tokens)))
    # On a mesh the devices share the vocabulary, and each has all of its part at once.
    spans = VOCABULARY_SPAN if home is None else {}
    at_a_time = spans.get(jax.default_backend(), vocabulary) if normalized else None
    scores: list[ReadScores] = []
    for start in range(0, int(reads[-1]) + 1, MAX_READS):
        count = min(MAX_READS, int(reads[-1]) + 1 - start)
        padding = (0, -count % STEP)  # to a multiple of `STEP`
        if slots is None:
            states = np.pad(h[start : start + count], (padding, (0, 0)))
        else:
            states = programs.take(h, np.pad(slots[start : start + count], padding))
        # reads of these states
        first, last = np.searchsorted(reads, (start, start + count)).tolist()
        read_padding = (0, power(last - first) - (last - first))  # to a power of two
        log_probs = programs.read(
            graph, home, vocabulary, at_a_time, state, states, tokens,
            np.pad(reads[first:last] - start, read_padding),
            np.pad(indices[first:last], read_padding),
        )  # fmt: skip
        scores.append(ReadScores(log_probs, last - first))
    return scores

"""Reads the log-probabilities of label tokens off the hidden states of packed sequences."""

from collections.abc import Sequence
from typing import NamedTuple

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


class Part(NamedTuple):
    """Log-probabilities of some reads, the first `reads` of an array; the others are padding."""

    log_probs: jax.Array
    reads: int


def wait(parts: Sequence[Part]) -> np.ndarray:
    """Log-probabilities `[e]` of all parts."""
    return np.concatenate([np.asarray(part.log_probs)[: part.reads] for part in parts])


def read_targets(
    graph: programs.Graph,
    whole: NamedSharding | None,
    vocabulary: int,
    state: programs.State,
    h: jax.Array | np.ndarray,
    reads: np.ndarray,
    targets: np.ndarray,
    slots: np.ndarray | None,
    *,
    normalized: bool,
) -> list[Part]:
    """Log-probabilities `[e]` of target tokens, in parts, not waited for.

    Args:
        graph: The network's structure.
        whole: Where results lie on a mesh, whose devices share the vocabulary; None without one.
        vocabulary: Words that the network knows.
        state: The network's weights.
        h: `[b t, d]` hidden states of which `slots` are read, or `[m, d]` without them.
        reads: `[e]` which of them each read is after, ascending.
        targets: `[e]` token that is read there.
        slots: `[m]` which hidden states are read; all, where it is None.
        normalized: Whether to subtract the log of the softmax's denominator.
    """
    tokens, indices = np.unique(targets, return_inverse=True)
    tokens = np.pad(tokens, (0, max(8, power(len(tokens))) - len(tokens)))
    at_a_time = WORDS.get(jax.default_backend(), vocabulary) if whole is None else vocabulary
    parts: list[Part] = []
    for start in range(0, int(reads[-1]) + 1, READS):
        count = min(READS, int(reads[-1]) + 1 - start)
        rest = (0, -count % STEP)
        if slots is None:
            states = np.pad(h[start : start + count], (rest, (0, 0)))
        else:
            states = programs.take(h, np.pad(slots[start : start + count], rest))
        first, last = np.searchsorted(reads, (start, start + count)).tolist()
        more = (0, power(last - first) - (last - first))
        found = programs.read(
            graph, whole, vocabulary, at_a_time if normalized else None, state, states, tokens,
            np.pad(reads[first:last] - start, more), np.pad(indices[first:last], more),
        )  # fmt: skip
        parts.append(Part(found, last - first))
    return parts

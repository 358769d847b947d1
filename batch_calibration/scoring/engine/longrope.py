"""Scores sequences beyond the length that `longrope` was first trained for."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from flax import nnx

from batch_calibration.scoring.engine.forward import Forward
from batch_calibration.scoring.engine.tokens import Encoded
from batch_calibration.scoring.engine.trie import Trie
from batch_calibration.scoring.models import llama
from batch_calibration.scoring.models.family import Config


class LongNetwork(NamedTuple):
    """A network as it is beyond its `first_length`, the weights shared with the other."""

    first_length: float  # tokens
    model: llama.Model


def long_network(config: Config, model: nnx.Module) -> LongNetwork | None:
    """The network for long sequences, where it differs from that for short ones."""
    if not isinstance(model, llama.Model) or not isinstance(config, llama.Config):
        return None
    first_length = config.rope.original_max_position_embeddings
    if model.long_frequencies is None or config.positions <= first_length:
        return None
    longer = nnx.merge(*nnx.split(model))
    longer.frequencies = model.long_frequencies
    return LongNetwork(first_length, longer)


def run(
    short: Forward,
    long: Forward,
    first_length: float,
    encoded: Encoded,
    tries: Sequence[Trie],
    done: set[int],
) -> Iterator[tuple[list[int], np.ndarray]]:
    """As `Forward.run`, each label by the network that its own sequence is long enough for.

    Transformers turns all positions of a sequence by its length, and lm-evaluation-harness at
    batch size 1 asks about one label at a time: the prompt and the label but its last token. So a
    row's score depends on no other row, and its labels may differ in the network.
    """
    is_long = np.zeros((len(encoded.labels), len(encoded.labels[0])), bool)
    for row, (prompt, labels) in enumerate(zip(encoded.prompts, encoded.labels, strict=True)):
        lengths = len(prompt) + np.array(list(map(len, labels))) - 1
        is_long[row] = lengths > first_length
    by_short: dict[int, np.ndarray] = {}  # scores of rows that need both networks
    for forward, is_wanted in ((short, ~is_long), (long, is_long)):
        rows = np.flatnonzero(is_wanted.any(axis=1)).tolist()
        if not rows:  # none is so long, or none so short
            continue
        prompts = [encoded.prompts[row] for row in rows]
        done_here = {index for index, row in enumerate(rows) if row in done}
        for indices, scores in forward.run(prompts, [tries[row] for row in rows], done_here):
            complete: dict[int, np.ndarray] = {}
            for index, row_scores in zip(indices, scores, strict=True):
                row = rows[index]
                if is_wanted[row].all():
                    complete[row] = row_scores
                elif forward is short:
                    by_short[row] = row_scores
                elif row in by_short:  # not there where the row was done before
                    complete[row] = np.where(is_wanted[row], row_scores, by_short.pop(row))
            if complete:
                yield list(complete), np.stack(list(complete.values()))

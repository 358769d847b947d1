"""Which training rows stand in the context, and in which order."""

from collections.abc import Sequence

import numpy as np

from batch_calibration.typing import InputError


def per_class(labels: Sequence[int], names: Sequence[str], shots: int, seed: int) -> list[int]:
    """`shots` random rows of every class, then one seeded shuffle of all of them.

    Args:
      labels: integer label of each training row, -1 where unknown.
      names: label names, for their number and for the error.
      shots: rows a class; 0 gives an empty context.
      seed: the same seed gives the same rows in the same order.

    Returns:
      Row numbers in the order in which they stand in the prompt.

    Source: Zhou et al. 2024, appendix "Implementation Details" (k random training rows per class).

    >>> len(per_class([0, 1, 0, 1], ["a", "b"], shots=2, seed=0))
    4
    """
    rng = np.random.default_rng([seed, 1])
    chosen: list[int] = []
    for label, name in enumerate(names):
        pool = np.flatnonzero(np.asarray(labels) == label)
        if len(pool) < shots:
            raise InputError(
                f"{shots} shots of class {name!r} were asked for, the training rows hold "
                f"{len(pool)}; ask for fewer shots or give more rows."
            )
        chosen += rng.choice(pool, shots, replace=False).tolist()
    return [chosen[i] for i in rng.permutation(len(chosen))]


def labeled_set(
    labels: Sequence[int], label_count: int, per_label: int, exclude: Sequence[int], seed: int
) -> list[int]:
    """Random labeled training rows for BCL: min(k · `per_label`, available), not stratified.

    The demonstrations (`exclude`) are left out: the model has read their labels.
    """
    known = np.flatnonzero(np.asarray(labels) >= 0)
    pool = np.setdiff1d(known, np.asarray(exclude, int))
    rng = np.random.default_rng([seed, 2])
    return rng.permutation(pool)[: label_count * per_label].tolist()

"""Selects and orders the training rows of a context, and may change their labels."""

from collections.abc import Sequence
from math import factorial

import numpy as np

from batch_calibration.errors import InputError

FEWER = "ask for fewer shots or give more rows"


def per_class(labels: Sequence[int], names: Sequence[str], shots: int, seed: int) -> list[int]:
    """Draws `shots` random rows of every class and shuffles all of them.

    Returns row indices in the order of the prompt. `labels` are -1 if unknown.

    Source: Zhou et al. 2024, app. D (k random training rows per class).

    >>> len(per_class([0, 1, 0, 1], ["a", "b"], shots=2, seed=0))
    4
    """
    # The second number separates a seed's draws: 1 and 4 draw demonstrations, 2 the labeled set,
    # 3 DC's words, 5 the labels shown, 6 label words and PriDe's rows.
    rng = np.random.default_rng([seed, 1])
    chosen = _of_each_class(labels, names, shots, rng)
    return list(map(int, rng.permutation(chosen)))


def round_robin(labels: Sequence[int], names: Sequence[str], shots: int, seed: int) -> list[int]:
    """Returns the rows that `per_class` draws, with alternating classes in label order.

    >>> labels = [0, 1, 0, 1]
    >>> [labels[i] for i in round_robin(labels, ["a", "b"], shots=2, seed=0)]
    [0, 1, 0, 1]
    """
    # `chosen` holds `shots` rows of the first label, then `shots` of the second, and so on.
    chosen = _of_each_class(labels, names, shots, np.random.default_rng([seed, 1]))
    return list(map(int, np.reshape(chosen, (len(names), shots)).T.ravel()))


def total(labels: Sequence[int], shots: int, seed: int) -> list[int]:
    """Draws `shots` random rows in total, of any class, in random order."""
    pool = np.flatnonzero(np.asarray(labels) >= 0)  # rows with a known label
    # numpy's own error has no remedy.
    if len(pool) < shots:
        expected = f"at least {shots} training rows with a label"
        raise InputError(key="shots", expected=expected, got=len(pool), remedy=FEWER)
    return list(map(int, np.random.default_rng([seed, 4]).choice(pool, shots, replace=False)))


def explicit(
    labels: Sequence[int], ids: Sequence[str], names: Sequence[str | int], where: str
) -> list[int]:
    """Returns the rows given by id or by index (the first is 0), in the order given."""
    if not names:
        raise InputError(
            "selection 'explicit' needs the training rows to show, but the list "
            "is empty; give their ids or numbers, such as (0, 17).",
            key="demonstrations",
        )
    numbers = dict(zip(ids, range(len(ids)), strict=True))
    chosen = []
    for name in names:
        row = name if isinstance(name, int) else numbers.get(name, -1)
        chosen.append(row)
        if not 0 <= row < len(ids):
            expected = f"rows of {where}, {ids[0]!r} to {ids[-1]!r} or 0 to {len(ids) - 1}"
            raise InputError(key="demonstrations", expected=expected, got=repr(name))
        if labels[row] < 0:
            expected, got = f"rows of {where} with a label", f"{name!r} without one"
            raise InputError(key="demonstrations", expected=expected, got=got)
    return chosen


def reorder(chosen: Sequence[int], index: int) -> list[int]:
    """Permutes fixed demonstrations by a permutation's index, 0 to n! - 1; 0 is the identity.

    >>> [reorder([7, 8, 9], i) for i in (0, 1, 5)]
    [[7, 8, 9], [7, 9, 8], [9, 8, 7]]
    """
    count = factorial(len(chosen))  # number of orders
    if not 0 <= index < count:
        expected = f"0 to {count - 1} for {len(chosen)} demonstrations, or -1 (as drawn)"
        raise InputError(key="order", expected=expected, got=index)
    remaining, order = list(chosen), []
    # Each digit of the index in the factorial number system picks the next of the remaining rows.
    while remaining:
        digit, index = divmod(index, factorial(len(remaining) - 1))
        order.append(remaining.pop(digit))
    return order


def random_labels(chosen: Sequence[int], label_count: int, seed: int) -> list[int]:
    """Draws a random label for each demonstration from all labels; it may be the right one.

    Source: Min et al. 2022, "Rethinking the Role of Demonstrations", sec. 4.

    >>> random_labels([3, 17, 5, 9], 2, seed=0)
    [0, 1, 1, 1]
    """
    # The rows are part of the seed, so that other demonstrations of one seed draw other labels.
    rng = np.random.default_rng([seed, 5, *chosen])
    return list(map(int, rng.integers(label_count, size=len(chosen))))


def flipped_labels(labels: Sequence[int], label_count: int) -> list[int]:
    """Replaces each demonstration's label by the next label, and the last label by the first.

    >>> flipped_labels([0, 1, 2], 3)
    [1, 2, 0]
    """
    return [(label + 1) % label_count for label in labels]


def labeled_set(
    labels: Sequence[int], label_count: int, per_label: int, exclude: Sequence[int], seed: int
) -> list[int]:
    """Draws random labeled training rows for BCL: min(k · `per_label`, available), not stratified.

    The demonstrations (`exclude`) are left out, because the model has read their labels.
    """
    labeled_rows = np.flatnonzero(np.asarray(labels) >= 0)
    # `setdiff1d` sorts the rows, so only the seed decides their order.
    pool = np.setdiff1d(labeled_rows, np.asarray(exclude, int))
    rng = np.random.default_rng([seed, 2])
    return list(map(int, rng.permutation(pool)[: label_count * per_label]))


def _of_each_class(
    labels: Sequence[int], names: Sequence[str], shots: int, rng: np.random.Generator
) -> list[int]:
    """Draws `shots` random rows of each class, in the order of the classes."""
    chosen: list[int] = []
    for label, name in enumerate(names):
        # Each class is drawn separately, in the order of the labels.
        pool = np.flatnonzero(np.asarray(labels) == label)
        if len(pool) < shots:
            expected = f"at least {shots} training rows of class {name!r}"
            raise InputError(key="shots", expected=expected, got=len(pool), remedy=FEWER)
        chosen += rng.choice(pool, shots, replace=False).tolist()
    return chosen

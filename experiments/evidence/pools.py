"""Pools of real and simulated rows, and batches drawn from them with given label shares."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from batch_calibration.errors import InputError
from experiments.evidence.sets import ScoreSet, read_sets, task_of


class Pool(NamedTuple):
    """Rows to draw from.

    Attributes:
        name: name of the unit, such as a model; pools with equal names are one unit.
        log_probs: [n k], in nats.
        gold: [n], right labels; each of the k labels occurs.
        content_free: [m k], content-free rows of the same model, or None.
    """

    name: str
    log_probs: np.ndarray
    gold: np.ndarray
    content_free: np.ndarray | None = None


def titled(names: Sequence[str]) -> str:
    """Joins the titles of a group of sets.

    >>> titled(["mmbench", "oodcv"])
    'MMBench and OOD-CV'
    """
    return " and ".join(TITLES.get(name, name) for name in names)


TITLES = {
    "mmlu_batch": "MMLU", "mmbench": "MMBench", "oodcv": "OOD-CV",
    "mmlu_neverA_batch": "MMLU, A never right", "mmlu_neverB_batch": "MMLU, B never right",
}  # fmt: skip
"""Titles of one-batch sets."""


def real_pools(folder: Path, sets: Sequence[str], labels: int) -> list[Pool]:
    """Reads the rows of each model as one pool, with the first `labels` labels of the sets.

    With fewer labels than the set has, a pool keeps only the columns of these labels, and the rows
    with one of them as the right label.

    Raises:
        InputError: a set has several tasks, or too few labels.
    """
    pools = []
    for score_set in read_sets(folder, sets):
        # A pool is one batch, and labels of several tasks would differ in meaning.
        if score_set.shape[1] > 1 or len(score_set.tables[0].label_names) < labels:
            raise InputError.at(
                "pools",
                f"one-batch sets with at least {labels} labels",
                score_set.name,
                "name sets such as mmlu_batch, mmbench, oodcv",
            )
        for table in score_set.tables:
            test = table.blocks["test"]
            is_kept = test.labels < labels
            name = str(table.context["model"])
            # The same columns as the test rows.
            free = table.blocks["cc"].log_probs[:, :labels] if "cc" in table.blocks else None
            pools.append(Pool(name, test.log_probs[is_kept, :labels], test.labels[is_kept], free))
    return pools


def context_pools(score_set: ScoreSet) -> list[Pool]:
    """Returns the rows of each context of a set as one pool, named by its unit.

    The unit is the model if the set has several models, else the task (with all demonstrations).
    """
    pools = []
    for table in score_set.tables:
        test = table.blocks["test"]
        unit = table.context["model"] if score_set.models > 1 else task_of(table)
        pools.append(Pool(str(unit), test.log_probs, test.labels))
    return pools


def gaussian_pool(accuracy: float, rows: int, seed: int) -> Pool:
    """Simulates rows of two labels with Gaussian margins and right log-probabilities.

    x_j ~ N(d [j = y], 1) and s_j = d x_j, so s_0 - s_1 is the true log-likelihood ratio, with mean
    +-d^2 and variance 2 d^2 (nats). Labels are balanced, and the accuracy is Phi(d / sqrt 2).

    >>> pool = gaussian_pool(0.8, 100_000, 0)
    >>> round(float((pool.log_probs.argmax(axis=1) == pool.gold).mean()), 2)
    0.8
    """
    distance = np.sqrt(2) * ndtri(accuracy)  # solves accuracy = Phi(d / sqrt 2)
    random = np.random.default_rng([seed, 7])  # 7 separates this stream from others of the seed
    gold = np.arange(rows, dtype=np.int32) % 2  # balanced
    features = random.standard_normal((rows, 2)) + distance * np.eye(2)[gold]  # [rows, 2]
    return Pool(f"{100 * accuracy:.0f} % right", (distance * features).astype(np.float32), gold)


def uneven(labels: int, most: int, share: float) -> np.ndarray:
    """Returns label shares: label `most` has `share`, the others share the rest equally.

    >>> uneven(3, 1, 0.5).tolist()
    [0.25, 0.5, 0.25]
    """
    shares = np.full(labels, (1 - share) / (labels - 1))  # [k]
    shares[most] = share
    return shares


def draw(
    pool: Pool, shares: np.ndarray, shape: Sequence[int], random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws rows [*shape, k] and their labels [*shape], with replacement.

    It draws each label by `shares`, then one of the pool's rows with that label.
    """
    # Rows sorted by label: rows of label j are at first[j] to first[j] + counts[j].
    order = np.argsort(pool.gold, kind="stable")
    counts = np.bincount(pool.gold, minlength=len(shares))
    first = np.cumsum(counts) - counts
    gold = random.choice(len(shares), tuple(shape), p=shares)
    # Uniform among the rows of the label.
    offset = first[gold] + (random.random(tuple(shape)) * counts[gold]).astype(int)
    return pool.log_probs[order[offset]], gold.astype(np.int32)


def several(
    pools: Sequence[Pool], share: float, size: int, rows: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws rows [u c m k] and labels [u c m]; u = pools x choices of the most frequent label."""
    k = pools[0].log_probs.shape[1]
    shape = (max(1, rows // size), size)  # [c, m]
    # The most frequent label varies fastest, because callers reshape [u] to [pools, k].
    batches = []
    for pool, most in product(pools, range(k)):
        batches.append(draw(pool, uneven(k, most, share), shape, random))
    scores, gold = zip(*batches, strict=True)
    return np.stack(scores), np.stack(gold)


def count_units(pools: Sequence[Pool]) -> int:
    """Counts the units of the pools, which are models or draws."""
    return len({pool.name for pool in pools})


def units(pool_values: np.ndarray, pools: Sequence[Pool]) -> np.ndarray:
    """Averages values [..., pools] over the pools of each unit, [..., units]."""
    names = np.array([pool.name for pool in pools])
    groups = [names == name for name in dict.fromkeys(names.tolist())]  # [pools] each
    return np.stack([pool_values[..., group].mean(axis=-1) for group in groups], axis=-1)

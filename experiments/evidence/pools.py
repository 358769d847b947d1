"""Pools of rows, real and simulated, and batches drawn from them with wanted shares of labels."""

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
        name: whose they are, such as a model's; pools of one name are one unit.
        log_probs: [n k], in nats.
        gold: [n], every label of the k among them.
        content_free: [m k], content-free rows of the same model where there are any.
    """

    name: str
    log_probs: np.ndarray
    gold: np.ndarray
    content_free: np.ndarray | None = None


def titled(names: Sequence[str]) -> str:
    """The words for a group of sets.

    >>> titled(["mmbench", "oodcv"])
    'MMBench and OOD-CV'
    """
    return " and ".join(TITLES.get(name, name) for name in names)


TITLES = {
    "mmlu_batch": "MMLU", "mmbench": "MMBench", "oodcv": "OOD-CV",
    "mmlu_neverA_batch": "MMLU, A never right", "mmlu_neverB_batch": "MMLU, B never right",
}  # fmt: skip
"""Words for sets of one batch."""


def real_pools(folder: Path, sets: Sequence[str], labels: int) -> list[Pool]:
    """The rows of each model of some sets as one pool, cut to their first labels.

    With fewer labels than the set has, the columns of these alone are kept, and the rows whose
    right label is one of them.

    Raises:
        InputError: a set of several tasks; more labels than a set has.
    """
    pools = []
    for score_set in read_sets(folder, sets):
        # A pool is one batch: labels of several tasks would not mean the same.
        if score_set.shape[1] > 1 or len(score_set.tables[0].label_names) < labels:
            raise InputError.at(
                "pools",
                f"sets of one batch with {labels} labels or more",
                score_set.name,
                "name such as mmlu_batch, mmbench, oodcv",
            )
        for table in score_set.tables:
            test = table.blocks["test"]
            is_kept = test.labels < labels
            name = str(table.context["model"])
            # The columns that rows keep.
            free = table.blocks["cc"].log_probs[:, :labels] if "cc" in table.blocks else None
            pools.append(Pool(name, test.log_probs[is_kept, :labels], test.labels[is_kept], free))
    return pools


def context_pools(score_set: ScoreSet) -> list[Pool]:
    """The rows of each context of a set as one pool, named by its unit.

    The unit is the model where a set has several, else the task, whatever the demonstrations.
    """
    pools = []
    for table in score_set.tables:
        test = table.blocks["test"]
        unit = table.context["model"] if score_set.models > 1 else task_of(table)
        pools.append(Pool(str(unit), test.log_probs, test.labels))
    return pools


def gaussian_pool(accuracy: float, rows: int, seed: int) -> Pool:
    """Two labels whose margins are Gaussian: log-probabilities that are right but for a bias.

    x_j ~ N(d [j = y], 1) and s_j = d x_j, so that s_0 - s_1 is the true log-likelihood ratio, of
    mean +-d^2 and variance 2 d^2 nats. Without a bias and with balanced labels Phi(d / sqrt 2) of
    the rows are right.

    >>> pool = gaussian_pool(0.8, 100_000, 0)
    >>> round(float((pool.log_probs.argmax(axis=1) == pool.gold).mean()), 2)
    0.8
    """
    distance = np.sqrt(2) * ndtri(accuracy)  # solves accuracy = Phi(d / sqrt 2)
    random = np.random.default_rng([seed, 7])  # 7 keeps this stream apart from others of the seed
    gold = np.arange(rows, dtype=np.int32) % 2  # balanced
    features = random.standard_normal((rows, 2)) + distance * np.eye(2)[gold]  # [rows, 2]
    return Pool(f"{100 * accuracy:.0f} % right", (distance * features).astype(np.float32), gold)


def uneven(labels: int, most: int, share: float) -> np.ndarray:
    """Shares of labels: one label has `share`, the others the rest in equal parts.

    >>> uneven(3, 1, 0.5).tolist()
    [0.25, 0.5, 0.25]
    """
    shares = np.full(labels, (1 - share) / (labels - 1))  # [k]
    shares[most] = share
    return shares


def draw(
    pool: Pool, shares: np.ndarray, shape: Sequence[int], random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows [*shape, k] and their labels [*shape], with replacement.

    Each row's label is drawn by `shares`, and then one of the pool's rows of that label.
    """
    # Rows sorted by label: those of label j stand at first[j] to first[j] + counts[j].
    order = np.argsort(pool.gold, kind="stable")
    counts = np.bincount(pool.gold, minlength=len(shares))
    first = np.cumsum(counts) - counts
    gold = random.choice(len(shares), tuple(shape), p=shares)
    # Uniform among them.
    offset = first[gold] + (random.random(tuple(shape)) * counts[gold]).astype(int)
    return pool.log_probs[order[offset]], gold.astype(np.int32)


def several(
    pools: Sequence[Pool], share: float, size: int, rows: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows [u c m k] and labels [u c m], u = pools x labels that are the most frequent one."""
    k = pools[0].log_probs.shape[1]
    shape = (max(1, rows // size), size)  # [c, m]
    # The label that is most frequent is innermost: callers reshape [u] to [pools, k].
    batches = []
    for pool, most in product(pools, range(k)):
        batches.append(draw(pool, uneven(k, most, share), shape, random))
    scores, gold = zip(*batches, strict=True)
    return np.stack(scores), np.stack(gold)


def count_units(pools: Sequence[Pool]) -> int:
    """Number of pools' names: models, or draws."""
    return len({pool.name for pool in pools})


def units(pool_values: np.ndarray, pools: Sequence[Pool]) -> np.ndarray:
    """The mean of values [..., pools] over the pools of one name, [..., units]."""
    names = np.array([pool.name for pool in pools])
    groups = [names == name for name in dict.fromkeys(names.tolist())]  # [pools] each
    return np.stack([pool_values[..., group].mean(axis=-1) for group in groups], axis=-1)

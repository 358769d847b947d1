"""Evaluates correction rules on the contexts of a task: gains, and harmed contexts."""

from collections.abc import Sequence
from functools import partial
from itertools import cycle, product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from batch_calibration.diagnosis.recommendation import promised_gain

from batch_calibration.calibration.base import weighted_mean
from batch_calibration.calibration.empirical_bayes import (
    LABELED_WEIGHT,
    LEAST_INFORMATION,
    empirical_bayes,
    information,
)
from batch_calibration.calibration.matching import match
from batch_calibration.calibration.pooled_shares import (
    CHANCE,
    FEWEST_CONTEXTS,
    LEAST_TOLD,
    Pooled,
    add_one,
    pool_shares,
    pooled_shares,
)
from batch_calibration.calibration.shift import least_shares
from batch_calibration.diagnosis.recommend import CORRECT, LIKELY, POOLED
from batch_calibration.methods.run import jit_quickly
from batch_calibration.reporting.frame import group_by
from batch_calibration.scores import ScoreTable
from batch_calibration.typing import Scalar
from experiments.evidence.sets import task_of
from experiments.evidence.statistics import mcnemar

BASELINE, SHARES = "icl", "true shares"
GATES = (0.01, LEAST_TOLD, LEAST_INFORMATION)
"""Tried thresholds: minimum information of a context, in nats, for pooling."""
CHANCES = (0.0, 0.25, CHANCE, 0.75, 1.0)
"""Tried parts of the chance agreement to subtract."""
SETTINGS = tuple(product(GATES, CHANCES))
MATCHED = "prior_matching"
"""Rule that matches each context to the counted shares, with a pseudo-count of 1 for each label."""
COUNTED, SCORED = (16, 32, 64, 128, 300), 32
"""Numbers of counted labels without scores, and number of labeled rows with scores."""
FOR_ALL, FOR_EACH = "of the task", "of each context"
HARMED = 0.05
"""A context is harmed if a rule loses rows with a p-value below this (exact McNemar test)."""
SIZES, MOST = (256, 512, 1024), 512
"""Contexts are padded to these numbers of rows to limit compiled programs; longer ones are not
padded. Rules with labels use at most `MOST` rows of a context."""
FEWEST_PADDED = 8
"""Smallest number of contexts after padding; a single context is not padded."""


@jax.jit
def correct_together(
    rows: jax.Array, weight: jax.Array, same_rows: jax.Array | bool,
    least_information: Scalar | float = LEAST_TOLD,
    counts: jax.Array | None = None, chance: Scalar | float = CHANCE,
) -> Pooled:  # fmt: skip
    """Computes `pool_shares`; if no context is pooled, uses the shift of `pooled_shares` for each.

    >>> rows = jnp.array(10 * [[-1.0, -4.0], [-1.0, -3.5], [-2.0, -2.5], [-3.0, -3.2]])
    >>> contexts = jnp.stack([rows, rows + jnp.array([0.0, 1.0]), rows + jnp.array([1.0, 0.0])])
    >>> found = correct_together(contexts, jnp.ones((3, 40)), True)
    >>> (contexts - found.shifts[:, None])[:, :4].argmax(axis=-1).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]
    """
    pooled = pool_shares(rows, weight, same_rows, least_information, counts, chance)
    fit = pooled_shares(counts=counts).fit
    present = jnp.where(weight[..., None] > 0, rows, 0.0)
    alone = jax.vmap(lambda rows, weight: fit(rows, None, weight).bias)(present, weight)
    return pooled._replace(shifts=jnp.where(jnp.any(pooled.used > 0), pooled.shifts, alone))


together = jit_quickly(correct_together)


class Outcomes(NamedTuple):
    """A rule's outcomes in each context.

    Attributes:
        gain: [c], gain of accuracy in points.
        harmed: [c], True if rows are lost beyond noise.
        promised: [c], promised gain by the corrected scores, in points; 0 if not computed.
    """

    gain: np.ndarray
    harmed: np.ndarray
    promised: np.ndarray


Rules = dict[str, Outcomes]


def is_harmed(won: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Returns True for contexts that lose more rows than they win, beyond noise."""
    return np.asarray((lost > won) & (mcnemar(won, lost) < HARMED))


class Task(NamedTuple):
    """Padded scores of all contexts of a task.

    Attributes:
        rows: [c n k], in nats.
        weight: [c n], 1 for rows and 0 for padding.
        gold: [c n], right labels; -1 for padding.
        contexts: number of contexts; the others of the c are padding at the end.
    """

    rows: np.ndarray
    weight: np.ndarray
    gold: np.ndarray
    contexts: int

    @property
    def arrays(self) -> tuple[jax.Array, jax.Array]:
        """Rows and weight as JAX arrays."""
        return jnp.asarray(self.rows), jnp.asarray(self.weight)

    @property
    def shares(self) -> np.ndarray:
        """The true shares of the labels in each context, [c k]."""
        counts = (self.gold[..., None] == np.arange(self.rows.shape[-1])).sum(axis=1)
        return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)

    def judge(
        self, shift: np.ndarray, is_judged: np.ndarray | bool = True, *, promises: bool = False
    ) -> Outcomes:
        """Evaluates shifts [c k] on the rows of a mask [c n]; `promises` adds promised gains."""
        present = (self.gold >= 0) & is_judged
        before = present & (self.rows.argmax(axis=-1) == self.gold)
        after = present & ((self.rows - shift[:, None]).argmax(axis=-1) == self.gold)
        won, lost = (after & ~before).sum(axis=1), (before & ~after).sum(axis=1)
        gain = 100 * (won - lost) / np.maximum(present.sum(axis=1), 1)
        harmed = is_harmed(won, lost)
        promised = np.zeros(self.contexts)
        for place in range(self.contexts * promises):
            rows = self.rows[place, present[place]].astype(np.float64)
            promised[place] = promised_gain(rows, rows - shift[place])
        return Outcomes(gain[: self.contexts], harmed[: self.contexts], promised)


def stack(tables: Sequence[ScoreTable], most: int | None = None) -> Task:
    """Stacks and pads the contexts of a task, with at most `most` rows of each."""
    tests = [table.blocks["test"] for table in tables]
    longest, contexts = max(len(test.labels[:most]) for test in tests), len(tests)
    size = next((size for size in SIZES if longest <= size), longest)
    if contexts > 1 and size != longest:
        contexts = max(FEWEST_PADDED, 1 << (contexts - 1).bit_length())
    rows = np.zeros((contexts, size, tests[0].log_probs.shape[1]), np.float32)
    gold = np.full((contexts, size), -1, np.int32)
    for place, test in enumerate(tests):
        count = len(test.labels[:most])
        rows[place, :count] = test.log_probs[:most]
        gold[place, :count] = test.labels[:most]
    return Task(rows, (gold >= 0).astype(np.float32), gold, len(tests))


def tasks_of(tables: Sequence[ScoreTable]) -> list[list[int]]:
    """Groups the indices of the contexts by task."""
    return [*group_by(range(len(tables)), lambda place: task_of(tables[place])).values()]


def try_source(tables: Sequence[ScoreTable], seed: int = 0) -> Rules:
    """Tries all rules on all tasks of a source; outcomes [contexts] are in the order of tables."""
    random = np.random.default_rng(seed)
    places = tasks_of(tables)
    by_task = list[Rules]()
    for group in places:
        by_task.append(try_rules([tables[k] for k in group], random))
    order = np.argsort(np.concatenate(places))
    tried = {}
    for rule in by_task[0]:
        fields = zip(*(outcomes[rule] for outcomes in by_task), strict=True)
        tried[rule] = Outcomes(*(np.concatenate(of_tasks)[order] for of_tasks in fields))
    return tried


def try_rules(tables: Sequence[ScoreTable], random: np.random.Generator) -> Rules:
    """Tries every rule on one task; rules with labels need `FEWEST_CONTEXTS` contexts or more.

    `SHARES` is an upper bound, because it gets the true shares.
    """
    task = stack(tables)
    bias, likely, matched, told = alone(task)
    tried = {CORRECT: task.judge(bias), LIKELY: task.judge(likely, promises=True)}
    by_used = dict[tuple[bool, ...], list[Outcomes]]()
    for gate in GATES:
        used = tuple(told >= gate)
        if used not in by_used:
            shifts = by_chance(*task.arrays, gate) if sum(used) else [likely]
            by_used[used] = [task.judge(np.asarray(shift)) for shift in shifts]
        for chance, outcomes in zip(CHANCES, cycle(by_used[used]), strict=False):
            tried[pooled(gate, chance)] = outcomes
    tried[SHARES] = task.judge(matched, promises=True)
    if len(tables) < FEWEST_CONTEXTS:
        return tried
    return tried | try_labels(stack(tables, MOST), random)


def try_labels(task: Task, random: np.random.Generator) -> Rules:
    """Tries the rules with labels of the task: counted labels, and labeled rows with scores."""
    bias, *_ = alone(task)
    shares = task.shares[0]
    tried = {few(CORRECT): task.judge(bias), few(POOLED): task.judge(pool(task))}
    for labels in COUNTED:
        counts = jnp.asarray(random.multinomial(labels, shares), jnp.float32)
        tried[counted(POOLED, labels)] = task.judge(pool(task, counts=counts))
        matched = match_all(*task.arrays, add_one(counts))
        tried[counted(MATCHED, labels)] = task.judge(np.asarray(matched))
    for rule, contexts in ((FOR_ALL, 1), (FOR_EACH, len(task.gold))):
        # Padding gets values above 1, so it is ranked last.
        order = random.random(task.gold[:contexts].shape) + (task.gold[:contexts] < 0)
        is_scored = order.argsort(axis=1).argsort(axis=1) < SCORED
        shift = learn(*task.arrays, jnp.where(is_scored, task.gold, -1))
        tried[rule] = task.judge(np.asarray(shift), ~is_scored)
    return tried


def few(rule: str) -> str:
    """Names a rule without labels, judged on the same rows as rules with labels."""
    return f"{rule}, no labels"


def counted(rule: str, labels: int) -> str:
    """Names a rule with this number of counted labels."""
    return f"{rule}, {labels} counted"


def pooled(gate: float, chance: float) -> str:
    """Names the pooling rule with this threshold in nats and this part of the chance agreement."""
    return f"{POOLED}, {gate:g}, {chance:g}"


@jit_quickly
def by_chance(rows: jax.Array, weight: jax.Array, gate: jax.Array | float) -> jax.Array:
    """Computes the shifts [s c k] of `bc_pooled_shares` with each of the s values of `CHANCES`."""
    of_part = partial(correct_together, rows, weight, True, gate, None)
    return jax.vmap(lambda chance: of_part(chance).shifts)(jnp.array(CHANCES))


def pool(task: Task, counts: jax.Array | None = None) -> np.ndarray:
    """Computes the shifts [c k] of `bc_pooled_shares`, with or without counted labels."""
    return np.asarray(together(*task.arrays, True, LEAST_TOLD, counts).shifts)


def alone(task: Task) -> list[np.ndarray]:
    """Computes shifts [c k] by BC, `bc_empirical_bayes` and true shares; information [c] (nats)."""
    return [*map(np.asarray, _alone(*task.arrays, jnp.asarray(task.shares, jnp.float32)))]


@jit_quickly
def _alone(
    rows: jax.Array, weight: jax.Array, shares: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    rows = jax.nn.log_softmax(rows)
    bias = jax.vmap(weighted_mean)(rows, weight)
    fit = empirical_bayes().fit
    likely = jax.vmap(lambda rows, weight: fit(rows, None, weight).bias)(rows, weight)
    matched = jax.vmap(match)(rows, jax.vmap(least_shares)(shares), weight)
    return bias, likely, matched, jax.vmap(information)(rows, weight)


@jit_quickly
def match_all(rows: jax.Array, weight: jax.Array, shares: jax.Array) -> jax.Array:
    """Computes the shifts [c k] that match each context to shares [k]."""
    return jax.vmap(match, in_axes=(0, None, 0))(jax.nn.log_softmax(rows), shares, weight)


@jit_quickly
def learn(rows: jax.Array, weight: jax.Array, labels: jax.Array) -> jax.Array:
    """Computes the shifts [c k] of `bcl_empirical_bayes`; rows without a label have label -1."""
    fit = empirical_bayes(labeled_weight=LABELED_WEIGHT).fit
    return jax.vmap(lambda rows, weight, labels: fit(rows, labels, weight).bias)(
        rows, weight, labels
    )

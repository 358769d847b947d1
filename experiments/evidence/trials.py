"""Evaluates correction rules on the contexts of a task: gains, and harmed contexts."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration.base import weighted_mean
from batch_calibration.calibration.empirical_bayes import (
    LABELED_WEIGHT,
    LEAST_INFORMATION,
    empirical_bayes,
    information,
)
from batch_calibration.calibration.matching import match, match_within
from batch_calibration.calibration.pooled_shares import (
    CHANCE,
    FEWEST_CONTEXTS,
    LEAST_TOLD,
    Pooled,
    pool_shares,
    pooled_shares,
)
from batch_calibration.calibration.shares import (
    move_shares,
    prior_counted,
    shares_of_counted,
    shares_of_scored,
)
from batch_calibration.calibration.shift import least_shares
from batch_calibration.diagnosis.advice import promised_gain
from batch_calibration.methods.run import jit_quickly
from batch_calibration.reporting.frame import group_by
from batch_calibration.scores import ScoreTable
from batch_calibration.typing import Scalar
from experiments.evidence.sets import task_of
from experiments.evidence.statistics import mcnemar

BASELINE, SHARES, CORRECT = "icl", "true shares", "bc"
LIKELY, POOLED, WITH_LABELS = "bc_empirical_bayes", "bc_pooled_shares", "bcl_empirical_bayes"
EQUAL, TOGETHER = "matched to equal", "together balanced"
"""Rules for labels that are about equally frequent: exact matching, and the joint objective."""
ERRORS = {"one balanced": 0.0, "within 5 points": 0.05, "within 12 points": 0.12}
"""Rule -> standard error of equal shares; each context by itself."""
ONE, ROUGH, ROUGHEST = ERRORS
GATES = (0.01, LEAST_TOLD, LEAST_INFORMATION)
"""Tried thresholds: minimum information of a context, in nats, for pooling."""
CHANCES = (0.0, 0.25, CHANCE, 0.75, 1.0)
"""Tried parts of the chance agreement to subtract."""
SETTINGS = tuple(product(GATES, CHANCES))
LABELS, LABEL_DRAWS = (16, 32, 64), 3
"""Numbers of labeled rows, and number of draws of each."""
MOST_LABELED = 0.75
"""The largest part of the rows of a context that is labeled."""
NONE, MOVED_COUNTED, MOVED_SCORED = "no labels", "moved, counted", "moved, scored"
COUNTED = "prior_counted"
OF_TASK = (NONE, COUNTED, MOVED_COUNTED, WITH_LABELS, MOVED_SCORED)
"""Rules with labels that all contexts of a task share; the first uses no label."""
NONE_ONE, COUNTED_ONE, SCORED_ONE = (f"{x}, one" for x in (NONE, MOVED_COUNTED, MOVED_SCORED))
FROM_EQUAL = f"{SCORED_ONE}, from equal"
OF_ONE = (NONE_ONE, COUNTED_ONE, SCORED_ONE, FROM_EQUAL)
"""Rules with labels of one context only; the first uses no label, the last starts at equal shares.
"""
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
    least_information: Scalar | float = LEAST_TOLD, chance: Scalar | float = CHANCE,
) -> Pooled:  # fmt: skip
    """Computes `pool_shares`; if no context is pooled, uses the shift of `pooled_shares` for each.

    >>> rows = jnp.array(10 * [[-1.0, -4.0], [-1.0, -3.5], [-2.0, -2.5], [-3.0, -3.2]])
    >>> contexts = jnp.stack([rows, rows + jnp.array([0.0, 1.0]), rows + jnp.array([1.0, 0.0])])
    >>> found = correct_together(contexts, jnp.ones((3, 40)), True)
    >>> (contexts - found.shifts[:, None])[:, :4].argmax(axis=-1).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]
    """
    pooled = pool_shares(rows, weight, same_rows, least_information, chance)
    alone = _likely(rows, weight)
    return pooled._replace(shifts=jnp.where(jnp.any(pooled.used > 0), pooled.shifts, alone))


class Outcomes(NamedTuple):
    """A rule's outcomes in each context.

    Attributes:
        gain: [c], gain of accuracy in points.
        harmed: [c], 1 if rows are lost beyond noise, else 0; over draws of labels their mean.
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
        harmed = is_harmed(won, lost).astype(float)
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
        members = [tables[k] for k in group]
        by_task.append(try_rules(members) | try_labels(stack(members, MOST), random))
    order = np.argsort(np.concatenate(places))
    tried = {}
    for rule in by_task[0]:
        fields = zip(*(outcomes[rule] for outcomes in by_task), strict=True)
        tried[rule] = Outcomes(*(np.concatenate(of_tasks)[order] for of_tasks in fields))
    return tried


def try_rules(tables: Sequence[ScoreTable]) -> Rules:
    """Tries every rule without labels; `SHARES` is an upper bound, as it gets the true shares."""
    task = stack(tables)
    shifts, told = alone(task)
    tried = {}
    for rule, shift in shifts.items():
        tried[rule] = task.judge(shift, promises=rule in {LIKELY, ONE, SHARES})
    tried[TOGETHER] = tried[ONE]
    if len(tables) >= FEWEST_CONTEXTS:
        together = balance(*task.arrays, jnp.asarray(shifts[ONE]))
        tried[TOGETHER] = task.judge(np.asarray(together))
    by_used = dict[tuple[bool, ...], list[Outcomes]]()
    for gate in GATES:
        used = tuple(told >= gate)
        if used not in by_used:
            at_gate = [shifts[LIKELY]]
            if sum(used) >= FEWEST_CONTEXTS:
                at_gate = [*np.asarray(by_chance(*task.arrays, gate))]
            by_used[used] = [task.judge(shift) for shift in at_gate]
        for chance, outcomes in zip(CHANCES, cycle(by_used[used]), strict=False):
            tried[pooled(gate, chance)] = outcomes
    return tried


def try_labels(task: Task, random: np.random.Generator) -> Rules:
    """Tries the rules with labels on the rows that are not labeled; outcomes are means over draws.

    The contexts of a task share the labeled rows.
    """
    rows = int((task.gold[0] >= 0).sum())
    masks = np.zeros((len(LABELS) * LABEL_DRAWS, task.gold.shape[1]), bool)
    for place, mask in enumerate(masks):
        labels = min(LABELS[place // LABEL_DRAWS], int(MOST_LABELED * rows))
        mask[random.permutation(rows)[:labels]] = True
    shifts = np.asarray(with_labels(*task.arrays, jnp.asarray(task.gold[0]), jnp.asarray(masks)))
    tried = {}
    for place, labels in enumerate(LABELS):
        drawn = range(place * LABEL_DRAWS, (place + 1) * LABEL_DRAWS)
        for rule, of_rule in zip((*OF_TASK, *OF_ONE), np.moveaxis(shifts, 1, 0), strict=True):
            outcomes = [task.judge(of_rule[draw], ~masks[draw]) for draw in drawn]
            fields = zip(*outcomes, strict=True)
            tried[labeled(rule, labels)] = Outcomes(*(np.mean(of, axis=0) for of in fields))
    return tried


def labeled(rule: str, labels: int) -> str:
    """Names a rule with this number of labels; rows that are not labeled judge it."""
    return f"{rule}, {labels} labels"


def pooled(gate: float, chance: float) -> str:
    """Names the pooling rule with this threshold in nats and this part of the chance agreement."""
    return f"{POOLED}, {gate:g}, {chance:g}"


@jit_quickly
def by_chance(rows: jax.Array, weight: jax.Array, gate: jax.Array | float) -> jax.Array:
    """Computes the shifts [s c k] of `bc_pooled_shares` with each of the s values of `CHANCES`."""
    of_part = partial(pool_shares, rows, weight, True, gate)
    return jax.vmap(lambda chance: of_part(chance).shifts)(jnp.array(CHANCES))


@jit_quickly
def balance(rows: jax.Array, weight: jax.Array, one: jax.Array) -> jax.Array:
    """Computes the shifts [c k] of `TOGETHER`; contexts that are not pooled get those of `ONE`."""
    found = pool_shares(rows, weight, True, share_error=0.0)
    return jnp.where(found.used[:, None] > 0, found.shifts, one)


def alone(task: Task) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Computes the shifts [c k] of the rules for one context, and the information [c] in nats."""
    shifts, told = _alone(*task.arrays, jnp.asarray(task.shares, jnp.float32))
    rules = (CORRECT, LIKELY, EQUAL, SHARES, *ERRORS)
    return dict(zip(rules, map(np.asarray, shifts), strict=True)), np.asarray(told)


@jit_quickly
def _alone(
    rows: jax.Array, weight: jax.Array, shares: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    rows = jax.nn.log_softmax(rows)
    likely = _likely(rows, weight)
    equal = jnp.full_like(shares, 1.0 / rows.shape[-1])
    exact = [match_each(rows, of, weight) for of in (equal, jax.vmap(least_shares)(shares))]

    fits = [jax.vmap(partial(match_within, error=error)) for error in ERRORS.values()]
    errors = [fit(rows, equal, weight) for fit in fits]
    shifts = [jax.vmap(weighted_mean)(rows, weight), likely, *exact, *errors]
    return shifts, jax.vmap(information)(rows, weight)


def _likely(rows: jax.Array, weight: jax.Array) -> jax.Array:
    """Computes the shifts [c k] of `bc_empirical_bayes`."""
    fit = pooled_shares().fit
    present = jnp.where(weight[..., None] > 0, rows, 0.0)
    return jax.vmap(lambda rows, weight: fit(rows, None, weight).bias)(present, weight)


Fit = Callable[[jax.Array, jax.Array, jax.Array], Any]
match_each = jax.vmap(match)
match_all = jax.vmap(match, in_axes=(0, None, 0))


@jit_quickly
def with_labels(rows: jax.Array, weight: jax.Array, gold: jax.Array, masks: jax.Array) -> jax.Array:
    """Computes the shifts [d r c k] of the r rules of `OF_TASK` and `OF_ONE`.

    Args:
        rows: [c n k], in nats.
        weight: [c n]; rows and contexts of weight 0 are absent.
        gold: [n], right labels.
        masks: [d n], True for the labeled rows of each draw.
    """
    rows = jax.nn.log_softmax(rows)
    present, k = jnp.max(weight, axis=1), rows.shape[-1]
    found, likely = correct_together(rows, weight, True), _likely(rows, weight)
    # The shares without labels: of each context, and of the task.
    probs_of_one = jax.nn.softmax(rows - likely[:, None])
    start_of_one = jax.vmap(weighted_mean)(probs_of_one, weight)
    mean = weighted_mean(start_of_one, present)
    start = least_shares(jnp.where(jnp.any(found.used > 0), found.shares, mean))
    corrected = jax.nn.softmax(rows - match_all(rows, start, weight)[:, None])
    probs = jax.vmap(weighted_mean, in_axes=(1, None))(corrected, present)  # [n k]
    equal = jnp.full_like(start_of_one, 1.0 / k)
    from_equal = jax.nn.softmax(rows - match_each(rows, equal, weight)[:, None])
    learn = empirical_bayes(labeled_weight=LABELED_WEIGHT).fit

    def of_draw(mask: jax.Array) -> jax.Array:
        labels = jnp.where(mask, gold, -1)
        counts = jnp.sum(jax.nn.one_hot(labels, k), axis=0)
        count = jnp.sum(counts)

        def by_rows(start: jax.Array, probs: jax.Array) -> jax.Array:
            return move_shares(start, shares_of_scored(probs, labels, weight[0]), count)

        def by_counts(start: jax.Array) -> jax.Array:
            return move_shares(start, shares_of_counted(counts), count)

        def fitted(fit: Fit) -> jax.Array:
            return jax.vmap(lambda rows, weight: fit(rows, labels, weight).bias)(rows, weight)

        of_one = (
            jax.vmap(by_counts)(start_of_one),
            jax.vmap(by_rows)(start_of_one, probs_of_one),
            jax.vmap(by_rows)(equal, from_equal),
        )
        return jnp.stack([
            found.shifts,
            fitted(prior_counted().fit),
            match_all(rows, by_counts(start), weight),
            fitted(learn),
            match_all(rows, by_rows(start, probs), weight),
            likely,
            *(match_each(rows, shares, weight) for shares in of_one),
        ])  # fmt: skip

    return jax.lax.map(of_draw, masks)

"""Rules for a recommendation, each on contexts with right labels: what is gained, who is harmed."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_softmax

from batch_calibration.calibration.base import predict
from batch_calibration.calibration.empirical_bayes import (
    LEAST_INFORMATION,
    confidence,
    information,
    likely_shift,
)
from batch_calibration.calibration.matching import match
from batch_calibration.calibration.shift import least_shares
from batch_calibration.diagnosis import expected_gain, fit_label_scores
from batch_calibration.diagnosis.experience import promised_gain
from batch_calibration.diagnosis.gain import LabelScores
from batch_calibration.diagnosis.recommend import LIKELY, TO_SHARES, WITH_LABELS, choose_by_labels
from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, Evidence, gather
from batch_calibration.metrics import gain_interval
from batch_calibration.scores import ScoreTable
from experiments.evidence.statistics import mcnemar

BASELINE, ALWAYS, WEAKER, OLD, SHARES = "icl", "bc", "bc x 0.75", "old rule", "true shares"
RULES = (ALWAYS, WEAKER, OLD, LIKELY, SHARES)
"""Rules without labels; the last gets the true shares, and is no method."""
POWERS, SHARE_WEIGHTS, BIAS_SCALES = (1.0, 2.0, 3.0), (0.3, 1.0, 3.0), (0.7, 1.0, 1.5)
GRID = np.array(list(product(POWERS, SHARE_WEIGHTS, BIAS_SCALES)), np.float32)
"""[27, 3]: constants of the empirical-Bayes shift that were tried."""
DEFAULT = POWERS.index(2.0) * 9 + SHARE_WEIGHTS.index(1.0) * 3 + BIAS_SCALES.index(1.0)
"""Which of them are the method's."""
LAW = "bc x the law's strength"
STRENGTHS = np.linspace(0, 1, 11)
HARMED = 0.05
"""A context is harmed if a rule loses rows with a p-value below this (McNemar, exact)."""
LEAST_ROWS, MOST_SEEN = 150, 1024
"""A context's rows from which labeled ones are drawn; unlabeled rows that choose with them."""


class Outcome(NamedTuple):
    """Outcome of a rule in a context: the gain in points, and whether it is harmed."""

    gain: float
    is_harmed: bool


class Trial(NamedTuple):
    """A context without labels.

    Attributes:
        accuracy: of the scores as they are, in percent.
        outcomes: rule -> what it does.
        grid: for each line of `GRID`, what it does.
        promised: method -> the promised gain in points.
    """

    accuracy: float
    outcomes: dict[str, Outcome]
    grid: list[Outcome]
    promised: dict[str, float]


class LabeledTrial(NamedTuple):
    """A context with labeled rows.

    Attributes:
        method: what is recommended.
        outcomes: method -> what it does to the other rows; "recommended" among them.
        stated: the accuracy that the recommendation states, less the true one, in points.
        holds: whether the interval of the stated gain holds the true one.
    """

    method: str
    outcomes: dict[str, Outcome]
    stated: float
    holds: bool


def gains(outcomes: Sequence[Outcome]) -> list[float]:
    """The gain of each outcome, in points."""
    return [outcome.gain for outcome in outcomes]


def outcome(before: np.ndarray, after: np.ndarray) -> Outcome:
    """Changes between two arrays [n] of whether a row is right."""
    won, lost = (after & ~before).sum(), (before & ~after).sum()
    is_harmed = lost > won and float(mcnemar(won, lost)) < HARMED
    return Outcome(100 * float(won - lost) / len(before), bool(is_harmed))


def try_rules(table: ScoreTable) -> Trial:
    """Every rule without labels on one context."""
    test = table.blocks["test"]
    rows, gold = log_softmax(np.asarray(test.log_probs, np.float64), axis=1), test.labels
    shares = np.bincount(gold, minlength=rows.shape[1]) / len(gold)
    padded, weight = pad(rows, _size(len(rows)))
    shifts, matched = map(partial(np.asarray, dtype=np.float64), _shifts(padded, weight, shares))
    mean = rows.mean(axis=0)
    bias_of_rule = {
        ALWAYS: mean, WEAKER: 0.75 * mean, OLD: old_rule(rows), LIKELY: shifts[DEFAULT],
        SHARES: matched,
    }  # fmt: skip
    before = rows.argmax(axis=1) == gold

    def outcome_of(bias: np.ndarray) -> Outcome:
        return outcome(before, (rows - bias).argmax(axis=1) == gold)

    promised = {
        LIKELY: promised_gain(rows, rows - shifts[DEFAULT]),
        TO_SHARES: promised_gain(rows, rows - matched),
    }
    outcomes = {rule: outcome_of(bias) for rule, bias in bias_of_rule.items()}
    return Trial(100 * before.mean(), outcomes, [*map(outcome_of, shifts)], promised)


def _size(rows: int) -> int:
    """The next power of two, so that few programs are compiled."""
    return max(128, 1 << (rows - 1).bit_length())


def pad(rows: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows [size, k], the added ones of weight 0, and the weights [size]."""
    padded = np.zeros((size, rows.shape[1]), np.float32)
    padded[: len(rows)] = rows
    return padded, (np.arange(size) < len(rows)).astype(np.float32)


@jax.jit
def _shifts(rows: jax.Array, weight: jax.Array, shares: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The shift of each line of `GRID` [27, k], and the one that matches shares [k]."""
    ratio = confidence(rows, weight)
    tells = information(rows, weight) >= LEAST_INFORMATION

    def shift(constants: jax.Array) -> jax.Array:
        expected = ratio ** constants[0]
        return likely_shift(
            rows, weight, expected / expected.sum(), share_weight=constants[1],
            bias_scale=constants[2],
        )  # fmt: skip

    matched = match(rows, least_shares(shares.astype(jnp.float32)), weight)
    return jnp.where(tells, jax.vmap(shift)(jnp.asarray(GRID)), 0.0), matched


def old_rule(rows: np.ndarray) -> np.ndarray:
    """The bias [k] that the rule before this one subtracted, which had four thresholds.

    None where there are few rows, the preference may be noise or rows tell little; else BC's, with
    a prior that leaves labels of little confidence the share that is predicted for them.
    """
    n, k = rows.shape
    mean = rows.mean(axis=0)
    margin = rows[:, mean.argmax()] - rows[:, mean.argmin()]
    if n < 50 or np.ptp(mean) <= 2 * margin.std(ddof=1) / np.sqrt(n):
        return np.zeros(k)
    log_after = log_softmax(rows - mean, axis=1)
    after = np.exp(log_after)
    if (after * (log_after - np.log(after.mean(axis=0)))).sum(axis=1).mean() < 0.05:
        return np.zeros(k)
    label_of_row, sureness = after.argmax(axis=1), after.max(axis=1)
    counts = np.bincount(label_of_row, minlength=k)
    sums = np.bincount(label_of_row, sureness, minlength=k)
    with np.errstate(invalid="ignore", divide="ignore"):
        is_doubtful = (sums / counts) / ((sums.sum() - sums) / (n - counts)) < 0.9
    predicted = np.bincount(rows.argmax(axis=1), minlength=k) + 1.0
    prior = np.where(is_doubtful, np.minimum(predicted / predicted.sum(), 1 / k), 0.0)
    prior[~is_doubtful] = (1 - prior.sum()) / (~is_doubtful).sum()
    return np.asarray(mean - np.log(prior))


def try_labeled(table: ScoreTable, labeled: int, random: np.random.Generator) -> LabeledTrial:
    """The recommendation with labels on one context, judged on all rows that were not labeled."""
    test = table.blocks["test"]
    order = random.permutation(len(test.labels))
    drawn, judged = order[:labeled], np.sort(order[labeled:])
    rows, gold = np.asarray(test.log_probs, np.float32), np.asarray(test.labels)
    labeled_rows = Evidence(rows[drawn], gold[drawn])
    # Contexts of many labels have each a number of their own: padding saves no program.
    size = _size(len(judged)) if rows.shape[1] <= 10 else len(judged)
    padded, weight = pad(rows[judged], size)
    seen, seen_weight = pad(rows[judged[:MOST_SEEN]], min(size, MOST_SEEN))
    blocks = {"test": Evidence(seen, weight=seen_weight), "labeled": labeled_rows}
    choice = choose_by_labels(blocks, WITH_LABELS, {})
    blocks["test"] = Evidence(padded, weight=weight)
    hits = {}
    for name in choice.hits:
        hits[name] = np.asarray(_predicted(blocks, name=name))[: len(judged)] == gold[judged]
    outcomes = {name: outcome(hits[BASELINE], hit) for name, hit in hits.items()}
    strength = law_strength(rows[drawn], gold[drawn], len(judged))
    bias = strength * rows[judged].mean(axis=0)
    outcomes[LAW] = outcome(hits[BASELINE], (rows[judged] - bias).argmax(axis=1) == gold[judged])
    chosen = outcomes["recommended"] = outcomes[choice.method]
    before, after = choice.hits[BASELINE], choice.held_out
    low, high = gain_interval((after & ~before).sum(), (before & ~after).sum(), labeled)
    stated = 100 * float(choice.held_out.mean() - hits[choice.method].mean())
    is_held = bool(100 * low <= chosen.gain <= 100 * high)
    return LabeledTrial(choice.method, outcomes, stated, is_held)


def law_strength(rows: np.ndarray, gold: np.ndarray, unlabeled: int) -> float:
    """The strength of BC with the largest gain by the law, whose numbers few labeled rows give.

    Returns:
        A member of `STRENGTHS`; 0 where the rows are too few for the law's numbers.
    """
    k = rows.shape[1]
    try:
        scores = fit_label_scores(rows, gold)
    except InputError:
        return 0.0
    counts = np.bincount(gold, minlength=k) + 1.0  # Laplace's rule
    share = jnp.asarray(counts / counts.sum(), jnp.float32)
    return float(STRENGTHS[int(np.argmax(_gains_by_strength(scores, share, unlabeled)))])


@jax.jit
def _gains_by_strength(scores: LabelScores, share: jax.Array, rows: float) -> jax.Array:
    """The expected gain at each of `STRENGTHS`."""
    return jax.lax.map(
        lambda strength: expected_gain(scores, share, rows, strength=strength),
        jnp.asarray(STRENGTHS),
    )


@partial(jax.jit, static_argnames="name")
def _predicted(blocks: Mapping[str, Evidence], *, name: str) -> jax.Array:
    method = METHODS[name]
    fit, apply = method.make()
    return predict(apply(fit(*gather(method, blocks)), jnp.asarray(blocks["test"].log_probs)))


def spread_evenly(tables: Sequence[ScoreTable], most: int) -> list[ScoreTable]:
    """So many contexts at most that have rows enough to label some, evenly from first to last."""
    large = [table for table in tables if len(table.blocks["test"].labels) >= LEAST_ROWS]
    if not large:
        return []
    chosen = np.unique(np.linspace(0, len(large) - 1, most).round().astype(int))
    return [large[number] for number in chosen]

"""Averages over orders of the options: each option's mean score over the places it stood in."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration.base import Calibrator, ProbeScores, label_normalized, weights_of
from batch_calibration.calibration.matching import prior_matching
from batch_calibration.calibration.shift import log_mean_prob, mean_log_prob, no_shift, shift
from batch_calibration.errors import InputError
from batch_calibration.typing import AnyArray, Bias, ProbeRows, Rows, Scores, Weight


class Orders(NamedTuple):
    """The state of `order_average`: the rows; the number to correct decides how many orders.

    Attributes:
        rows: [n o, k], the o orders of each question in sequence, in nats.
        weight: [n o].
    """

    rows: ProbeRows
    weight: Weight


def option_places(orders: int, k: int) -> np.ndarray | None:
    """Where option c of the first order stands in order r, [orders, k].

    All k cyclic orders: in order r, place j has the option of place j + r. Two orders: as they are,
    and the last option first. Any other number is no set of orders that is known: None.

    >>> option_places(2, 3).tolist()
    [[0, 1, 2], [2, 1, 0]]
    >>> option_places(3, 3).tolist()
    [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    """
    options = np.arange(k)
    if orders == k:
        return (options[None, :] - np.arange(k)[:, None]) % k
    if orders == 2:
        return np.stack([options, options[::-1]])
    return None


def by_option(log_probs: AnyArray, rows: int) -> jax.Array | None:
    """Scores of places [n o, k] as scores of options [n, o, k], in the columns of the first order.

    None where the rows are neither two nor k for each of the n questions.

    >>> by_option(jnp.array([[-1.0, -3.0], [-2.0, -2.5]]), 1).tolist()
    [[[-1.0, -3.0], [-2.5, -2.0]]]
    """
    total, k = log_probs.shape
    places = option_places(total // rows, k) if rows and total % rows == 0 else None
    if places is None:
        return None
    by_place = jnp.asarray(log_probs).reshape(rows, -1, k)
    return jnp.take_along_axis(by_place, jnp.asarray(places)[None], axis=-1)


def _averaged(correction: Calibrator) -> Calibrator:
    """Averages over orders, then the correction, which learns from the averages."""

    def learn(probe: ProbeScores) -> Orders:
        weights = probe.weights
        # An absent row may hold NaN.
        return Orders(jnp.where(weights[:, None] > 0, probe.log_probs, 0.0), weights)

    def apply(state: Orders, log_probs: Rows, /) -> Scores:
        scores = jnp.asarray(log_probs)
        options = by_option(state.rows, len(scores))
        if options is None:
            return scores
        # A mean over some of the places would lean to them: a question needs all of its orders.
        weights = jnp.min(state.weight.reshape(options.shape[:2]), axis=1)  # [n]
        averages = jnp.where(weights[:, None] > 0, jnp.mean(options, axis=1), scores)
        return correction.apply(correction.fit(averages, None, weights), averages)

    return Calibrator.of(learn, apply)


def order_average() -> Calibrator:
    """The mean over orders of an option's log-probability: a_ic = mean_r s_ir,place(r, c).

    Each question stands o times in a row, its options in another order each time, the first the
    order of the row to correct (see `option_places`). With all k cyclic orders each option stood
    once in each place, so that what a model prefers among places is gone from every row, whatever
    the questions; what it prefers among the options themselves is not. A pairwise judge
    has two: the log-odds of k = 2 are
    (s_A,first - s_B,second + s_A,second - s_B,first) / 2.

    Corrects the rows whose orders it was fitted to, in their order. A question that lacks one of
    its orders keeps its own scores, as all rows do where the rows fitted to are no 2 n or k n.
    Source: the mean over cyclic permutations with which Zheng et al. 2024, arXiv:2309.03882,
    compare PriDe; theirs is of probabilities.

    >>> fit, apply_ = order_average()
    >>> apply_(fit(jnp.array([[-1.0, -3.0], [-2.0, -2.5]])), jnp.array([[-1.0, -3.0]])).tolist()
    [[-1.75, -2.5]]
    """
    return _averaged(no_shift())


def order_average_bc(
    *, strength: float = 1.0, target_prior: Sequence[float] | None = None
) -> Calibrator:
    """Averages over orders, then BC: a_ic - gamma mean_i a_ic (+ gamma log pi_c).

    For options that are the same in all questions, such as yes and no: what the averages leave is
    what the model prefers among these.

    Args:
        strength: gamma; 0 is `order_average`.
        target_prior: the share of each of the k options one expects, in the columns' order.

    >>> fit, apply_ = order_average_bc()
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.0, -1.0], [-1.0, -1.0]])
    >>> apply_(fit(rows), rows[::2]).tolist()
    [[-0.375, -0.75], [0.375, 0.75]]
    """
    bc = shift(estimate=mean_log_prob, strength=strength, target_prior=target_prior)
    return _averaged(bc)


def order_average_prior(
    *, rounds: int = 0, target_prior: Sequence[float] | None = None
) -> Calibrator:
    """Averages over orders, then `prior_matching`: the mean prediction becomes the prior.

    Args:
        rounds: as in `prior_matching`.
        target_prior: the share of each of the k options one expects, by default equal ones.

    >>> fit, apply_ = order_average_prior()
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.0, -1.0], [-1.0, -1.0]])
    >>> jax.nn.softmax(apply_(fit(rows), rows[::2])).mean(axis=0).round(3).tolist()
    [0.5, 0.5]
    """
    return _averaged(prior_matching(rounds=rounds, target_prior=target_prior))


def option_prior(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """The log of the mean over questions of softmax_j(mean over permutations of log P_j), [k].

    Each question stands k times in a row, its options' contents moved round, so that each content
    was once in each place: what the mean of log P says of a place is not its content's. P is
    normalized over the labels. Source: Zheng et al. 2024, arXiv:2309.03882, and their code
    (chujiezheng/LLM-MCQ-Bias, `debias_utils.simple`), which adds 1e-10 before each log. There the
    permuted questions themselves are answered by the mean over their permutations; here they are
    corrected as all others are.

    Args:
        log_probs: [q k, k] in nats, k rows of a question in sequence.
        weight: [q k]; a question counts as its least present permutation does.

    Raises:
        InputError: rows that are no whole number of questions.

    >>> option_prior(jnp.array([[-1.0, -3.0], [-3.0, -3.0]])).round(2).tolist()
    [-0.3100000023841858, -1.309999942779541]
    """
    rows, k = log_probs.shape
    if rows % k:
        raise InputError(
            f"PriDe learns from questions that appear {k} times in a row, once for each place of "
            f"their {k} options; got {rows} rows: give {k} rows a question."
        )
    weights = weights_of(log_probs, weight)
    present = jnp.where(weights[:, None] > 0, log_probs, 0.0)
    # [question, permutation, place]
    by_question = label_normalized(present).reshape(-1, k, k)
    priors = jax.nn.log_softmax(jnp.mean(by_question, axis=1), axis=-1)
    return log_mean_prob(priors, jnp.min(weights.reshape(-1, k), axis=1))

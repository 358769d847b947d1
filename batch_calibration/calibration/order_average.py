"""Averages over orders of the options: the mean score of each option over its places."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration.base import Calibrator, ProbeScores, label_normalized, weights_of
from batch_calibration.calibration.matching import prior_matching
from batch_calibration.calibration.shift import log_mean_prob, mean_log_prob, no_shift, shift
from batch_calibration.errors import InputError
from batch_calibration.typing import AnyArray, Bias, Prior, ProbeRows, Rows, Scores, Weight


class Orders(NamedTuple):
    """The state of `order_average`: all rows, as the number of orders is known only in `apply`.

    Attributes:
        rows: [n o, k], the o orders of each question in sequence, in nats.
        weight: [n o].
    """

    rows: ProbeRows
    weight: Weight


def option_places(orders: int, k: int) -> np.ndarray | None:
    """Returns the place of option c of the first order in order r, [orders, k].

    k orders are all cyclic orders: in order r, place j has the option of place j + r. Two orders
    are the first order and its reverse. For any other number the result is None.

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
    """Converts scores of places [n o, k] to scores of options [n, o, k], as in the first order.

    Without two or k rows for each of the n questions, the result is None.

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
    """Returns a calibrator that averages over orders and then corrects the averages."""

    def learn(probe: ProbeScores) -> Orders:
        weights = probe.weights
        # An absent row may hold NaN.
        return Orders(jnp.where(weights[:, None] > 0, probe.log_probs, 0.0), weights)

    def apply(state: Orders, log_probs: Rows, /) -> Scores:
        scores = jnp.asarray(log_probs)
        options = by_option(state.rows, len(scores))
        if options is None:
            return scores
        # A mean over only some places would be biased toward them, so all orders are needed.
        weights = jnp.min(state.weight.reshape(options.shape[:2]), axis=1)  # [n]
        averages = jnp.where(weights[:, None] > 0, jnp.mean(options, axis=1), scores)
        return correction.apply(correction.fit(averages, None, weights), averages)

    return Calibrator.of(learn, apply)


def order_average() -> Calibrator:
    """Averages each option's log-probability over orders: a_ic = mean_r s_ir,place(r, c).

    The probe has o consecutive rows per question, each with the options in a different order. The
    first is the order of the row to correct (see `option_places`). With all k cyclic orders, each
    option is once in each place, so that a preference for places cancels in every row. A preference
    for the options themselves remains. A pairwise judge has two orders: the log-odds for k = 2 are
    (s_A,first - s_B,second + s_A,second - s_B,first) / 2.

    The rows to correct are the questions of the probe, in the same order. A question without all
    its orders keeps its scores. All rows keep them if the probe has neither 2 n nor k n rows.
    Source: the mean over cyclic permutations that Zheng et al. 2024, arXiv:2309.03882, compare with
    PriDe; they average probabilities.

    >>> fit, apply_ = order_average()
    >>> apply_(fit(jnp.array([[-1.0, -3.0], [-2.0, -2.5]])), jnp.array([[-1.0, -3.0]])).tolist()
    [[-1.75, -2.5]]
    """
    return _averaged(no_shift())


def order_average_bc(*, strength: float = 1.0, target_prior: Prior | None = None) -> Calibrator:
    """Averages over orders, then applies BC: a_ic - gamma mean_i a_ic (+ gamma log pi_c).

    It suits options that are the same in all questions, such as yes and no: the averages still
    contain the model's preference among these options.

    Args:
        strength: gamma; 0 is `order_average`.
        target_prior: pi, the expected share of each of the k options, in the order of columns.

    >>> fit, apply_ = order_average_bc()
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.0, -1.0], [-1.0, -1.0]])
    >>> apply_(fit(rows), rows[::2]).tolist()
    [[-0.375, -0.75], [0.375, 0.75]]
    """
    bc = shift(estimate=mean_log_prob, strength=strength, target_prior=target_prior)
    return _averaged(bc)


def order_average_prior(*, rounds: int = 0, target_prior: Prior | None = None) -> Calibrator:
    """Averages over orders, then applies `prior_matching`: the mean prediction becomes the prior.

    Args:
        rounds: as in `prior_matching`.
        target_prior: pi, the expected share of each of the k options, by default equal shares.

    >>> fit, apply_ = order_average_prior()
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.0, -1.0], [-1.0, -1.0]])
    >>> jax.nn.softmax(apply_(fit(rows), rows[::2])).mean(axis=0).round(3).tolist()
    [0.5, 0.5]
    """
    return _averaged(prior_matching(rounds=rounds, target_prior=target_prior))


def option_prior(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """Estimates PriDe's prior over option places, [k].

    It is the log of the mean over questions of softmax_j(mean over permutations of log P_j). Each
    question has k consecutive rows, with its options permuted cyclically, so that each option is
    once in each place. The mean of log P then depends on the place and not on the option. P is
    normalized over the labels. Source: Zheng et al. 2024, arXiv:2309.03882, and their code
    (chujiezheng/LLM-MCQ-Bias, `debias_utils.simple`), which adds 1e-10 before each log. Their code
    answers the permuted questions by the mean over permutations; here they are corrected like all
    other questions.

    Args:
        log_probs: [q k, k] in nats, k consecutive rows for each question.
        weight: [q k]; the weight of a question is the lowest of its permutations.

    Raises:
        InputError: a number of rows that is not a multiple of k.

    >>> option_prior(jnp.array([[-1.0, -3.0], [-3.0, -3.0]])).round(2).tolist()
    [-0.3100000023841858, -1.309999942779541]
    """
    rows, k = log_probs.shape
    if rows % k:
        expected = f"questions with {k} consecutive rows, one for each place of their {k} options"
        raise InputError.at("pride", expected, f"{rows} rows", f"give {k} rows per question")
    weights = weights_of(log_probs, weight)
    present = jnp.where(weights[:, None] > 0, log_probs, 0.0)
    # [question, permutation, place]
    by_question = label_normalized(present).reshape(-1, k, k)
    priors = jax.nn.log_softmax(jnp.mean(by_question, axis=1), axis=-1)
    return log_mean_prob(priors, jnp.min(weights.reshape(-1, k), axis=1))

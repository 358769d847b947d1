"""PriDe's estimate: what a model prefers among option letters whatever the options say."""

import jax
import jax.numpy as jnp

from batch_calibration.calibration.base import label_normalized, weights_of
from batch_calibration.calibration.shift import log_mean_prob
from batch_calibration.errors import InputError
from batch_calibration.typing import Bias, ProbeRows, Weight


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

"""OTTER: the labels that optimal transport gives to rows when each has so many to give."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from batch_calibration.calibration.base import Calibrator, favored
from batch_calibration.calibration.matching import given_shares, match, matched
from batch_calibration.typing import Bias, Count, ProbeRows, Weight


def otter(*, target_prior: Sequence[float] | None = None) -> Calibrator:
    """Predicts argmax_j T_ij, T the optimal transport of rows to labels of shares pi.

    T >= 0 is least in sum_ij T_ij (-log P_ij) where rows sum to 1/n and columns to pi. By duality
    a row goes where log P_ij + v_j is largest, v the potentials of the columns: a bias b = -v that
    is subtracted, and after which pi are the shares of *predictions*. It is prior matching in the
    limit of temperature 0, mean_i softmax((s_i - b) / t) = pi, and is sought at t = 1e-5 standard
    deviations of the scores. Rows beyond float32's reach of each other, equal ones above all, get
    one label, which a plan may split.

    Source: Shin et al. 2024, arXiv:2404.08461, algorithm 1. The published code
    normalizes P over labels, which moves a row's costs alike and so no plan, and adds 1e-6 to P,
    which does for labels below -13.8 nats; as the paper we do not.

    Args:
        target_prior: pi, the share of each of the k labels one expects, by default equal ones; 0
            for a label that is never right counts as 1e-4.

    >>> import jax.numpy as jnp
    >>> fit, apply_ = otter()
    >>> rows = jnp.array([[-1.0, -3.0], [-1.0, -2.5], [-1.0, -1.5], [-1.0, -1.2]])
    >>> jnp.argmax(apply_(fit(rows), rows), axis=-1).tolist()
    [0, 0, 1, 1]
    """
    return matched(given_shares(target_prior), transport)


def transport(log_probs: ProbeRows, shares: Bias, weight: Weight) -> Bias:
    """The bias after which predictions have the shares: the potentials of optimal transport.

    Any bias does that keeps b_j - b_l at least s_ij - s_il for each row i predicted l. The middle
    of these is taken: for each label r the least with b_r = 0 and the greatest, and their mean. It
    depends on nothing but the predictions, and is as far from changing one as it can be.
    """
    matched_bias = match(log_probs, shares, weight, hard=True)
    # Without the bias found, of equal rows nothing is left, to the last bit.
    corrected = jnp.asarray(log_probs) - matched_bias
    predicted = favored(corrected)
    behind = corrected - jnp.take_along_axis(corrected, predicted[:, None], axis=1)
    behind = jnp.where(jnp.asarray(weight)[:, None] > 0, behind, -jnp.inf)
    # [l, j]: how close label j comes to label l among the rows predicted l, in nats below 0.
    most = jax.ops.segment_max(behind, predicted, len(shares)).T
    # A label that is not predicted stays where it is found.
    distances = jnp.where(jnp.isfinite(most), most, 0.0)

    def through(label: Count, distances: jax.Array) -> jax.Array:
        return jnp.maximum(distances, distances[:, label, None] + distances[label])

    # Longest paths between labels, as Floyd and Warshall find shortest ones.
    distances = jax.lax.fori_loop(0, len(shares), through, distances)
    middle = (jnp.mean(distances, axis=1) - jnp.mean(distances, axis=0)) / 2
    return matched_bias + (middle - jnp.mean(middle))

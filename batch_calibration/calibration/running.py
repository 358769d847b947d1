"""BC for a stream of rows: a running mean that can be updated and merged."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays.numbers import read_rows
from batch_calibration.calibration.base import Calibrator, ProbeScores, weighted_mean, weights_of
from batch_calibration.calibration.shift import Shift, apply, log_target
from batch_calibration.errors import InputError
from batch_calibration.typing import Bias, Count, Prior, ProbeRows, Rows, Scores, Weight


class Running(NamedTuple):
    """A mean and its count; with `merge` and `empty`, a monoid.

    Attributes:
        mean: the mean log-probability of each label so far, in nats.
        count: the number of rows (or mini-batches) seen. It is an integer, because a float32 count
            stops at 2**24. It stops at 2**31 - 1, and later rows still move the mean.
        rest: the sum of rounding errors of the mean so far, in nats.
    """

    mean: Bias
    count: Count  # type: ignore[assignment]  # hides tuple.count, which nobody calls here
    rest: Bias


def empty(labels: int) -> Running:
    """Returns the estimate before the first row: zero bias and zero count."""
    return Running(jnp.zeros(labels), jnp.int32(0), jnp.zeros(labels))


def merge(first: Running, second: Running, /) -> Running:
    """Combines two estimates: mean + (mean' - mean) count' / (count + count').

    This is Chan's pairwise update with Neumaier's compensated sum: the float32 rounding error of
    the mean is kept in `rest` and added to the next step. After a million single rows of mean -1000
    nats the mean is 2.5e-5 from the float64 mean, which is less than half a unit in its last place.
    Without `rest` the distance is 6.9e-3
    (`test_single_rows_far_from_zero_do_not_drift` of `tests/calibration/` with 1,000,000 rows).

    >>> one, three = update(empty(1), [[1.0]]), update(empty(1), [[2.0], [4.0], [6.0]])
    >>> merge(one, three).mean.tolist()
    [3.25]
    """
    # The share is accurate enough in float32; only the count must not be rounded.
    counts = first.count.astype(jnp.float32), second.count.astype(jnp.float32)
    share = counts[1] / jnp.maximum(counts[0] + counts[1], 1.0)
    step = ((second.mean - first.mean) + (second.rest - first.rest)) * share + first.rest
    mean = first.mean + step
    # Knuth's two-sum, which is exact for either order of magnitudes.
    moved = mean - first.mean
    rest = (first.mean - (mean - moved)) + (step - moved)
    # After an overflow, int32 is smaller than before: the count stays at the largest int32.
    total = first.count + second.count
    full = jnp.int32(np.iinfo(np.int32).max)
    return Running(mean, jnp.where(total < first.count, full, total), rest)


def update(
    state: Running,
    log_probs: ArrayLike,
    weight: ArrayLike | None = None,
    /,
    *,
    per_batch: bool = False,
) -> Running:
    """Updates the estimate with one more mini-batch (eq. 3).

    Args:
        state: the estimate so far.
        log_probs: [m k], the mini-batch, in nats.
        weight: [m], integers: 0 is absent, 2 counts twice.
        per_batch: True gives each mini-batch equal weight, n/(n+1) and 1/(n+1), as in eq. 3. False
            gives each row equal weight, so that the mean does not depend on the batches.
    """
    rows, _, weights = read_rows(log_probs, None, weight)
    seen = jnp.sum(weights_of(rows, weights)).astype(jnp.int32)
    count = jnp.minimum(seen, 1) if per_batch else seen
    mean = weighted_mean(rows, weights)
    return merge(state, Running(mean, count, jnp.zeros_like(mean)))


class Stream(NamedTuple):
    """The estimate after each mini-batch of a stream, and the mini-batch of each row.

    Attributes:
        means: [b k], in nats; the last is the mean of all rows.
        batch_of_row: [m], the index of its mini-batch; an absent row has the index of the last
            present row before it.
    """

    means: Rows
    batch_of_row: jax.Array


@partial(jax.jit, static_argnames=("batch_size", "per_batch"))
def stream(
    state: Running,
    log_probs: ProbeRows,
    weight: Weight | None = None,
    *,
    batch_size: int,
    per_batch: bool = False,
) -> tuple[Running, Running]:
    """Updates an estimate with rows in mini-batches, in order.

    Returns:
        The last estimate, and the estimates after each mini-batch (on a leading axis).
    """
    rows, labels = log_probs.shape
    missing = -rows % batch_size  # rows that fill the last mini-batch, with weight 0
    padded = jnp.pad(jnp.asarray(log_probs), ((0, missing), (0, 0)))
    weights = jnp.pad(weights_of(log_probs, weight), (0, missing))

    def step(seen: Running, batch: tuple[jax.Array, jax.Array]) -> tuple[Running, Running]:
        updated = update(seen, *batch, per_batch=per_batch)
        return updated, updated

    batches = padded.reshape(-1, batch_size, labels), weights.reshape(-1, batch_size)
    last, estimates = jax.lax.scan(step, state, batches)
    return last, estimates


def running_shift(
    *,
    batch_size: int = 32,
    per_batch: bool = False,
    strength: float = 1.0,
    target_prior: Prior | None = None,
) -> Calibrator:
    """Subtracts the running mean b up to and including the row's mini-batch: s - gamma b.

    Source: Zhou et al. 2024, eq. 3. After n mini-batches, the next mini-batch with mean c updates
    the estimate to b <- n / (n + 1) b + 1 / (n + 1) c (weighted by rows unless `per_batch` is set).
    Its rows are corrected with this b. `fit` reads the whole stream, and `apply` corrects the same
    rows in the same order. Additional rows are corrected with the last estimate, the mean of all
    rows, as in `bc`. Absent rows are in no mini-batch. A row of weight 2 is one row of a mini-batch
    and counts twice.

    Args:
        batch_size: the number of rows in a mini-batch; the last may have fewer. With a small number
            the first predictions are rough, because their bias is learned from few rows.
        per_batch: True gives mini-batches equal weight instead of rows (see `update`).
        strength: gamma.
        target_prior: pi, the expected share of each of the k labels; the bias becomes b - log pi.

    Raises:
        InputError: batch_size below 1.

    >>> fit, apply_ = running_shift(batch_size=1)
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.0]])
    >>> apply_(fit(rows), rows).tolist()
    [[0.0, 0.0], [-0.5, 0.5]]
    """
    if batch_size < 1:
        expected = "at least 1 row in each mini-batch"
        raise InputError.at("batch_size", expected, batch_size, "give one such as batch_size=32")

    def learn(probe: ProbeScores) -> Stream:
        present = probe.weights > 0
        # Present rows first, in their order, so that absent rows leave no gap in a mini-batch.
        order = jnp.argsort(~present, stable=True)
        rows, weight = probe.log_probs[order], probe.weights[order]
        start = empty(rows.shape[-1])
        _, seen = stream(start, rows, weight, batch_size=batch_size, per_batch=per_batch)
        number = jnp.cumsum(present.astype(jnp.int32)) - 1
        return Stream(seen.mean, jnp.maximum(number, 0) // batch_size)

    def apply_so_far(state: Stream, log_probs: Rows, /) -> Scores:
        later = max(log_probs.shape[0] - state.batch_of_row.shape[0], 0)
        last = state.means.shape[0] - 1
        batch_of_row = jnp.pad(state.batch_of_row, (0, later), constant_values=last)
        means = state.means[batch_of_row[: log_probs.shape[0]]]
        return apply(Shift(means - log_target(target_prior), jnp.float32(strength)), log_probs)

    return Calibrator.of(learn, apply_so_far)

"""BC as the last layer of a Flax network: its bias is a running estimate, kept as by BatchNorm."""

import jax.numpy as jnp
from flax import nnx
from numpy.typing import ArrayLike

from batch_calibration.arrays.numbers import read_rows
from batch_calibration.calibration import running, shift
from batch_calibration.calibration.running import Running
from batch_calibration.typing import Scores


class BatchCalibration(nnx.Module):
    """Subtracts the running mean log-probability of each label: s_ij - gamma b_j (eq. 3 and 4).

    It is called, trained and evaluated as `nnx.BatchNorm` is. While training (`train()`, the
    default) each call takes its batch into the estimate, which it keeps in `nnx.BatchStat`
    variables, and corrects the batch with it, as the causal stream does; in evaluation (`eval()`)
    the estimate stays as it is. Under `nnx.jit` the variables change as they do outside. It
    corrects one context at a time: `recommend_together` pools the label shares of several, which a
    running mean cannot. Under plain `jax.jit` variables are arguments and results, as in every
    layer with statistics:

        graph, state = nnx.split(layer)

        @jax.jit
        def step(state, log_probs):
            layer = nnx.merge(graph, state)
            return layer(log_probs), nnx.state(layer)

        scores, state = step(state, log_probs)
        nnx.update(layer, state)

    Unlike BatchNorm's, the estimate is the mean of all rows seen (eq. 3) and no moving average, so
    there is no momentum. Two devices' estimates become one by
    `batch_calibration.calibration.running.merge`, and `remember` puts it back.

    Args:
        labels: k.
        strength: gamma.
        per_batch: mini-batches weigh alike, as eq. 3 says literally, instead of rows.
        use_running_average: whether the estimate stays as it is; `train()` and `eval()` set it.

    >>> layer = BatchCalibration(2)
    >>> layer(jnp.array([[-1.0, -3.0], [-2.0, -2.5]])).tolist(), layer.seen.count.item()
    ([[0.5, -0.25], [-0.5, 0.25]], 2)
    >>> layer.eval()
    >>> layer(jnp.array([[-1.0, -3.0]])).tolist(), layer.seen.count.item()
    ([[0.5, -0.25]], 2)
    """

    def __init__(
        self,
        labels: int,
        *,
        strength: float = 1.0,
        per_batch: bool = False,
        use_running_average: bool = False,
    ):
        start = running.empty(labels)
        self.mean = nnx.BatchStat(start.mean)
        self.count = nnx.BatchStat(start.count)
        self.rest = nnx.BatchStat(start.rest)
        self.strength = strength
        self.per_batch = per_batch
        # The name by which nnx's train(), eval() and view() know layers with running statistics.
        self.use_running_average = use_running_average

    @property
    def seen(self) -> Running:
        """The estimate the layer holds."""
        return Running(self.mean[...], self.count[...], self.rest[...])

    def remember(self, seen: Running) -> None:
        """Replaces the estimate the layer holds."""
        self.mean[...] = seen.mean
        self.count[...] = seen.count
        self.rest[...] = seen.rest

    def __call__(
        self,
        log_probs: ArrayLike,
        use_running_average: bool | None = None,
        *,
        weight: ArrayLike | None = None,
    ) -> Scores:
        """The corrected scores [m k] of a batch.

        Args:
            log_probs: [m k], in nats.
            use_running_average: for this call, whether the estimate stays as it is; None for what
                `train()` or `eval()` set.
            weight: [m]; rows of weight 0 do not enter the estimate.
        """
        rows, _, weights = read_rows(log_probs, None, weight)
        seen = self.seen
        if use_running_average is None:
            use_running_average = self.use_running_average
        if not use_running_average:
            # The batch itself included.
            seen = running.update(seen, rows, weights, per_batch=self.per_batch)
            self.remember(seen)
        return shift.apply(shift.Shift(seen.mean, jnp.float32(self.strength)), rows)

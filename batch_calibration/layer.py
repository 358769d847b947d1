"""BC as the last layer of a Flax network: its bias is a running estimate that it hands back."""

import jax
from flax import nnx
from numpy.typing import ArrayLike

from batch_calibration.arrays import read_rows
from batch_calibration.calibration import running, shift
from batch_calibration.calibration.running import Running
from batch_calibration.typing import Scores


class BatchCalibration(nnx.Module):
    """Subtracts the running mean log-probability of each label: s_ij - gamma b_j (eq. 2 and 3).

    While training (`layer.train()`, the default) the bias takes in each batch before it corrects
    it, as the causal stream does. In evaluation (`layer.eval()`) the bias stays as it is.

    Under plain `jax.jit` a mutation of the layer would be lost, so calling it mutates nothing: it
    returns the scores and the new estimate, which `remember` puts back:

        graph, state = nnx.split(layer)

        @jax.jit
        def step(state, log_probs):
            return nnx.merge(graph, state)(log_probs)

        scores, seen = step(nnx.state(layer), log_probs)
        layer.remember(seen)

    `graph` holds the mode, so split again after `train()` or `eval()`. Two devices' estimates
    become one by `batch_calibration.calibration.running.merge`.

    Args:
        labels: k.
        strength: gamma.
        per_batch: mini-batches weigh alike, as eq. 3 says literally, instead of rows.

    >>> import jax.numpy as jnp
    >>> layer = BatchCalibration(2)
    >>> scores, seen = layer(jnp.array([[-1.0, -3.0], [-2.0, -2.5]]))
    >>> scores.tolist(), seen.count.item(), layer.seen.count.item()
    ([[0.5, -0.25], [-0.5, 0.25]], 2, 0)
    >>> layer.remember(seen)
    >>> layer.seen.count.item()
    2
    """

    def __init__(self, labels: int, *, strength: float = 1.0, per_batch: bool = False):
        start = running.empty(labels)
        self.mean = nnx.BatchStat(start.mean)
        self.count = nnx.BatchStat(start.count)
        self.rest = nnx.BatchStat(start.rest)
        self.strength = strength
        self.per_batch = per_batch
        # The name by which nnx's train() and eval() know layers with running statistics.
        self.use_running_average = False

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
        self, log_probs: ArrayLike, weight: ArrayLike | None = None
    ) -> tuple[Scores, Running]:
        """Corrects a batch.

        Args:
            log_probs: [m k], in nats.
            weight: [m]; rows of weight 0 do not enter the bias.

        Returns:
            Scores [m k], and the estimate that corrected them.
        """
        seen = self.seen
        rows, _, weights = read_rows(log_probs, None, weight)
        if not self.use_running_average:
            seen = running.update(seen, rows, weights, per_batch=self.per_batch)
        bias = shift.Shift(seen.mean, jax.numpy.float32(self.strength))
        return shift.apply(bias, rows), seen

"""A Flax layer that applies BC; its bias is a running estimate, similar to BatchNorm's."""

import jax.numpy as jnp
from flax import nnx
from numpy.typing import ArrayLike

from batch_calibration.arrays.numbers import read_rows
from batch_calibration.calibration import running, shift
from batch_calibration.calibration.running import Running
from batch_calibration.diagnosis.advice import LEAVE, AdviceSource, load_advice
from batch_calibration.errors import InputError
from batch_calibration.methods import get_method
from batch_calibration.typing import Scores


class BatchCalibration(nnx.Module):
    """Subtracts the running mean log-probability of each label: s_ij - gamma b_j (eq. 3 and 4).

    Call, train and evaluate it like `nnx.BatchNorm`. In training mode (`train()`, the default),
    each call adds its batch to the estimate in `nnx.BatchStat` variables, then corrects the batch
    with the new estimate, like the causal stream. In evaluation mode (`eval()`), the estimate stays
    fixed. The variables change in the same way inside `nnx.jit`. The layer corrects one context at
    a time; `recommend_together` pools the label shares of several contexts, which a running mean
    cannot do. Under plain `jax.jit`, variables are arguments and results, as for every layer with
    statistics:

        graph, state = nnx.split(layer)

        @jax.jit
        def step(state, log_probs):
            layer = nnx.merge(graph, state)
            return layer(log_probs), nnx.state(layer)

        scores, state = step(state, log_probs)
        nnx.update(layer, state)

    Unlike BatchNorm's, the estimate is the mean of all rows seen (eq. 3), not a moving average, so
    there is no momentum. `batch_calibration.calibration.running.merge` combines the estimates of
    two devices, and `remember` stores the result.

    With `advice`, each training call fits the advised method on its batch, and the estimate is the
    mean of the batches' biases, weighted by their rows. One batch gives exactly the scores of
    `advice.apply`.

    Args:
        labels: k.
        strength: gamma.
        per_batch: Gives mini-batches the same weight, as eq. 3 states literally, instead of rows.
        use_running_average: Keeps the estimate fixed; `train()` and `eval()` set it.
        advice: Advice of `recommend`, or its file; its labels are in the order of the columns.

    Raises:
        InputError: The advice is for other labels, or its method learns no bias from the batch.

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
        advice: AdviceSource | None = None,
    ):
        advised = None if advice is None else load_advice(advice, k=labels)
        self.learn = None
        if advised is not None:
            name, method = advised.method, get_method(advised.method)
            learns_from_batch = method.keeps_bias and method.probe.blocks == ("test",)
            if not learns_from_batch and name != LEAVE:
                expected = "a method that subtracts a bias learned from the batch"
                raise InputError.at("", expected, name, "use LabelBiasCorrector", "advice")
            self.learn = method.make(**advised.options).fit
        start = running.empty(labels)
        self.mean = nnx.BatchStat(start.mean)
        self.count = nnx.BatchStat(start.count)
        self.rest = nnx.BatchStat(start.rest)
        self.strength = strength
        self.per_batch = per_batch
        # nnx's train(), eval() and view() recognize layers with statistics by this attribute.
        self.use_running_average = use_running_average

    @property
    def seen(self) -> Running:
        """The estimate of the layer."""
        return Running(self.mean[...], self.count[...], self.rest[...])

    def remember(self, seen: Running) -> None:
        """Replaces the estimate of the layer."""
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
        """Returns the corrected scores [m k] of a batch.

        Args:
            log_probs: [m k], in nats.
            use_running_average: Keeps the estimate fixed in this call; None uses the mode that
                `train()` or `eval()` set.
            weight: [m]; rows of weight 0 do not enter the estimate.
        """
        rows, _, weights = read_rows(log_probs, None, weight)
        seen = self.seen
        if use_running_average is None:
            use_running_average = self.use_running_average
        if not use_running_average:
            learned_from = rows
            if self.learn is not None:
                state = self.learn(rows, None, weights)
                learned_from = jnp.broadcast_to(state.strength * state.bias, rows.shape)
            # The new estimate includes the batch itself.
            seen = running.update(seen, learned_from, weights, per_batch=self.per_batch)
            self.remember(seen)
        return shift.apply(shift.Shift(seen.mean, jnp.float32(self.strength)), rows)

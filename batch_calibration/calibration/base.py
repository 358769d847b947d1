"""The protocol of a calibrator, a pair of pure functions, and the means that methods share."""

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import NamedTuple, ParamSpec, Protocol, TypeVar, overload, runtime_checkable

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from batch_calibration.arrays import numbers
from batch_calibration.arrays.frames import in_kind_of, names_of
from batch_calibration.errors import InputError
from batch_calibration.typing import (
    AnyArray,
    Bias,
    Container,
    Key,
    Labels,
    Predictions,
    ProbeRows,
    Rows,
    Scores,
    State,
    Weight,
)

P = ParamSpec("P")
R = TypeVar("R")


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function so that its matrix products have full float32 precision.

    By default GPUs multiply in TF32 and TPUs in bfloat16, with 10 and 7 of the 23 mantissa bits.

    >>> jax.make_jaxpr(full_precision(jnp.matmul))(jnp.ones((2, 2)), jnp.ones(2)).eqns[-1].primitive
    dot_general
    """

    @wraps(function)
    def multiply_exactly(*arguments: P.args, **named: P.kwargs) -> R:
        with jax.default_matmul_precision("highest"):
            return function(*arguments, **named)

    return multiply_exactly


@runtime_checkable
class Fit(Protocol):
    """A function that learns a bias from the scores of a probe.

    A label of -1 is unknown. A row of weight 0 is absent, and a row of weight 2 counts twice.
    The state is a NamedTuple of arrays, so that `jax.jit` and `jax.vmap` can transform `fit`.
    """

    def __call__(
        self,
        log_probs: ProbeRows,
        labels: Labels | None = None,
        weight: Weight | None = None,
        /,
        *,
        key: Key | None = None,
    ) -> State:
        """Learns a state from log_probs[m k], labels[m] and weight[m]."""


@runtime_checkable
class Apply(Protocol):
    """A function that removes a learned bias from scores, in nats, and keeps their shape."""

    def __call__(self, state: State, log_probs: Rows, /) -> Scores:
        """Returns the corrected scores[n k]."""


class ProbeScores(NamedTuple):
    """The arguments of `fit`.

    Attributes:
        log_probs: the scores of the probe's rows, [m k], in nats.
        labels: [m], -1 for unknown, or None without labels.
        weight: [m], or None for a weight of 1 in each row.
        key: a `jax.random` key, for methods that start at random.
    """

    log_probs: ProbeRows
    labels: Labels | None
    weight: Weight | None
    key: Key | None

    @property
    def weights(self) -> Weight:
        """The weight of each row, by default 1."""
        return weights_of(self.log_probs, self.weight)


def known_labels(name: str, labels: Labels | None, also: str = "") -> Labels:
    """Returns the labels, or raises InputError if the method `name` was given none.

    `also` ends the message, for example with `WITH_BATCH`.
    """
    if labels is None:
        raise InputError(
            f"{name} learns from labels, but got no labels: give the scores and the labels of a "
            f"labeled set{also} (label -1 means unknown)."
        )
    return labels


WITH_BATCH = " with the unlabeled batch"


class Calibrator(NamedTuple):
    """A method with its options chosen: `state = fit(probe)`, `scores = apply(state, test)`.

    Both functions are written for one context; `jax.vmap` maps them over seeds, templates,
    strengths or probe sizes. They accept arrays of jax or numpy. A calibrator that
    `METHODS[name].make()` returns also accepts lists, tensors and frames.
    """

    fit: Fit
    apply: Apply

    @classmethod
    def of(cls, learn: Callable[[ProbeScores], State], apply: Apply) -> "Calibrator":
        """Returns a calibrator with a `fit` that passes its arguments to `learn` as one tuple."""

        def fit(
            log_probs: ProbeRows, labels: Labels | None = None, weight: Weight | None = None, /,
            *, key: Key | None = None
        ) -> State:  # fmt: skip
            return learn(ProbeScores(log_probs, labels, weight, key))

        return cls(fit, apply)


def reads_arrays(calibrator: Calibrator) -> Calibrator:
    """Returns the calibrator for arrays of any kind, which each call reads and checks first."""
    fit, apply = calibrator

    @numbers.usual_jax
    def read_and_fit(
        log_probs: ArrayLike, labels: ArrayLike | None = None, weight: ArrayLike | None = None, /,
        *, key: Key | None = None
    ) -> State:  # fmt: skip
        return fit(*numbers.read_rows(log_probs, labels, weight), key=key)

    @numbers.usual_jax
    def read_and_apply(state: State, log_probs: ArrayLike, /) -> Scores:
        return apply(state, numbers.read_floats(log_probs))

    return Calibrator(read_and_fit, read_and_apply)


@overload
def predict(scores: jax.Array, columns: None = None) -> Predictions: ...


@overload
def predict(scores: object, columns: Sequence[Hashable] | None = None) -> Container: ...


@numbers.usual_jax
def predict(scores: object, columns: Sequence[Hashable] | None = None) -> Container:
    """Returns the label with the highest score, [..., k] to [...]; of equal scores, the first.

    Args:
        scores: an array, a tensor, lists or a frame, as in `calibrate`.
        columns: the names of the score columns, for a frame with other columns.

    Returns:
        int32 indices in the container of the scores: a jax array, a torch tensor on the same device
        (int64, like torch's argmax), otherwise a numpy array. For a frame, the names of columns: a
        pandas series with the frame's index, a polars series, or a numpy array for pyarrow. Compare
        them with a column of gold labels: `(predict(frame) == gold).mean()`.

    Raises:
        InputError: no scores; a row with a highest score that is NaN or infinite (not checked under
            `jax.jit`).

    >>> predict([[0.0, 1.0], [2.0, 2.0]]).tolist()
    [1, 0]
    """
    rows = numbers.read_floats(scores, columns=columns)
    if rows.ndim == 0:
        raise InputError.at("scores", numbers.SCORES, "one number", numbers.EACH_SCORE)
    numbers.refuse_unordered(rows)
    return in_kind_of(scores, favored(rows), names_of(scores, columns))


def favored(rows: AnyArray) -> Predictions:
    """Returns the argmax of rows [..., k] without a check, because absent rows may hold NaN."""
    return jnp.argmax(rows, axis=-1).astype(jnp.int32)


def label_normalized(log_probs: Rows) -> Scores:
    """Normalizes log-probabilities over the labels: s_j - log sum_i exp s_i."""
    return jax.nn.log_softmax(log_probs, axis=-1)


def weights_of(rows: ProbeRows, weight: Weight | None) -> jax.Array:
    """Returns the weight of each row [m], by default 1."""
    return jnp.ones(rows.shape[0], jnp.float32) if weight is None else jnp.asarray(weight)


def weighted_mean(rows: ProbeRows, weight: Weight | None = None) -> Bias:
    """Returns the mean row, sum_i w_i x_i / sum_i w_i; zero if all weights are 0.

    The mean of the residuals is added to a first mean. This keeps float32 within one unit in the
    last place of the float64 mean over a million rows.

    >>> weighted_mean(jnp.array([[1.0, 2.0], [3.0, 6.0]])).tolist()
    [2.0, 4.0]
    """
    weights = weights_of(rows, weight)[:, None]
    total = jnp.sum(weights)

    def mean(terms: jax.Array) -> jax.Array:
        # An absent row may hold NaN, and 0 * NaN is NaN: such rows have to be masked.
        masked = jnp.where(weights > 0, weights * terms, 0.0)
        return jnp.sum(masked, axis=0) / jnp.where(total > 0, total, 1.0)

    scores = jnp.asarray(rows)
    first = mean(scores)
    return first + mean(scores - first)


def floored(calibrator: Calibrator, floor: float) -> Calibrator:
    """Returns the calibrator applied to max(s, floor): minus infinity becomes `floor` nats."""
    fit, apply = calibrator

    # Both functions raise their scores, so that the bias is learned from the corrected scores.
    def learn(probe: ProbeScores) -> State:
        raised = jnp.maximum(probe.log_probs, floor)
        return fit(raised, probe.labels, probe.weight, key=probe.key)

    def floored_apply(state: State, log_probs: Rows, /) -> Scores:
        return apply(state, jnp.maximum(log_probs, floor))

    return Calibrator.of(learn, floored_apply)

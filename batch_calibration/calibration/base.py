"""A calibrator is a pair of pure functions; here are its protocol and the sums they share."""

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
    """The same function, whose products of float32 are of float32 on every device.

    GPUs else multiply in TF32 and TPUs in bfloat16, with 10 and 7 bits after the point of 23.

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
    """Learns a bias from the scores of probe inputs.

    Labels of -1 mean unknown. Weight 0 means the row is absent; 2 means it is there twice.
    The state is a NamedTuple of arrays, so fit goes under `jax.jit` and `jax.vmap`.
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
        """The state learned from log_probs[m k], labels[m] and weight[m]."""


@runtime_checkable
class Apply(Protocol):
    """Removes a learned bias: scores in, scores of the same shape out, in nats."""

    def __call__(self, state: State, log_probs: Rows, /) -> Scores:
        """The corrected scores[n k]."""


class ProbeScores(NamedTuple):
    """What `fit` is called with.

    Attributes:
        log_probs: Scores of the probe's rows, [m k].
        labels: [m], -1 where unknown; None where none came.
        weight: [m]; None: each row counts once.
        key: Of methods that start at random.
    """

    log_probs: ProbeRows
    labels: Labels | None
    weight: Weight | None
    key: Key | None

    @property
    def weights(self) -> Weight:
        """The weight of each row, one where none is given."""
        return weights_of(self.log_probs, self.weight)


def known_labels(name: str, labels: Labels | None, also: str = "") -> Labels:
    """The labels, which a method of that `name` needs, and `also` an unlabeled batch."""
    if labels is None:
        raise InputError(
            f"{name} learns from labels and none came: give the scores and the labels of a "
            f"labeled set{also} (label -1 means unknown)."
        )
    return labels


WITH_BATCH = " with the unlabeled batch"


class Calibrator(NamedTuple):
    """A method with its options chosen: `state = fit(probe)`, `scores = apply(state, test)`.

    Written for one context; `jax.vmap` gives seeds, templates, strengths and probe sizes. Both
    functions take arrays of jax or numpy; what `METHODS[name].make()` returns reads others too.
    """

    fit: Fit
    apply: Apply

    @classmethod
    def of(cls, learn: Callable[[ProbeScores], State], apply: Apply) -> "Calibrator":
        """The calibrator whose `fit` gives `learn` all of its arguments as one."""

        def fit(
            log_probs: ProbeRows, labels: Labels | None = None, weight: Weight | None = None, /,
            *, key: Key | None = None
        ) -> State:  # fmt: skip
            return learn(ProbeScores(log_probs, labels, weight, key))

        return cls(fit, apply)


def reads_arrays(calibrator: Calibrator) -> Calibrator:
    """The same calibrator for arrays of any kind, which are read and checked before each call."""
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
    """The label each row's scores favor, [..., k] to [...]; of equal scores, the first column's.

    Args:
        scores: an array, a tensor, lists or a frame, as `calibrate` takes them.
        columns: of a frame that holds more than scores, the names of the labels' columns.

    Returns:
        Indices, int32 in what the scores came in: an array of jax, a tensor of torch on the same
        device (int64, as its own argmax), else an array of numpy. Of a frame the names of columns:
        a series of pandas with its index, or of polars; of pyarrow an array of numpy. Compare them
        with the names that a column of right labels holds: `(predict(frame) == gold).mean()`.

    Raises:
        InputError: no scores; a row whose largest score is NaN or infinite, which `jax.jit` hides.

    >>> predict([[0.0, 1.0], [2.0, 2.0]]).tolist()
    [1, 0]
    """
    rows = numbers.read_floats(scores, columns=columns)
    if rows.ndim == 0:
        raise InputError(
            where="scores", expected=numbers.SCORES, got="one number", remedy=numbers.EACH_SCORE
        )
    numbers.refuse_unordered(rows)
    return in_kind_of(scores, favored(rows), names_of(scores, columns))


def favored(rows: AnyArray) -> Predictions:
    """`predict` without a check, for pure functions: rows that do not count may hold NaN."""
    return jnp.argmax(rows, axis=-1).astype(jnp.int32)


def label_normalized(log_probs: Rows) -> Scores:
    """Log-probabilities renormalized over the labels: s_j - log sum_i exp s_i."""
    return jax.nn.log_softmax(log_probs, axis=-1)


def weights_of(rows: ProbeRows, weight: Weight | None) -> jax.Array:
    """The weight of each row, one where none is given."""
    return jnp.ones(rows.shape[0], jnp.float32) if weight is None else jnp.asarray(weight)


def weighted_mean(rows: ProbeRows, weight: Weight | None = None) -> Bias:
    """The mean row, sum_i w_i x_i / sum_i w_i; zero where no row is present.

    The mean of the residuals is added back to a first mean, which keeps float32 within one unit
    in the last place of the float64 mean over a million rows.

    >>> weighted_mean(jnp.array([[1.0, 2.0], [3.0, 6.0]])).tolist()
    [2.0, 4.0]
    """
    weights = weights_of(rows, weight)[:, None]
    total = jnp.sum(weights)

    def mean(terms: jax.Array) -> jax.Array:
        # An absent row may hold NaN, and 0 * NaN is NaN: mask, never multiply away.
        masked = jnp.where(weights > 0, weights * terms, 0.0)
        return jnp.sum(masked, axis=0) / jnp.where(total > 0, total, 1.0)

    scores = jnp.asarray(rows)
    first = mean(scores)
    return first + mean(scores - first)


def floored(calibrator: Calibrator, floor: float) -> Calibrator:
    """The same calibrator on max(s, floor): minus infinity becomes `floor` nats."""
    fit, apply = calibrator

    # Before both, so that the bias and the scores it is taken from see the same floor.
    def learn(probe: ProbeScores) -> State:
        raised = jnp.maximum(probe.log_probs, floor)
        return fit(raised, probe.labels, probe.weight, key=probe.key)

    def floored_apply(state: State, log_probs: Rows, /) -> Scores:
        return apply(state, jnp.maximum(log_probs, floor))

    return Calibrator.of(learn, floored_apply)

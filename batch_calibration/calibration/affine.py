"""Affine maps of a row's scores, fitted to labels by Newton's method on a penalized log loss."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import cg

from batch_calibration.calibration.base import full_precision, label_normalized
from batch_calibration.calibration.objective import one_hot
from batch_calibration.typing import Labels, ProbeRows, Rows, Scores, Weight

# The log loss is convex: ten steps usually suffice, and more only follow an offset to infinity.
MOST_STEPS = 30
MOST_PRODUCTS = 200  # of conjugate gradients, in each Newton step

# The search ends if the expected decrease of the mean log loss is smaller, as rounding errors are
# larger then.
LEAST_GAIN = 1e-12


class Affine(NamedTuple):
    """The map z = scale x + offset.

    Attributes:
        scale: a number, a vector [k], or a matrix [k k] with one row per label.
        offset: [k], in nats, or a number for all labels.
    """

    scale: jax.Array
    offset: jax.Array


def transform(affine: Affine, rows: Rows) -> Scores:
    """Maps rows x[n k] to scores z[n k].

    >>> swap = Affine(jnp.array([[0.0, 1.0], [1.0, 0.0]]), jnp.zeros(2))
    >>> transform(swap, jnp.array([[3.0, 5.0]])).tolist()
    [[5.0, 3.0]]
    """
    inputs = jnp.asarray(rows)
    if affine.scale.ndim == 2:
        return full_precision(jnp.matmul)(inputs, affine.scale.T) + affine.offset
    return inputs * affine.scale + affine.offset


# Compiled as a whole: otherwise each call would build its loop anew and compile it.
@jax.jit
def learn(rows: ProbeRows, labels: Labels, weight: Weight, toward: Affine, pull: Affine) -> Affine:
    """Fits a map by least log loss, with a quadratic penalty on its distance from `toward`.

        argmin sum_i w_i (-log softmax(z_i)_{y_i}) + 1/2 sum_p pull_p (theta_p - toward_p)^2

    The search starts at `toward`. Each step solves Newton's equation by conjugate gradients, which
    need no Hessian (it would have 10,100 x 10,100 entries for the matrix of 100 labels). The step
    is halved until the loss falls. In float32 this finds the parameters to about 1e-6; a search
    that only compares losses would stop at the square root of that precision.

    Args:
        rows: x[m k], finite also in rows of weight 0.
        labels: [m]; any label in rows of weight 0.
        weight: [m].
        toward: the map that is returned if all weights are 0; its offsets sum to 0.
        pull: the strength of the penalty, one number for the scale and one for the offset.

    >>> rows, none = jnp.eye(2), Affine(jnp.float32(1.0), jnp.float32(0.0))
    >>> found = learn(rows, jnp.array([0, 1]), jnp.ones(2), none, Affine(*jnp.ones(2)))
    >>> round(found.scale.item(), 2)
    1.4
    """
    true = one_hot(rows, labels)  # [m, k]
    # The mean loss is near 1 for any number of rows.
    total = jnp.maximum(jnp.sum(weight), 1.0)
    share = weight[:, None] / total
    # Divided by the same number, so that the optimum does not move.
    pulls = Affine(pull.scale / total, pull.offset / total)

    def objective(affine: Affine) -> jax.Array:
        loss = -jnp.sum(share * true * label_normalized(transform(affine, rows)))
        for pull_strength, parameter, target in zip(pulls, affine, toward, strict=True):
            loss += 0.5 * pull_strength * jnp.sum((parameter - target) ** 2)
        return loss

    def newton(at: tuple[Affine, jax.Array, jax.Array]) -> tuple[Affine, jax.Array, jax.Array]:
        affine, _, steps = at
        scores, pull_back = jax.vjp(lambda affine: transform(affine, rows), affine)
        probs = jax.nn.softmax(scores, axis=-1)  # [m, k]

        def derivative(by_score: jax.Array, by_pull: Affine) -> Affine:
            # The derivatives by a row's scores sum to zero. The subtraction makes this exact, so
            # that parameters do not drift along equal shifts of all scores of a row.
            (by,) = pull_back(share * (by_score - jnp.mean(by_score, axis=-1, keepdims=True)))
            return Affine(
                *(g + p * parameter for g, p, parameter in zip(by, pulls, by_pull, strict=True))
            )

        # The product of the Hessian and a direction d is p (d - sum p d): no matrix is formed.
        def curvature(along: Affine) -> Affine:
            change = transform(along, rows)
            mean_change = jnp.sum(probs * change, axis=-1, keepdims=True)
            return derivative(probs * (change - mean_change), along)

        slope = derivative(probs - true, jax.tree.map(jnp.subtract, affine, toward))
        move, _ = cg(  # type: ignore[no-untyped-call]
            curvature, slope, tol=1e-5, maxiter=MOST_PRODUCTS
        )
        # Scores of 1e5 nats may overflow: the search then ends at the current parameters.
        is_finite = jnp.all(jnp.isfinite(move.scale)) & jnp.all(jnp.isfinite(move.offset))
        move = Affine(*(jnp.where(is_finite, change, 0.0) for change in move))
        # Rounding errors of the loss must not stop the last steps.
        bound = objective(affine) + 1e-6

        def moved(size: jax.Array) -> Affine:
            return Affine(
                *(parameter - size * change for parameter, change in zip(affine, move, strict=True))
            )

        # Halved until the loss falls. A size below 1e-4 changes only the rounding in float32.
        size = jax.lax.while_loop(
            lambda size: ~(objective(moved(size)) <= bound) & (size > 1e-4),
            lambda size: size / 2.0,
            jnp.float32(1.0),
        )
        # Twice the decrease of the loss if it is a parabola.
        gain = jnp.sum(slope.scale * move.scale) + jnp.sum(slope.offset * move.offset)
        return moved(size), gain, steps + 1

    fitted, _, _ = jax.lax.while_loop(
        lambda at: (at[1] > LEAST_GAIN) & (at[2] < MOST_STEPS),
        newton,
        (toward, jnp.float32(jnp.inf), jnp.int32(0)),
    )
    # A constant added to all scores changes no probability.
    return fitted._replace(offset=fitted.offset - jnp.mean(fitted.offset))

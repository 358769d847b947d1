"""The product of a network's inputs and weights, summed in float32 whatever it computes in."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding


def product(
    x: jax.Array,
    kernel: jax.Array,
    dimensions: jax.lax.DotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    out_sharding: NamedSharding | None = None,
) -> jax.Array:
    """`jax.lax.dot_general`, its result in the dtype of `x` but asked for in float32.

    XLA sums in float32 either way. Where the result is to be bfloat16, though, it makes a float32
    copy of every kernel on CPUs, of all layers at once, and leaves the processor's products of
    bfloat16 unused.

    >>> half = jnp.ones((2, 300), jnp.bfloat16)
    >>> product(half, half.T, (((1,), (0,)), ((), ()))).dtype.name
    'bfloat16'
    """
    result = jax.lax.dot_general(
        x, kernel, dimensions, precision, jnp.float32, out_sharding=out_sharding
    )
    return result.astype(x.dtype)

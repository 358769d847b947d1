"""The activation functions, under the names that Hugging Face configs give them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from batch_calibration.errors import InputError


def _exact_gelu(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=False)


def _quick_gelu(x: jax.Array) -> jax.Array:
    return x * jax.nn.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": _exact_gelu,
    "gelu_fast": jax.nn.gelu,
    "gelu_new": jax.nn.gelu,
    "gelu_pytorch_tanh": jax.nn.gelu,
    "quick_gelu": _quick_gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
    "tanh": jnp.tanh,
}


def activation(name: str) -> Callable[[jax.Array], jax.Array]:
    """The function a config calls `name`; `InputError` lists the ones there are."""
    if name not in ACTIVATIONS:
        raise InputError.unknown("activation function", name, ACTIVATIONS)
    return ACTIVATIONS[name]

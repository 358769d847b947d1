"""Makes a text's embedding of an encoder's hidden states: pooling and the layers that follow."""

from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from batch_calibration.errors import InputError
from batch_calibration.scoring.models.attention import BiasedAttend
from batch_calibration.scoring.models.family import Encoder
from batch_calibration.scoring.models.files.sentence_config import SentenceConfig, read_fixed
from batch_calibration.scoring.models.files.tensors import tensors
from batch_calibration.scoring.models.layers import activation


def _weighted_mean(h: jax.Array, real: jax.Array) -> jax.Array:
    # weights 1, 2, ... of real tokens
    order = jnp.where(real, jnp.arange(1.0, h.shape[1] + 1)[:, None], 0.0)
    return jnp.sum(h * order, axis=1) / jnp.sum(order, axis=1)


POOLINGS: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "cls": lambda h, _: h[:, 0],
    "max": lambda h, real: jnp.max(h, axis=1, where=real, initial=-jnp.inf),
    "mean": lambda h, real: jnp.mean(h, axis=1, where=real),
    "mean_sqrt_len_tokens": lambda h, real: (
        jnp.sum(h, axis=1, where=real) / jnp.sqrt(jnp.sum(real, axis=1))
    ),
    "weightedmean": _weighted_mean,
    "lasttoken": lambda h, real: h[jnp.arange(len(h)), jnp.sum(real, axis=(1, 2)) - 1],
}
"""`(hidden states [b, t, d], which of them are real [b, t, 1])` -> embeddings `[b, d]`."""
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "Identity": lambda e: e,
    "Tanh": jnp.tanh,
    "ReLU": jax.nn.relu,
    "GELU": activation("gelu"),
}
"""Activations of a dense layer, under the names of their classes in torch.nn."""

DENSE: Mapping[str, object] = {
    "module_input_name": "sentence_embedding",
    "module_output_name": "sentence_embedding",
    "use_residual": False,
}
"""Keys of a dense layer's config and the only value that each may have here."""


class Dense(nnx.Module):
    """A linear layer over embeddings, and its activation.

    Args:
        kernel: `[in, out]`.
        bias: `[out]`.
        name: A key of `ACTIVATIONS`.
    """

    def __init__(self, kernel: np.ndarray, bias: np.ndarray, name: str):
        self.kernel = nnx.Param(jnp.asarray(kernel))
        self.bias = nnx.Param(jnp.asarray(bias))
        self.name = name

    def __call__(self, e: jax.Array) -> jax.Array:
        """Embeddings `[b, out]` of embeddings `[b, in]`."""
        return ACTIVATIONS[self.name](e @ self.kernel[...] + self.bias[...])


class Normalize(nnx.Module):
    """Brings embeddings to length one."""

    def __call__(self, e: jax.Array) -> jax.Array:
        """Embeddings `[b, d]` of length one."""
        unit: jax.Array = e / jnp.linalg.norm(e, axis=-1, keepdims=True)
        return unit


class PooledEncoder(nnx.Module):
    """An encoder, the pooling of its hidden states, and the layers over their embeddings.

    Args:
        encoder: The encoder.
        pooling: A key of `POOLINGS`.
        layers: What follows, in order.
    """

    def __init__(self, encoder: Encoder, pooling: str, layers: list[Dense | Normalize]):
        self.encoder = encoder
        self.pooling = pooling
        self.layers = nnx.List(layers)

    def hidden(
        self,
        tokens: jax.Array,
        positions: jax.Array,
        attend: BiasedAttend,
        types: jax.Array | None = None,
    ) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`."""
        return self.encoder.hidden(tokens, positions, attend, types)

    def pool(self, h: jax.Array, real: jax.Array) -> jax.Array:
        """Embeddings `[b, p]` of hidden states `[b, t, d]`, of which `real [b, t]` are a text's."""
        e = POOLINGS[self.pooling](h, real[:, :, None])  # [b, d]
        for layer in self.layers:
            e = layer(e)
        return e


def load(directory: Path, encoder: Encoder, config: SentenceConfig, width: int) -> PooledEncoder:
    """The encoder of that width with what follows it, weights included.

    Raises:
        InputError: a layer's files are missing or broken, or do not fit what stands before.
    """
    layers: list[Dense | Normalize] = []
    for kind, folder in config.modules[2:]:
        layer = _dense(directory / folder, width) if kind == "Dense" else Normalize()
        width = layer.bias.shape[0] if isinstance(layer, Dense) else width
        layers.append(layer)
    return PooledEncoder(encoder, config.pooling, layers)


def _dense(directory: Path, width: int) -> Dense:
    raw = read_fixed(directory / "config.json", DENSE)
    name = str(raw.get("activation_function", "torch.nn.Tanh"))
    torch, _, short = name.rpartition(".")
    if not torch.startswith("torch.nn") or short not in ACTIVATIONS:
        unknown = InputError.unknown("activation function", name, ACTIVATIONS)
        raise InputError(f"{directory / 'config.json'}: {unknown}")
    width_out = raw.get("out_features")  # a wrong one does not fit the tensors' shapes
    expected: dict[str, tuple[object, ...]] = {"linear.weight": (width_out, width)}
    expected |= {"linear.bias": (width_out,)} if raw.get("bias", True) else {}
    arrays = {tensor.name: tensor.read(np.float32) for tensor in tensors(directory)}
    shapes = {tensor: array.shape for tensor, array in arrays.items()}
    if shapes != expected:
        raise InputError(
            where=directory,
            expected=f"a layer over embeddings of width {width}, which has the tensors {expected}",
            got=shapes,
            remedy="the files belong to different checkpoints",
        )
    bias = arrays.get("linear.bias", np.zeros(len(arrays["linear.weight"]), np.float32))
    return Dense(arrays["linear.weight"].T, bias, short)  # torch holds [out, in]

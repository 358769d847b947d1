"""Compiled programs of `DualEncoder`: embeddings of texts and images, each of length one."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding

from batch_calibration.scoring.engine import sharding
from batch_calibration.scoring.engine.preprocessing import Preprocessing, normalize
from batch_calibration.scoring.engine.programs import State
from batch_calibration.scoring.models.attention import masked
from batch_calibration.scoring.models.family import ClipNetwork, SentenceEncoder
from batch_calibration.scoring.models.files.checkpoint import Checkpoint

Array = jax.Array | np.ndarray
T = TypeVar("T")


def text_program(checkpoint: Checkpoint) -> Callable[[Array, Array], jax.Array]:
    """`(tokens [b, t], lengths [b])` -> embeddings of texts, for the checkpoint's kind."""
    home = sharding.replicated(checkpoint.mesh)
    if checkpoint.kind == "clip":
        tower, state = nnx.split(cast(ClipNetwork, checkpoint.model))
        return lambda tokens, lengths: _embed_captions(tower, home, state, tokens, lengths)
    encoder, state = nnx.split(cast(SentenceEncoder, checkpoint.model))
    return lambda tokens, lengths: _embed_sentences(encoder, home, state, tokens, lengths)


def image_program(
    checkpoint: Checkpoint, preprocessing: Preprocessing
) -> Callable[[Array], jax.Array]:
    """`pixels [b, h, w, 3]` -> embeddings of images; the checkpoint is of the kind `clip`."""
    home = sharding.replicated(checkpoint.mesh)
    graph, state = nnx.split(cast(ClipNetwork, checkpoint.model))
    return lambda pixels: _embed_images(graph, home, preprocessing, state, pixels)


@partial(jax.jit, static_argnums=(0, 1))
def _embed_sentences(
    graph: nnx.GraphDef[SentenceEncoder],
    home: NamedSharding | None,
    state: State,
    tokens: jax.Array,
    lengths: jax.Array,
) -> jax.Array:
    """Embeddings `[b, p]` of `tokens [b, t]`, of which `lengths [b]` are real."""
    offset = jnp.arange(tokens.shape[1])  # [t]
    mask = offset < lengths[:, None]  # [b, t]
    # Padding may lie past the network's last position, where an embedding is NaN.
    positions = jnp.minimum(offset, lengths[:, None] - 1)
    encoder = nnx.merge(graph, state)
    h = encoder.hidden(tokens, positions, masked(mask))
    return _unit(encoder.pool(h.astype(jnp.float32), mask), home)


@partial(jax.jit, static_argnums=(0, 1))
def _embed_captions(
    graph: nnx.GraphDef[ClipNetwork],
    home: NamedSharding | None,
    state: State,
    tokens: jax.Array,
    lengths: jax.Array,
) -> jax.Array:
    """CLIP's embeddings `[b, p]` of `tokens [b, t]`, of which `lengths [b]` are real."""
    return _unit(nnx.merge(graph, state).embed_text(tokens, lengths), home)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _embed_images(
    graph: nnx.GraphDef[ClipNetwork],
    home: NamedSharding | None,
    preprocessing: Preprocessing,
    state: State,
    pixels: jax.Array,
) -> jax.Array:
    """CLIP's embeddings `[b, p]` of uint8 `pixels [b, h, w, 3]`."""
    dtype = jax.tree.leaves(state)[0].dtype  # the network's
    normalized = normalize(pixels, preprocessing).astype(dtype)
    return _unit(nnx.merge(graph, state).embed_image(normalized), home)


def _unit(vectors: jax.Array, home: NamedSharding | None) -> jax.Array:
    """Vectors of length one in float32, whole on every device of a mesh."""
    vectors = vectors.astype(jnp.float32)  # lengths in half precision would be off by 0.4 %
    vectors = vectors / jnp.linalg.norm(vectors, axis=-1, keepdims=True)
    return sharding.replicate(vectors, home)


def one_behind(running: Iterable[tuple[T, jax.Array]]) -> Iterator[tuple[T, np.ndarray]]:
    """Results as NumPy arrays: one batch computes while the next is laid out."""
    waiting: deque[tuple[T, jax.Array]] = deque()
    for batch in running:
        waiting.append(batch)
        if len(waiting) > 1:
            rows, embeddings = waiting.popleft()
            yield rows, np.asarray(embeddings)
    for rows, embeddings in waiting:
        yield rows, np.asarray(embeddings)

"""Training objective of the mini language model: next-token loss, and guidance of attention."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from batch_calibration.scoring.models import gpt2
from batch_calibration.scoring.models.attention import Attend, Heads, Layer
from experiments.pretrain.documents import UNKNOWABLE, PackedBatch

GUIDED = ("attention to the token before", "attention to the label")
"""Names of the two losses that guide the attention of the added layers."""
HEADS = 2
"""Number of guided heads in the second added layer; its other heads are free."""


class TrainBatch(NamedTuple):
    """Packed sequences `[b, t]`, and the `m` positions of each at which the loss is computed.

    Attributes:
        tokens: Token ids `[b, t]`.
        positions: Positions within the document `[b, t]`.
        document: The document's number within the sequence `[b, t]`.
        read: Indices into the sequence `[b, m]`; the token after each is predicted.
        weight: Weight of each prediction's loss `[b, m]`.
        label: Number of the task if a label token is predicted, else -1 `[b, m]`.
        named: For the first token of a label word, the label; -1 for other tokens `[b, t]`.
        guidance: Weight of the attention losses `[b]`.
    """

    tokens: np.ndarray
    positions: np.ndarray
    document: np.ndarray
    read: np.ndarray
    weight: np.ndarray
    label: np.ndarray
    named: np.ndarray
    guidance: np.ndarray


def make_train_batch(
    batch: PackedBatch,
    share: float,
    label_weight: float,
    rng: np.random.Generator,
    guidance: float = 0.0,
) -> TrainBatch:
    """Samples a `share` of the positions of each sequence for the loss, label tokens first.

    Label tokens get at most half of the sample, or more if other tokens do not fill the rest. The
    weights scale each kind (labels, other tokens) up to its full number, so the expected loss is
    the loss over all positions.
    """
    # The last token of a sequence has no next token.
    rows, size = len(batch.tokens), math.ceil(share * (batch.tokens.shape[1] - 1))
    read, weight = np.zeros((rows, size), np.int32), np.zeros((rows, size), np.float32)
    same_document = batch.document[:, 1:] == batch.document[:, :-1]  # [b, t - 1]
    # The first token of a document cannot be predicted from the previous document.
    label = np.where(same_document, batch.label[:, 1:], UNKNOWABLE)
    for row in range(rows):
        kinds = np.flatnonzero(label[row] >= 0), np.flatnonzero(label[row] == -1)
        # Labels get half of the positions, and the positions that other tokens do not fill.
        labels = min(len(kinds[0]), max(size // 2, size - len(kinds[1])))
        at = 0
        for kind, most, kind_weight in zip(
            kinds, (labels, size - labels), (label_weight, 1.0), strict=True
        ):
            chosen = rng.permutation(kind)[:most]
            slots = slice(at, at + len(chosen))
            read[row, slots] = chosen
            weight[row, slots] = kind_weight * len(kind) / max(1, len(chosen))
            at += len(chosen)
    # -1 for unused slots
    label = np.where(weight > 0, np.take_along_axis(label, read, axis=1), -1).astype(np.int32)
    return TrainBatch(
        batch.tokens, batch.positions, batch.document, read, weight, label, batch.named,
        np.full(rows, guidance, np.float32),
    )  # fmt: skip


def loss(
    model: gpt2.Model, batch: TrainBatch, tasks: int, added: int | None = None
) -> tuple[jax.Array, jax.Array]:
    """Computes the weighted next-token loss in nats, and the label loss of each task.

    Returns:
        The loss, and sums and counts of the label losses `[2, k]` of `k` tasks. With layers added
        after the first `added` ones, two more columns hold the losses of `GUIDED`: `[2, k + 2]`.
    """
    same_document = batch.document[:, :, None] == batch.document[:, None, :]
    mask = same_document & jnp.tril(jnp.ones((batch.tokens.shape[1],) * 2, bool))  # [b, t, s]
    tokens, seen = jnp.asarray(batch.tokens), dict[int, jax.Array]()
    h = model.hidden(tokens, jnp.asarray(batch.positions), _attention(mask, seen, added))
    # [b, m, vocabulary]
    logits = model.unembed(jnp.take_along_axis(h, batch.read[..., None], axis=1))
    following = jnp.take_along_axis(tokens, batch.read + 1, axis=1)  # [b, m]
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, following)
    of_task = jax.nn.one_hot(batch.label, tasks)
    # [2, tasks], sums and counts
    labels = jnp.stack([jnp.einsum("bm,bmk->k", nll, of_task), of_task.sum((0, 1))])
    total = (nll * batch.weight).sum() / batch.weight.sum()
    if added is None:
        return total, labels
    shown = jnp.stack(
        [to_the_token_before(seen[added], mask), to_the_label(seen[added + 1], mask, batch.named)],
        axis=1,
    )
    guided = (shown[0] / jnp.maximum(shown[1], 1)).sum()
    return total + batch.guidance.mean() * guided, jnp.concatenate([labels, shown], axis=1)


def to_the_token_before(log_attention: jax.Array, mask: jax.Array) -> jax.Array:
    """Returns sum and count of the loss that guides all heads to the previous token.

    Args:
        log_attention: logarithms of the attention weights `[b, h, t, t]`.
        mask: `[b, t, t]`.
    """
    # Attention of each token to the previous one.
    nll = -jnp.diagonal(log_attention, offset=-1, axis1=2, axis2=3)
    has = jnp.diagonal(mask, offset=-1, axis1=1, axis2=2)  # whether it is in the same document
    return jnp.stack([jnp.where(has[:, None], nll, 0).mean(1).sum(), has.sum(dtype=jnp.float32)])


def to_the_label(log_attention: jax.Array, mask: jax.Array, named: np.ndarray) -> jax.Array:
    """Returns sum and count of the loss that guides heads to earlier occurrences of a label.

    At the token before a label, the first `HEADS` heads should attend to the earlier tokens that
    begin the same label.

    Args:
        log_attention: logarithms of the attention weights `[b, h, t, t]`.
        mask: `[b, t, s]`.
        named: the label that begins at each token, or -1 `[b, t]`.
    """
    label_at = jnp.asarray(named)[:, None, :]
    # [b, t, 1], the label that begins at the next token
    due = jnp.pad(label_at[:, 0, 1:], ((0, 0), (0, 1)), constant_values=-1)[:, :, None]
    right = (due == label_at) & (label_at >= 0) & mask
    has = right.any(-1)  # whether the label occurs earlier
    # The total attention to all earlier occurrences of the label.
    nll = -jax.nn.logsumexp(jnp.where(right[:, None], log_attention[:, :HEADS], -1e9), axis=-1)
    return jnp.stack([jnp.where(has[:, None], nll, 0).mean(1).sum(), has.sum(dtype=jnp.float32)])


def _attention(mask: jax.Array, seen: dict[int, jax.Array], keep: int | None) -> Attend:
    """Returns an attention function with the mask `[b, t, s]`.

    It stores the logarithms of the attention weights `[b, h, t, s]` of the layers from `keep` on in
    `seen`.
    """
    bias = jnp.where(mask, 0.0, -1e9)[:, None]  # [b, 1, t, s]

    def attend(layer: Layer, heads: Heads) -> jax.Array:
        q, k, v = heads[:3]  # GPT-2 uses no further fields
        logits = jnp.einsum("bthd,bshd->bhts", q * q.shape[-1] ** -0.5, k) + bias
        if keep is not None and isinstance(layer, int) and layer >= keep:
            seen[layer] = jax.nn.log_softmax(logits, axis=-1)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(logits, axis=-1), v)

    return attend

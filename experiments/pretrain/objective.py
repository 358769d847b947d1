"""Training objective of the mini language model: next tokens, and at first where to look."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from batch_calibration.scoring.models import gpt2
from batch_calibration.scoring.models.attention import Attend, Heads
from experiments.pretrain.documents import UNKNOWABLE, PackedBatch

GUIDED = ("attention to the token before", "attention to the label")
"""Names of the losses that guide the heads of added layers."""
HEADS = 2
"""So many heads of the second added layer are shown a label; the others are free."""


class TrainBatch(NamedTuple):
    """Packed sequences `[b, t]` and the indices `[b, m]` whose next tokens are to be predicted.

    Attributes:
        tokens: Ids.
        positions: Within the document.
        document: The document's number within the sequence.
        read: Indices into the sequence.
        weight: Of the next token's loss.
        label: Of a label's token the number of the task, -1 elsewhere.
        named: Of the first token of a label's word the label, -1 elsewhere `[b, t]`.
        guidance: Weight of the attention's loss `[b]`.
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
    """Choose which next tokens are predicted: `share` of them, labels first, as many in each row.

    Those left out are made up for by the weights of predicted positions of their kind, so the
    expected loss is that of all. Labels get half of the share where there are too many for all.
    """
    # The last token has no next.
    rows, size = len(batch.tokens), math.ceil(share * (batch.tokens.shape[1] - 1))
    read, weight = np.zeros((rows, size), np.int32), np.zeros((rows, size), np.float32)
    same_document = batch.document[:, 1:] == batch.document[:, :-1]  # [b, t - 1]
    # The first token of a document cannot be told from the document before it.
    label = np.where(same_document, batch.label[:, 1:], UNKNOWABLE)
    for row in range(rows):
        kinds = np.flatnonzero(label[row] >= 0), np.flatnonzero(label[row] == -1)
        # Labels get half of the places, and those that other tokens do not fill.
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
    # -1 where a place is empty
    label = np.where(weight > 0, np.take_along_axis(label, read, axis=1), -1).astype(np.int32)
    return TrainBatch(
        batch.tokens, batch.positions, batch.document, read, weight, label, batch.named,
        np.full(rows, guidance, np.float32),
    )  # fmt: skip


def loss(
    model: gpt2.Model, batch: TrainBatch, tasks: int, added: int | None = None
) -> tuple[jax.Array, jax.Array]:
    """Weighted next-token loss in nats; of each task's labels the sum and the number.

    Where layers were added to the first `added`, two more columns follow, for `GUIDED`:
    `[2, k + 2]`.
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
    # [2, tasks], sums and numbers
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
    """Loss of all heads `[b, h, t, t]` that should attend to the token before: sum and number."""
    # Each token's attention to the one before.
    nll = -jnp.diagonal(log_attention, offset=-1, axis1=2, axis2=3)
    has = jnp.diagonal(mask, offset=-1, axis1=1, axis2=2)  # whether that is of the same document
    return jnp.stack([jnp.where(has[:, None], nll, 0).mean(1).sum(), has.sum(dtype=jnp.float32)])


def to_the_label(log_attention: jax.Array, mask: jax.Array, named: np.ndarray) -> jax.Array:
    """Loss of the first `HEADS` heads before a label: attention is due to where it stands already.

    Of heads `[b, h, t, t]`, where `mask [b, t, s]` is true; `named [b, t]` says which label stands
    at a token. The sum and the number.
    """
    label_at = jnp.asarray(named)[:, None, :]
    # [b, t, 1], the label that the next token begins
    due = jnp.pad(label_at[:, 0, 1:], ((0, 0), (0, 1)), constant_values=-1)[:, :, None]
    right = (due == label_at) & (label_at >= 0) & mask
    has = right.any(-1)  # where the label stood before
    # The attention to all earlier places of the label together counts.
    nll = -jax.nn.logsumexp(jnp.where(right[:, None], log_attention[:, :HEADS], -1e9), axis=-1)
    return jnp.stack([jnp.where(has[:, None], nll, 0).mean(1).sum(), has.sum(dtype=jnp.float32)])


def _attention(mask: jax.Array, seen: dict[int, jax.Array], keep: int | None) -> Attend:
    """Attention where `mask [b, t, s]` is true, all heads at once.

    `seen` is given the logarithms of the attention `[b, h, t, s]` of layers from `keep` on.
    """
    bias = jnp.where(mask, 0.0, -1e9)[:, None]  # [b, 1, t, s]

    def attend(layer: int, heads: Heads) -> jax.Array:
        q, k, v = heads[:3]  # GPT-2's are plain
        logits = jnp.einsum("bthd,bshd->bhts", q * q.shape[-1] ** -0.5, k) + bias
        if keep is not None and layer >= keep:
            seen[layer] = jax.nn.log_softmax(logits, axis=-1)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(logits, axis=-1), v)

    return attend

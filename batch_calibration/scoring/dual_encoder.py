"""Label scores from a sentence encoder: how near a text lies to each label's sentence."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tokenizers import Tokenizer

from batch_calibration.models.attention import masked
from batch_calibration.models.checkpoint import Checkpoint
from batch_calibration.scoring import Scores
from batch_calibration.scoring.batches import batches
from batch_calibration.typing import InputError

VERSION = "1"
WINDOW = 4096
BUDGET = {"cpu": 2048}
STEP = 16


class DualEncoder:
    """Scaled cosine between the mean-pooled embedding of each text and of each label's sentence.

    `score(x, y) = scale * e(x) . e(y) / (|e(x)| |e(y)|)`: logits, in nats up to a constant per row.
    `scale` is one over the temperature of the contrastive training (20 = 1 / 0.05).

    Example:
        scorer = DualEncoder(load_checkpoint("checkpoints/minilm"))
        scorer.score(["fine"], ["A negative movie review.", "A positive movie review."])

    Raises:
        InputError: the checkpoint is not of an encoder family, or a number is out of range.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        scale: float = 20.0,
        max_tokens: int = 128,
        batch_size: int = 64,
    ):
        if hasattr(checkpoint.model, "unembed"):
            raise InputError(
                f"{checkpoint.directory}: a {checkpoint.family} network is a language model, not "
                "a sentence encoder; score with CausalLM, or give an encoder."
            )
        if batch_size < 1:
            raise InputError(f"batch_size: expected 1 or more rows, got {batch_size}.")
        if not 0 < scale < math.inf:
            raise InputError(
                f"scale: expected a positive, finite number, got {scale}; 20 is usual."
            )
        if max_tokens < 3:
            raise InputError(
                f"max_tokens: expected 3 or more (one of the text and two specials), got "
                f"{max_tokens}; 128 is usual."
            )
        self.checkpoint = checkpoint
        self.scale = float(scale)
        self.max_tokens = min(max_tokens, checkpoint.config.positions)
        self.batch_size = batch_size
        self._tokenizer = Tokenizer.from_str(checkpoint.tokenizer.to_str())
        self._tokenizer.enable_truncation(self.max_tokens)
        self._graph, self._state = nnx.split(checkpoint.model)

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides the numbers; the batch size does not."""
        return {
            "kind": "dual_encoder",
            "version": VERSION,
            "checkpoint": self.checkpoint.digest,
            "dtype": "float32",
            "scale": self.scale,
            "max_tokens": self.max_tokens,
        }

    def score(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Scores:
        """Score `labels` (whole sentences) for each of `texts`, longer ones cut at `max_tokens`.

        Returns:
            Logits `[n k]` in nats and the token counts `[n]` of the texts as read, specials
            included; rows in the order given.

        Raises:
            InputError: no labels, equal labels, a text without tokens, or a score that is not a
                number.
        """
        directions, _ = self.embed(self._distinct(labels))
        vectors, tokens = self.embed(texts, progress=progress)
        log_probs = np.float32(self.scale) * (vectors @ directions.T)
        if not np.isfinite(log_probs).all():
            row, label = np.argwhere(~np.isfinite(log_probs))[0]
            raise InputError(
                f"row {row}, label {labels[label]!r}: expected a finite score, got "
                f"{log_probs[row, label]}; the checkpoint's numbers overflow."
            )
        return Scores(log_probs, tokens)

    def embed(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings `[n d]` of length one, and the token counts `[n]` of the texts as read."""
        vectors = np.zeros((len(texts), self.checkpoint.config.hidden_size), np.float32)
        counts = np.zeros(len(texts), np.int32)
        done = 0
        for start in range(0, len(texts), WINDOW):
            encodings = self._tokenizer.encode_batch_fast(list(texts[start : start + WINDOW]))
            ids = [encoding.ids for encoding in encodings]
            counts[start : start + len(ids)] = [len(row) for row in ids]
            for rows, result in self._run(ids):
                vectors[[start + row for row in rows]] = np.asarray(result)[: len(rows)]
                done += len(rows)
                if progress:
                    progress(done)
        if len(texts) and not counts.all():
            row = int(np.argmin(counts))
            raise InputError(
                f"row {row}: expected a text of at least one token, got {texts[row]!r}; drop it."
            )
        return vectors, counts

    def _run(self, ids: list[list[int]]) -> Any:
        """Rows and their embeddings, batch by batch."""
        lengths = [len(row) for row in ids]
        budget = BUDGET.get(jax.default_backend(), 65536)
        for rows, size, width in batches(range(len(ids)), lengths, self.batch_size, budget, STEP):
            tokens = np.zeros((size, width), np.int32)
            counts = np.ones(size, np.int32)
            for place, row in enumerate(rows):
                tokens[place, : lengths[row]] = ids[row]
                counts[place] = lengths[row]
            yield rows, _embed(self._graph, self._state, tokens, counts)

    def _distinct(self, labels: Sequence[str]) -> Sequence[str]:
        """The labels, if there are any and the tokenizer can tell them apart."""
        if not labels:
            raise InputError("labels: expected one or more sentences, got none.")
        seen: dict[tuple[int, ...], str] = {}
        for label in labels:
            ids = tuple(self._tokenizer.encode(label).ids)
            if ids in seen:
                raise InputError(
                    f"labels {seen[ids]!r} and {label!r} are the same tokens to this tokenizer, "
                    "so no score can tell them apart; choose other label words."
                )
            seen[ids] = label
        return labels


@partial(jax.jit, static_argnums=0)
def _embed(graph: Any, state: Any, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """Mean of the last hidden states over `lengths [b]` of `tokens [b, t]`, scaled to length 1."""
    places = jnp.arange(tokens.shape[1])
    mask = places < lengths[:, None]
    # Padding may lie past the network's last position, where an embedding is NaN.
    positions = jnp.minimum(places, lengths[:, None] - 1)
    h = nnx.merge(graph, state).hidden(tokens, positions, masked(mask))
    mean = jnp.mean(h, axis=1, where=mask[:, :, None])
    return mean / jnp.linalg.norm(mean, axis=-1, keepdims=True)

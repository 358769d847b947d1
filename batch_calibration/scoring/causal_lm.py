"""Label scores from a causal language model that is asked for each unique token once.

What all prompts begin with is run once and its keys and values kept. Then each row is its own
tokens followed by the packed trie of its label tokens; rows attend to the shared keys with one
dense product, to themselves under a tree mask, and the two are merged by their log-sum-exps.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from batch_calibration.models.attention import Attend, causal, keep, own, past, within
from batch_calibration.models.checkpoint import Checkpoint
from batch_calibration.scoring import Scores, trie
from batch_calibration.scoring.batches import batches, bucket, group, power
from batch_calibration.scoring.tokens import encode
from batch_calibration.typing import InputError

VERSION = "1"
WINDOW = 4096
"""Rows tokenized at a time: memory does not grow with the number of rows."""
BUDGET = {"cpu": 2048}
"""Most token positions in one batch, by backend: on CPUs a batch should stay in the caches."""
STEP = 32
"""Short rows are padded to a multiple of this: a program takes longer to compile than padding."""

Cache = tuple[tuple[jax.Array, jax.Array], ...]


class Past(NamedTuple):
    """The shared prefix: its true length, and each layer's keys and values as `keep` lays them."""

    length: int
    cache: Cache


class CausalLM:
    r"""Log-probability of each label as the continuation of each text.

    `log p(label | text)`, summed over the label's tokens, in nats.

    Example:
        scorer = CausalLM(load_checkpoint("checkpoints/gpt2"))
        scorer.score(["Review: fine\nSentiment:"], [" negative", " positive"]).log_probs

    Raises:
        InputError: the checkpoint is not of a causal family.
    """

    def __init__(self, checkpoint: Checkpoint, batch_size: int = 64):
        if not hasattr(checkpoint.model, "unembed"):
            raise InputError(
                f"{checkpoint.directory}: a {checkpoint.family} network has no next-token head; "
                "give a causal language model, or score with DualEncoder."
            )
        if batch_size < 1:
            raise InputError(f"batch_size: expected 1 or more rows, got {batch_size}.")
        self.checkpoint = checkpoint
        self.batch_size = batch_size
        self._graph, self._state = nnx.split(checkpoint.model)

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides the numbers; the batch size does not."""
        return {
            "kind": "causal_lm",
            "version": VERSION,
            "checkpoint": self.checkpoint.digest,
            "dtype": "float32",
        }

    def score(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Scores:
        """Score `labels` (continuations with their leading space) after each of `texts`.

        Returns:
            `log_probs [n k]` in nats and the prompts' token counts `[n]`, rows in the order given.

        Raises:
            InputError: a prompt and its labels exceed the model's positions; labels that are empty
                or equal as tokens; a score that is not a number.
        """
        scores = Scores(
            np.zeros((len(texts), len(labels)), np.float32), np.zeros(len(texts), np.int32)
        )
        for start in range(0, len(texts), WINDOW):
            part = slice(start, start + WINDOW)
            self._score(start, texts[part], labels, Scores(*(s[part] for s in scores)), progress)
        return scores

    def _score(
        self,
        start: int,
        texts: Sequence[str],
        labels: Sequence[str],
        scores: Scores,
        progress: Callable[[int], None] | None,
    ) -> None:
        """Fill the scores of one window of rows, the first of which is row `start` of them all."""
        prompts, ids = encode(self.checkpoint.tokenizer, texts, labels, self.checkpoint.bos, start)
        scores.tokens[:] = [len(prompt) for prompt in prompts]
        tries = [trie.grow(row) for row in ids]
        self._check_lengths(start, prompts, tries)
        nodes = power(max(len(t.tokens) for t in tries))
        places = max(t.slots.shape[1] for t in tries)
        budget = BUDGET.get(jax.default_backend(), 65536)
        running: deque[tuple[list[int], jax.Array]] = deque()
        done = start

        def collect() -> None:
            nonlocal done
            rows, result = running.popleft()
            values = np.asarray(result)[: len(rows)]
            if not np.isfinite(values).all():
                row, label = np.argwhere(~np.isfinite(values))[0]
                raise InputError(
                    f"row {start + rows[row]}, label {labels[label]!r}: expected a finite "
                    f"log-probability, got {values[row, label]}; the checkpoint's numbers overflow."
                )
            scores.log_probs[rows] = values
            done += len(rows)
            if progress:
                progress(done)

        for shared, members in group(prompts):
            prefix = self._prefix(prompts[members[0]][:shared])
            widths = [len(prompt) - shared + nodes for prompt in prompts]
            for rows, size, width in batches(members, widths, self.batch_size, budget, STEP):
                padded = rows + rows[:1] * (size - len(rows))
                tokens = np.zeros((size, width - nodes), np.int32)
                for place, row in enumerate(padded):
                    tokens[place, : len(prompts[row]) - shared] = prompts[row][shared:]
                lengths = np.array([len(prompts[row]) - shared for row in padded], np.int32)
                packed = trie.stack([tries[row] for row in padded], nodes, places)
                h = _rows(
                    self._graph,
                    self._state,
                    prefix,
                    tokens,
                    lengths,
                    packed.tokens,
                    packed.depths,
                    packed.ancestors,
                )
                result = _read(self._graph, self._state, h, packed.slots, packed.targets)
                running.append((rows, result))
                # One batch computes while the next is laid out, and no more wait in memory.
                if len(running) > 1:
                    collect()
        while running:
            collect()

    def _prefix(self, shared: list[int]) -> Past:
        if not shared:
            return Past(0, ())
        length = max(64, power(len(shared))) if len(shared) <= 512 else bucket(len(shared), 512)
        tokens = np.zeros((1, length), np.int32)
        tokens[0, : len(shared)] = shared
        positions = np.minimum(np.arange(tokens.size), len(shared) - 1)[None]
        cache = _run_prefix(self._graph, self._state, tokens, positions, len(shared))
        return Past(len(shared), cache)

    def _check_lengths(
        self, start: int, prompts: list[list[int]], tries: Sequence[trie.Trie]
    ) -> None:
        most = self.checkpoint.config.positions
        for row, (prompt, labels) in enumerate(zip(prompts, tries, strict=True)):
            need = len(prompt) + labels.slots.shape[1] - 1
            if need > most:
                raise InputError(
                    f"row {start + row}: a prompt of {len(prompt)} tokens needs {need} positions "
                    f"with its labels, but the model has {most}; use fewer or shorter "
                    "demonstrations, or cut the text."
                )


@partial(jax.jit, static_argnums=0)
def _run_prefix(
    graph: Any, state: Any, tokens: jax.Array, positions: jax.Array, length: jax.Array
) -> Cache:
    """Each layer's keys and values of the shared tokens `[1, s]`, of which `length` are real."""
    kept = []

    def attend(layer: int, q: jax.Array, k: jax.Array, v: jax.Array, **options: Any) -> jax.Array:
        kept.append(keep(k, v, length))
        return causal(layer, q, k, v, **options)

    nnx.merge(graph, state).hidden(tokens, positions, attend)
    return tuple(kept)


@partial(jax.jit, static_argnums=0)
def _rows(
    graph: Any,
    state: Any,
    prefix: Past,
    tokens: jax.Array,
    lengths: jax.Array,
    nodes: jax.Array,
    depths: jax.Array,
    ancestors: jax.Array,
) -> jax.Array:
    """Hidden states `[b, 1 + t, d]` that are read: the prompts' last tokens, then the nodes."""
    size, width = tokens.shape
    last = prefix.length + lengths[:, None] - 1
    # Padding stays at the last position: beyond the model's own it would embed as NaN.
    positions = jnp.concatenate(
        [jnp.minimum(prefix.length + jnp.arange(width), last), last + 1 + depths], axis=1
    )
    h = nnx.merge(graph, state).hidden(
        jnp.concatenate([tokens, nodes], axis=1),
        positions,
        _attention(prefix, positions, _tree_mask(lengths, ancestors, width)),
    )
    return jnp.concatenate([h[jnp.arange(size), lengths - 1][:, None], h[:, width:]], axis=1)


@partial(jax.jit, static_argnums=0)
def _read(graph: Any, state: Any, h: jax.Array, slots: jax.Array, targets: jax.Array) -> jax.Array:
    """Log-probabilities `[b, k]` of labels, a program of its own so that tasks share `_rows`."""
    logits = nnx.merge(graph, state).unembed(h).astype(jnp.float32)
    total = jax.nn.logsumexp(logits, axis=-1)
    row = jnp.arange(len(h))[:, None, None]
    log_probs = logits[row, slots, targets] - total[row, slots]
    return jnp.sum(log_probs, axis=-1, where=targets >= 0)


def _tree_mask(lengths: jax.Array, ancestors: jax.Array, width: int) -> jax.Array:
    """Who sees whom `[b, q + t, q + t]`: own tokens the earlier ones, a node those and its line."""
    nodes = ancestors.shape[1]
    place = jnp.arange(width + nodes)
    seen = (place[:width] <= place[:, None]) & (place[:width] < lengths[:, None, None])
    below = jnp.pad(ancestors, ((0, 0), (width, 0), (0, 0)))
    return jnp.concatenate([seen, below], axis=2)


def _attention(prefix: Past, positions: jax.Array, mask: jax.Array) -> Attend:
    """Attention of rows over themselves under `mask [b, t, t]` and over the shared prefix."""

    def attend(
        layer: int,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        *,
        scale: float | None = None,
        window: int | None = None,
        cap: float | None = None,
    ) -> jax.Array:
        near = mask if window is None else mask & within(positions, positions, window)
        here, here_mass = own(q, k, v, near, scale=scale, cap=cap)
        if not prefix.cache:
            return here
        keys, values = prefix.cache[layer]
        flat = q.reshape(-1, *q.shape[2:])
        seen = None
        if window is not None:
            seen = within(positions.reshape(-1), jnp.arange(len(keys)), window)
        there, there_mass = past(flat, keys, values, seen, scale=scale, cap=cap)
        share = jax.nn.sigmoid(there_mass.reshape(here_mass.shape) - here_mass)[..., None]
        return here + share.astype(here.dtype) * (there.reshape(here.shape) - here)

    return attend

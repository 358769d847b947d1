"""Scores labels with a causal language model that runs each unique token once.

What all prompts begin with is run once and its keys and values cached. Then each row is its own
tokens followed by the trie of its label tokens; rows attend to the cached keys with one dense
product, to themselves under a tree mask, and the two are merged by their log-sum-exps.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from os.path import commonprefix
from typing import NamedTuple, cast

import jax
import numpy as np
from flax import nnx

from batch_calibration.errors import InputError
from batch_calibration.models.checkpoint import Checkpoint
from batch_calibration.models.family import CausalNetwork
from batch_calibration.scoring import (
    NOTHING_FINISHED,
    Finished,
    Identity,
    ImageInputs,
    Inputs,
    LabelScores,
    LabelTexts,
    batch_memory,
    label_texts,
    programs,
    sharding,
    trie,
)
from batch_calibration.scoring.batches import group
from batch_calibration.scoring.packing import Layout, PackedSequence, lay_out, pack
from batch_calibration.scoring.reading import read_targets
from batch_calibration.scoring.tokens import Encoded, encode

VERSION = "1"
TOKENIZED_ROWS = {"cpu": 1024}
"""Rows tokenized at a time, by backend: memory does not grow with the number of rows."""
CHUNK = 1024
"""Most tokens of a prefix that are run at once: the memory of attention grows with their square."""
STEP = 128
"""Prefixes are padded to a multiple of this, which keeps the compiled programs few."""


class PrefixCache(NamedTuple):
    """The tokens of a prefix that was run, and its keys and values."""

    tokens: list[int]
    cache: programs.Cache


class CausalLM:
    r"""Log-probability of each label as the continuation of each text.

    `log p(label | text)`, summed over the label's tokens, in nats. A label of several texts, its
    surface forms, has the sum of their probabilities.

    With `logits_only`, labels must be one token each, and scores are their bare logits: they miss
    one constant per row, the log of the softmax's denominator, which no prediction of ICL, CC, DC,
    BC, PC or BCL depends on, and the product with the whole vocabulary is saved.

    On a mesh (`load_checkpoint(..., mesh=...)`) the devices along `data` share the rows.

    Example:
        scorer = CausalLM(load_checkpoint("checkpoints/gpt2"))
        scorer.score(["Review: fine\nSentiment:"], [" negative", " positive"]).log_probs

    Args:
        checkpoint: A causal language model and its tokenizer.
        batch_size: Most rows in a batch; memory decides for fewer where rows are long.
        logits_only: Leave the softmax's denominator out.

    Raises:
        InputError: the checkpoint is not of a causal family.
    """

    def __init__(self, checkpoint: Checkpoint, batch_size: int = 256, logits_only: bool = False):
        if checkpoint.kind != "causal_lm":
            raise InputError(
                f"{checkpoint.directory}: a {checkpoint.model_type} network has no next-token "
                "head; give a causal language model, or score with DualEncoder."
            )
        if batch_size < 1:
            raise InputError(f"batch_size: expected 1 or more rows, got {batch_size}.")
        self.checkpoint = checkpoint
        self.batch_size = batch_size
        self.logits_only = logits_only
        self.notes: list[str] = []
        self._graph, self._state = nnx.split(cast(CausalNetwork, checkpoint.model))
        self._whole = sharding.whole(checkpoint.mesh)
        self._vocabulary = checkpoint.config.vocab_size
        self._attention = programs.attention_kind(
            jax.default_backend(), checkpoint.dtype, checkpoint.mesh is not None
        )
        self._budget = batch_memory.budget(checkpoint, logits=self._attention == "at once")
        self._prefix = PrefixCache([], ())

    @property
    def identity(self) -> Identity:
        """All that decides the numbers; batches and devices do not."""
        return {
            "kind": "causal_lm",
            "version": VERSION,
            "checkpoint": self.checkpoint.digest,
            "dtype": self.checkpoint.dtype,
            **({"logits_only": True} if self.logits_only else {}),
        }

    def score(
        self,
        inputs: Inputs,
        labels: LabelTexts,
        *,
        progress: Callable[[int], None] | None = None,
        finished: Finished = NOTHING_FINISHED,
    ) -> LabelScores:
        """Score `labels` (continuations with their leading space) after each text of `inputs`.

        Returns:
            `log_probs [n k]` in nats and the prompts' token counts `[n]`, rows in the order given.

        Raises:
            InputError: images; a prompt and its labels exceed the model's positions; labels that
                are empty or equal as tokens, or of several tokens with `logits_only`; a score that
                is not a number; a single packed sequence does not fit in the device's memory.
        """
        if isinstance(inputs, ImageInputs):
            raise InputError(
                f"{self.checkpoint.directory}: a {self.checkpoint.model_type} network reads text "
                "alone; score images with DualEncoder and a CLIP checkpoint."
            )
        forms, counts = label_texts.flatten(labels)
        if finished is not NOTHING_FINISHED:
            # What was scored before must not decide the last bits of what is kept.
            self._prefix = PrefixCache([], ())
        log_probs = np.zeros((len(inputs), len(forms)), np.float32)
        tokens = np.zeros(len(inputs), np.int32)
        had = finished.rows
        for row, value in had.items():
            log_probs[row] = value
        done = len(had)
        for start, encoded in self._encode(inputs, forms):
            part = slice(start, start + len(encoded.prompts))
            tries = [trie.build_trie(row) for row in encoded.labels]
            self._check(start, encoded.prompts, tries)
            tokens[part] = [len(prompt) for prompt in encoded.prompts]
            done_here = {row - start for row in had}
            for rows, values in self._run(encoded.prompts, tries, done_here):
                if not np.isfinite(values).all():
                    row, form = np.argwhere(~np.isfinite(values))[0]
                    raise InputError(
                        f"row {start + rows[row]}, label {forms[form]!r}: expected a finite "
                        f"log-probability, got {values[row, form]}; the checkpoint's numbers "
                        "overflow."
                    )
                log_probs[part][rows] = values
                finished.add([start + row for row in rows], values)
                done += len(rows)
                if progress:
                    progress(done)
        return LabelScores(label_texts.sum_probabilities(log_probs, counts), tokens)

    def _encode(self, texts: Sequence[str], labels: Sequence[str]) -> Iterator[tuple[int, Encoded]]:
        """Some rows at a time as token ids, the next ones tokenized while these are scored."""
        read = partial(encode, self.checkpoint.tokenizer, labels=labels, bos=self.checkpoint.bos)
        with ThreadPoolExecutor(1) as pool:
            ahead = deque[tuple[int, Future[Encoded]]]()
            rows = TOKENIZED_ROWS.get(jax.default_backend(), 8192)
            for start in range(0, len(texts), rows):
                ahead.append((start, pool.submit(read, texts[start : start + rows], first=start)))
                if len(ahead) > 1:
                    before, future = ahead.popleft()
                    yield before, future.result()
            for before, future in ahead:
                yield before, future.result()

    def _run(
        self, prompts: list[list[int]], tries: Sequence[trie.Trie], done: set[int]
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Row numbers of each batch with a row not `done`, their log-probabilities `[rows, k]`."""
        running: deque[tuple[list[PackedSequence], list[jax.Array]]] = deque()
        for shared, members in group(prompts):
            prefix = self._run_prefix(prompts[members[0]][:shared])
            lengths = [len(p) - shared + len(t.tokens) for p, t in zip(prompts, tries, strict=True)]
            skipping = self._budget if self._attention == "fused" else 0
            waiting = pack(members, lengths, self.batch_size, skipping)
            while waiting or running:
                try:
                    # One batch computes while the next is laid out, and no more wait in memory.
                    if waiting and len(running) < 2:
                        batch, size = self._batch(waiting)
                        if done.issuperset(row for packed in batch for row in packed.rows):
                            waiting = waiting[len(batch) :]
                            continue
                        layout = lay_out(batch, size, shared, prompts, tries)
                        parts = self._forward(prefix, layout)
                        for part in parts:
                            part.copy_to_host_async()
                        running.append((batch, parts))
                        waiting = waiting[len(batch) :]
                        continue
                    values = np.concatenate([np.asarray(part) for part in running[0][1]])
                except jax.errors.JaxRuntimeError as error:
                    waiting = [packed for batch, _ in running for packed in batch] + waiting
                    running.clear()
                    self._halve(error, waiting[0].length)
                    continue
                batch, _ = running.popleft()
                rows = [row for packed in batch for row in packed.rows]
                yield rows, trie.sums(values, [tries[row] for row in rows])

    def _batch(self, sequences: list[PackedSequence]) -> tuple[list[PackedSequence], int]:
        """The first sequences, of one length and as many as fit, and how many the program takes.

        Batches of one length are alike in size, which leaves little of the last one empty.
        """
        length, rows, count = sequences[0].length, 0, 0
        most = self._most(length)
        alike = next((i for i, one in enumerate(sequences) if one.length != length), len(sequences))
        even = -(-alike // -(-alike // most))
        step = max(1, most // 8)
        size = min(most, -(-even // step) * step)
        for packed in sequences[: min(size, alike)]:
            rows += len(packed.rows)
            if rows > self.batch_size and count:
                break
            count += 1
        step = sharding.rows_of(self.checkpoint.mesh)
        return sequences[:count], -(-size // step) * step

    def _most(self, length: int) -> int:
        """Most sequences of a length in a batch."""
        return max(1, self._budget // length)

    def _halve(self, error: Exception, length: int) -> None:
        """Smaller batches from now on if the device is out of memory; other errors go on."""
        self._budget = batch_memory.halve(self._budget, error, length)
        self.notes.append(
            f"out of memory: batches were halved to {self._budget} token positions, and no row "
            "was lost"
        )

    def _forward(self, prefix: PrefixCache, layout: Layout) -> list[jax.Array]:
        """Log-probabilities `[m, c]` of what a layout reads, in parts, not waited for."""
        mesh = self.checkpoint.mesh
        arrays = sharding.over_rows(mesh, (layout.tokens, layout.positions, layout.ends))
        h = programs.forward_packed(
            self._graph, self._attention, self._state, prefix.cache, *arrays
        )
        return read_targets(
            self._graph, self._whole, self._vocabulary, self._state, h, layout,
            normalized=not self.logits_only,
        )  # fmt: skip

    def _run_prefix(self, tokens: list[int]) -> PrefixCache:
        """The shared tokens, run from where they leave those that were run last."""
        before, cache = self._prefix
        if tokens == before or not tokens:
            return self._prefix if tokens else PrefixCache([], ())
        start = min(len(commonprefix([before, tokens])), len(tokens) - 1)  # noqa: RUF071
        if start < STEP:
            start, cache = 0, ()
        size = -(-len(tokens) // STEP) * STEP
        while start < len(tokens):
            part = tokens[start : start + CHUNK]
            padded = np.zeros((1, -(-len(part) // STEP) * STEP), np.int32)
            padded[0, : len(part)] = part
            cache = programs.prefill(
                self._graph, size, self._attention, self._state, cache, start,
                padded, len(part),
            )  # fmt: skip
            start += len(part)
        self._prefix = PrefixCache(tokens, cache)
        return self._prefix

    def _check(self, start: int, prompts: list[list[int]], tries: Sequence[trie.Trie]) -> None:
        most = self.checkpoint.config.positions
        for row, (prompt, labels) in enumerate(zip(prompts, tries, strict=True)):
            need = len(prompt) + labels.paths.shape[1] - 1
            if need > most:
                raise InputError(
                    f"row {start + row}: a prompt of {len(prompt)} tokens needs {need} positions "
                    f"with its labels, but the model has {most}; use fewer or shorter "
                    "demonstrations, or cut the text."
                )
            if self.logits_only and len(labels.tokens):
                raise InputError(
                    f"row {start + row}: with logits_only every label must be one token, but one "
                    f"has {labels.paths.shape[1]}; choose other label words, or leave it off."
                )

"""Label scores from a causal language model that is asked for each unique token once.

What all prompts begin with is run once and its keys and values kept. Then each row is its own
tokens followed by the packed trie of its label tokens; rows attend to the shared keys with one
dense product, to themselves under a tree mask, and the two are merged by their log-sum-exps.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os.path import commonprefix
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx

from batch_calibration.errors import InputError
from batch_calibration.models.checkpoint import Checkpoint
from batch_calibration.scoring import Scores, programs, sharding, trie
from batch_calibration.scoring.batches import group, power
from batch_calibration.scoring.packing import Layout, Line, lay_out, pack
from batch_calibration.scoring.tokens import Encoded, encode

VERSION = "1"
WINDOW = {"cpu": 1024}
"""Rows tokenized at a time, by backend: memory does not grow with the number of rows."""
BUDGET = {"cpu": 2048}
"""Most token positions in one batch, by backend: on CPUs a batch should stay in the caches."""
CHUNK = 1024
"""Most tokens of a prefix that are run at once: the memory of attention grows with their square."""
STEP = 128
"""Prefixes are padded to a multiple of this, which keeps the compiled programs few."""


class Past(NamedTuple):
    """A prefix that was run: its tokens, and its keys and values."""

    tokens: list[int]
    cache: programs.Cache


class CausalLM:
    r"""Log-probability of each label as the continuation of each text.

    `log p(label | text)`, summed over the label's tokens, in nats.

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
        if not hasattr(checkpoint.model, "unembed"):
            raise InputError(
                f"{checkpoint.directory}: a {checkpoint.family} network has no next-token head; "
                "give a causal language model, or score with DualEncoder."
            )
        if batch_size < 1:
            raise InputError(f"batch_size: expected 1 or more rows, got {batch_size}.")
        self.checkpoint = checkpoint
        self.batch_size = batch_size
        self.logits_only = logits_only
        self.notes: list[str] = []
        self._budget = BUDGET.get(jax.default_backend(), 65536)
        self._graph, self._state = nnx.split(checkpoint.model)
        self._whole = sharding.whole(checkpoint.mesh)
        self._past = Past([], ())

    @property
    def identity(self) -> dict[str, Any]:
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
                or equal as tokens, or of several tokens with `logits_only`; a score that is not a
                number; a single line of tokens that does not fit in the device's memory.
        """
        scores = Scores(
            np.zeros((len(texts), len(labels)), np.float32), np.zeros(len(texts), np.int32)
        )
        done = 0
        for start, encoded in self._encode(texts, labels):
            part = slice(start, start + len(encoded.prompts))
            tries = [trie.grow(row) for row in encoded.labels]
            self._check(start, encoded.prompts, tries)
            scores.tokens[part] = [len(prompt) for prompt in encoded.prompts]
            for rows, log_probs in self._run(encoded.prompts, tries):
                if not np.isfinite(log_probs).all():
                    row, label = np.argwhere(~np.isfinite(log_probs))[0]
                    raise InputError(
                        f"row {start + rows[row]}, label {labels[label]!r}: expected a finite "
                        f"log-probability, got {log_probs[row, label]}; the checkpoint's numbers "
                        "overflow."
                    )
                scores.log_probs[part][rows] = log_probs
                done += len(rows)
                if progress:
                    progress(done)
        return scores

    def _encode(self, texts: Sequence[str], labels: Sequence[str]) -> Iterator[tuple[int, Encoded]]:
        """Windows of rows as token ids, the next one tokenized while this one is scored."""
        read = partial(encode, self.checkpoint.tokenizer, labels=labels, bos=self.checkpoint.bos)
        with ThreadPoolExecutor(1) as pool:
            ahead = deque[Any]()
            window = WINDOW.get(jax.default_backend(), 8192)
            for start in range(0, len(texts), window):
                ahead.append((start, pool.submit(read, texts[start : start + window], first=start)))
                if len(ahead) > 1:
                    before, future = ahead.popleft()
                    yield before, future.result()
            for before, future in ahead:
                yield before, future.result()

    def _run(
        self, prompts: list[list[int]], tries: Sequence[trie.Trie]
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Row numbers of each batch and their log-probabilities `[rows, k]`."""
        running: deque[tuple[list[Line], jax.Array]] = deque()
        for shared, members in group(prompts):
            prefix = self._prefix(prompts[members[0]][:shared])
            lengths = [len(p) - shared + len(t.tokens) for p, t in zip(prompts, tries, strict=True)]
            lines = pack(members, lengths, self.batch_size)
            while lines or running:
                try:
                    # One batch computes while the next is laid out, and no more wait in memory.
                    if lines and len(running) < 2:
                        batch, size = self._batch(lines)
                        layout = lay_out(batch, size, shared, prompts, tries)
                        running.append((batch, self._ask(prefix, layout)))
                        lines = lines[len(batch) :]
                        continue
                    values = np.asarray(running[0][1])
                except jax.errors.JaxRuntimeError as error:
                    lines = [line for batch, _ in running for line in batch] + lines
                    running.clear()
                    self._halve(error, lines[0].length)
                    continue
                batch, _ = running.popleft()
                rows = [row for line in batch for row in line.rows]
                yield rows, _sums(values, [tries[row] for row in rows])

    def _batch(self, lines: list[Line]) -> tuple[list[Line], int]:
        """The first lines, of one length and as many as fit, and how many the program takes."""
        length, rows, count = lines[0].length, 0, 0
        most = self._lines(length)
        for line in lines[:most]:
            rows += len(line.rows)
            if line.length != length or (rows > self.batch_size and count):
                break
            count += 1
        size = most
        while size // 2 >= max(count, most // 8, 1):
            size //= 2
        step = sharding.rows_of(self.checkpoint.mesh)
        return lines[:count], -(-size // step) * step

    def _lines(self, length: int) -> int:
        """Most lines of a length in a batch."""
        return max(1, self._budget // length)

    def _halve(self, error: Exception, length: int) -> None:
        """Smaller batches from now on if the device is out of memory; other errors go on."""
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise error
        if self._lines(length) == 1:
            raise InputError(
                f"the device's memory does not hold one line of {length} tokens beside the "
                "network; use a larger device, a mesh (config.mesh), or a narrower config.dtype."
            ) from error
        self._budget //= 2
        self.notes.append(
            f"out of memory: batches were halved to {self._budget} token positions, and no row "
            "was lost"
        )

    def _ask(self, past: Past, layout: Layout) -> jax.Array:
        """Log-probabilities `[m, c]` of the tokens that a layout reads, not waited for."""
        mesh = self.checkpoint.mesh
        lines = sharding.over_rows(mesh, (layout.tokens, layout.positions, layout.ends))
        h = programs.rows(self._graph, mesh is not None, self._state, past.cache, *lines)
        if not self.logits_only:
            return programs.read(
                self._graph, self._whole, self._state, h, layout.slots, layout.targets,
                layout.reads,
            )  # fmt: skip
        tokens, places = np.unique(layout.targets, return_inverse=True)
        padded = np.zeros(max(8, power(len(tokens))), np.int32)
        padded[: len(tokens)] = tokens
        return programs.read_logits(
            self._graph, self._whole, self._state, h, layout.slots, padded,
            places.reshape(layout.targets.shape),
        )  # fmt: skip

    def _prefix(self, tokens: list[int]) -> Past:
        """The shared tokens, run from where they leave those that were run last."""
        before, cache = self._past
        if tokens == before or not tokens:
            return self._past if tokens else Past([], ())
        start = min(len(commonprefix([before, tokens])), len(tokens) - 1)  # noqa: RUF071
        if start < STEP:
            start, cache = 0, ()
        size = -(-len(tokens) // STEP) * STEP
        while start < len(tokens):
            part = tokens[start : start + CHUNK]
            padded = np.zeros((1, -(-len(part) // STEP) * STEP), np.int32)
            padded[0, : len(part)] = part
            cache = programs.extend(
                self._graph, size, self.checkpoint.mesh is not None, self._state, cache, start,
                padded, len(part),
            )  # fmt: skip
            start += len(part)
        self._past = Past(tokens, cache)
        return self._past

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


def _sums(values: np.ndarray, tries: Sequence[trie.Trie]) -> np.ndarray:
    """Log-probabilities `[rows, k]` from those of each slot `[m, c]`, row after row."""
    sums = np.zeros((len(tries), len(tries[0].paths)), np.float32)
    start = 0
    for row, (_, _, _, targets, paths) in enumerate(tries):
        slots, width = targets.shape
        read = values[start : start + slots, :width].ravel()
        sums[row] = np.sum(read[paths], axis=1, where=paths >= 0)
        start += slots
    return sums

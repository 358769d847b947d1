"""Runs prompts and their label tries through a causal network, batch by batch.

The device's memory decides how many token positions a batch has. Label scores are read from the
hidden states of packed sequences.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import accumulate, chain, takewhile
from os.path import commonprefix
from threading import Lock
from typing import NamedTuple, cast

import jax
import numpy as np
from flax import nnx
from jax.experimental import multihost_utils

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.engine import packing, programs, sharding, trie
from batch_calibration.scoring.engine.batches import group_prompts, power
from batch_calibration.scoring.models.family import CausalNetwork
from batch_calibration.scoring.models.files import memory
from batch_calibration.scoring.models.files.checkpoint import Checkpoint
from batch_calibration.scoring.models.layers import exactness

PREFIX_CHUNK = 1024
"""Maximum tokens of a prefix that run at once: attention's memory grows with their square."""
STEP = 64
"""Prefixes are padded to a multiple of this, which keeps the number of compiled programs small."""
THREADS = 2
"""Batches that run at once on a CPU: XLA's single-threaded parts leave a core for another batch."""
READ_AFTER = 4096
"""On CPUs, pending reads are flushed after this many positions: small reads are slow."""
CPU_POSITIONS = 1024
"""Positions of a batch on CPUs, where a batch should fit in the caches."""
MAX_POSITIONS, MIN_POSITIONS = 65536, 128
"""Bounds of a batch's positions on accelerators. More would not be faster, and a sequence is no
shorter."""
TPU_POSITIONS = 8192
"""Most positions of a batch on a TPU, where states should fit in the chip's own 128 MB."""
BUDGETED_KEYS = 2048
"""Keys of a prefix and a sequence for which memory is budgeted if attention keeps logits."""
MAX_READS = 512
"""Maximum positions that are unembedded at once: the logits of all positions might not fit."""
READ_STEP = 32
"""Reads are padded to a multiple of this, which keeps the number of compiled programs small."""
VOCABULARY_SPAN = {"cpu": 2048}
"""Vocabulary words per chunk of logits, by backend. Other backends compute all logits at once."""


ReadScores = tuple[jax.Array, int]
"""Log-probabilities of some reads and their number; the rest of the array is padding."""


class PrefixCache(NamedTuple):
    """The tokens of a prefix, and its keys and values."""

    tokens: list[int]
    cache: programs.Cache


class SequenceBatch(NamedTuple):
    """Sequences of one length, and the number of sequences that the program takes."""

    sequences: list[packing.PackedSequence]
    size: int


class _Sent(NamedTuple):
    """Batches that run, and a function that waits for their log-probabilities."""

    batches: list[SequenceBatch]
    values: Callable[[], np.ndarray]

    @property
    def sequences(self) -> list[packing.PackedSequence]:
        return list(chain.from_iterable(batch.sequences for batch in self.batches))


class Forward:
    """A causal network on its devices, its cached prefix, and its batches.

    On a CPU, two batches run at once in threads, and the hidden states of several batches are read
    together. `jax.config` applies in these threads, but context managers such as `jax.debug_nans`
    do not. On other devices, a batch is sent while the batch before it runs.

    Attributes:
        notes: sentences on the run for the user.
        prefix: the prefix that ran last.

    Args:
        checkpoint: a causal language model and its tokenizer.
        batch_size: maximum rows in a batch.
        normalized: whether to subtract the log of the softmax's denominator.
    """

    def __init__(self, checkpoint: Checkpoint, batch_size: int, normalized: bool):
        self.notes: list[str] = []
        self.prefix = PrefixCache([], ())
        self._graph, self._state = nnx.split(cast(CausalNetwork, checkpoint.model))
        self._mesh = checkpoint.mesh  # None: one device
        self._vocabulary = checkpoint.config.vocab_size
        self._batch_size, self._normalized = batch_size, normalized
        kind = programs.attention_kind(
            jax.default_backend(), checkpoint.dtype, checkpoint.mesh is not None
        )
        self._attention = programs.Attention(kind, checkpoint.mesh)
        self._precision = partial(jax.default_matmul_precision, exactness(checkpoint.dtype))
        self._budget = budget(checkpoint, logits=kind == "at once")
        self._compiled: set[tuple[int, ...]] = set()  # shapes that both threads may run
        self._compiling = Lock()

    def run(
        self, prompts: list[list[int]], tries: Sequence[trie.Trie], done: set[int]
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yields row indices and their log-probabilities `[rows, k]`.

        Batches with only finished rows are skipped.

        Args:
            prompts: token ids.
            tries: the label trie of each prompt.
            done: rows that need no scores.

        Raises:
            InputError: a single sequence does not fit in the device's memory.
        """
        threads = ThreadPoolExecutor(THREADS) if self._on_threads else None
        try:
            extra = [len(trie_of_row.tokens) for trie_of_row in tries]
            for shared, members in group_prompts(prompts, packing.SHORTEST):
                self._run_prefix(prompts[members[0]][:shared])
                waiting = packing.pack_prompts(members, prompts, shared, extra, self._batch_size)
                yield from self._batches(waiting, shared, prompts, tries, done, threads)
        finally:
            if threads:
                threads.shutdown(wait=False, cancel_futures=True)

    @property
    def _on_threads(self) -> bool:
        return jax.default_backend() == "cpu" and self._mesh is None

    def _batches(
        self,
        waiting: list[packing.PackedSequence],
        shared: int,
        prompts: list[list[int]],
        tries: Sequence[trie.Trie],
        done: set[int],
        threads: ThreadPoolExecutor | None,
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        running: deque[_Sent] = deque()
        while waiting or running:
            try:
                # One batch runs while the next is laid out. At most two are in memory.
                if waiting and len(running) < 2:
                    batches = self._next(waiting)
                    count = sum(len(batch.sequences) for batch in batches)
                    if not done.issuperset(chain.from_iterable(p.rows for p in waiting[:count])):
                        layouts = [packing.lay_out(*b, shared, prompts, tries) for b in batches]
                        running.append(_Sent(batches, self._send(layouts, threads)))
                    waiting = waiting[count:]
                    continue
                values = running[0].values()
            except jax.errors.JaxRuntimeError as error:
                # Sequences that were sent go back to the queue, in order, for smaller batches.
                waiting = [*chain.from_iterable(sent.sequences for sent in running), *waiting]
                running.clear()
                self._budget = halve(self._budget, error, waiting[0].length)
                self.notes.append(
                    f"out of memory: batches were halved to {self._budget} token positions, and no "
                    "row was lost"
                )
                continue
            rows = list(chain.from_iterable(packed.rows for packed in running.popleft().sequences))
            yield rows, trie.sums(values, [tries[row] for row in rows])

    def _next(self, waiting: list[packing.PackedSequence]) -> list[SequenceBatch]:
        """Plans the batches that are read together: one, or several on a CPU."""
        batches: list[SequenceBatch] = []
        positions, count = 0, 0
        while waiting[count:] and (not batches or (self._on_threads and positions < READ_AFTER)):
            batches.append(self._batch(waiting[count:]))
            positions += batches[-1].size * waiting[count].length
            count += len(batches[-1].sequences)
        return batches

    def _batch(self, sequences: list[packing.PackedSequence]) -> SequenceBatch:
        """Plans a batch from the first sequences, all of one length.

        Batches of one length have similar sizes, so that the last one has little padding.
        """
        length, rows, count = sequences[0].length, 0, 0
        most = max(1, self._budget // length)  # sequences
        alike = list(takewhile(lambda packed: packed.length == length, sequences))
        # The sequences are divided evenly among the fewest possible batches. The size is rounded
        # up to an eighth of the maximum, so that a length has at most eight programs.
        total = sum(len(packed.rows) for packed in alike)
        batches = max(-(-len(alike) // most), -(-total // self._batch_size))
        even = -(-len(alike) // batches)
        step = max(1, most // 8)
        size = min(most, -(-even // step) * step)
        for packed in alike[:size]:
            rows += len(packed.rows)
            if rows > self._batch_size and count:  # A batch has at least one sequence.
                break
            count += 1
        step = sharding.row_multiple(self._mesh)
        return SequenceBatch(sequences[:count], -(-size // step) * step)

    def _send(
        self, layouts: list[packing.Layout], threads: ThreadPoolExecutor | None
    ) -> Callable[[], np.ndarray]:
        """Starts to run batches; the returned function waits for the log-probabilities `[e]`."""
        cache = self.prefix.cache
        if threads is None:
            (layout,) = layouts  # `_next` plans several only on CPUs.
            h = self._hidden(cache, layout)
            scores = self._read(h, layout.reads, layout.targets, layout.slots)
            for log_probs, _ in scores:
                log_probs.copy_to_host_async()  # The copy overlaps with the next batch.
            return partial(wait, scores)
        futures = [threads.submit(self._states_read, cache, layout) for layout in layouts]
        # The hidden states of all batches are concatenated, so each batch's reads are shifted.
        before = accumulate((len(layout.slots) for layout in layouts), initial=0)
        reads = [n + layout.reads for n, layout in zip(before, layouts, strict=False)]
        targets = np.concatenate([layout.targets for layout in layouts])

        def values() -> np.ndarray:
            h = np.concatenate(list(map(Future.result, futures)))
            return wait(self._read(h, np.concatenate(reads), targets))

        return values

    def _states_read(self, cache: programs.Cache, layout: packing.Layout) -> np.ndarray:
        """Returns the hidden states `[m, d]` that a layout reads; it waits for them in a thread."""
        key = *layout.tokens.shape, cache[0].shape[1] if cache else 0  # identifies the program
        # The lock keeps both threads from compiling the same program.
        with nullcontext() if key in self._compiled else self._compiling:
            h = np.asarray(self._hidden(cache, layout))
            self._compiled.add(key)
        return np.asarray(h[layout.slots])

    def _hidden(self, cache: programs.Cache, layout: packing.Layout) -> jax.Array:
        """Computes hidden states `[b t, d]` of a layout after a prefix without waiting for them."""
        arrays = (layout.tokens, layout.positions, layout.ends)
        placed = sharding.shard_rows(self._mesh, arrays)
        network = self._graph, self._attention, self._state
        with self._precision():
            h: jax.Array = programs.forward_packed(*network, cache, *placed)
        return h

    def _read(
        self,
        h: jax.Array | np.ndarray,
        reads: np.ndarray,
        targets: np.ndarray,
        slots: np.ndarray | None = None,
    ) -> list[ReadScores]:
        """Computes log-probabilities `[e]` of target tokens in chunks, without waiting for them.

        Args:
            h: hidden states `[b t, d]` of all slots; or `[m, d]` of read slots if `slots` is None.
            reads: `[e]` index of the hidden state that each read follows, ascending.
            targets: `[e]` token that each read scores.
            slots: `[m]` indices of the read slots, or None.
        """
        # Each token is unembedded once. Powers of two keep the number of compiled programs small.
        tokens, indices = np.unique(targets, return_inverse=True)
        tokens = np.pad(tokens, (0, max(8, power(len(tokens))) - len(tokens)))
        # On a mesh, each device computes its part of the vocabulary at once.
        home, vocabulary = sharding.replicated(self._mesh), self._vocabulary
        spans = VOCABULARY_SPAN if home is None else {}
        words = spans.get(jax.default_backend(), vocabulary) if self._normalized else None
        scores: list[ReadScores] = []
        for start in range(0, int(reads[-1]) + 1, MAX_READS):
            count = min(MAX_READS, int(reads[-1]) + 1 - start)
            padding = (0, -count % READ_STEP)
            if slots is None:
                states = np.pad(h[start : start + count], (padding, (0, 0)))
            else:
                states = programs.take(h, np.pad(slots[start : start + count], padding))
            # These reads follow the states of this chunk.
            first, last = np.searchsorted(reads, (start, start + count)).tolist()
            size = power(last - first) - (last - first)
            after = np.pad(reads[first:last] - start, (0, size))
            picked = np.pad(indices[first:last], (0, size))
            with self._precision():
                log_probs = programs.read(
                    self._graph, home, vocabulary, words, self._state, states, tokens, after, picked
                )
            scores.append((log_probs, last - first))
        return scores

    def _run_prefix(self, tokens: list[int]) -> None:
        """Runs the shared tokens, from where they differ from the prefix that ran last."""
        before, cache = self.prefix
        if tokens == before:
            return
        if not tokens:
            self.prefix = PrefixCache([], ())
            return
        start = min(len(commonprefix([before, tokens])), len(tokens) - 1)  # noqa: RUF071
        if start < STEP:
            start, cache = 0, ()  # A short common part is not worth a program of another size.
        size = -(-len(tokens) // STEP) * STEP  # positions of the cache
        while start < len(tokens):
            chunk = tokens[start : start + PREFIX_CHUNK]
            count = len(chunk)
            padded = np.zeros((1, -(-count // STEP) * STEP), np.int32)
            padded[0, :count] = chunk
            with self._precision():
                cache = programs.prefill(
                    self._graph, size, self._attention, self._state, cache, start, padded, count
                )
            start += count
        self.prefix = PrefixCache(tokens, cache)


def budget(checkpoint: Checkpoint, logits: bool) -> int:
    """Returns the token positions of a batch on the devices that hold a checkpoint.

    `logits` is True if attention keeps a float32 logit for each head and pair at once.
    """
    if jax.default_backend() == "cpu":
        return CPU_POSITIONS
    config, mesh = checkpoint.config, checkpoint.mesh
    state = jax.tree_util.tree_leaves_with_path(nnx.state(checkpoint.model))
    # Outputs of all matrices, divided by the layers.
    kernels = [leaf for path, leaf in state if "kernel" in jax.tree_util.keystr(path)]
    outputs = [leaf.size // leaf.shape[-2] for leaf in kernels]  # of all layers, if stacked
    written = sum(outputs) // config.layers
    keys = min(BUDGETED_KEYS, config.positions) if logits else 0
    size = 4 if checkpoint.dtype == "float32" else 2  # bytes of a number
    # Each key has one byte in the mask.
    a_position = position_bytes(config.width, written, config.heads * keys, size) + keys
    rows = 1 if mesh is None else mesh.shape["data"]  # devices that share the rows
    # All processes run the same programs, so the least memory of all processes decides.
    free = multihost_utils.process_allgather(np.float32(memory.available(jax.local_devices()[0])))
    return rows * positions(float(np.min(free)), a_position, max_positions())


def position_bytes(width: int, written: int, pairs: int, size: int) -> int:
    """Estimates the bytes that a position takes while a layer runs, with its hidden state.

    Each output of the layer's matrices counts twice, for itself and a derived array, such as
    rotated queries or the MLP's product. The residual and its norm are float32. Each logit counts
    twice, for itself and its exponential.

    Args:
        width: Hidden size.
        written: Outputs of one layer's matrices for a position.
        pairs: Attention logits that are kept for a position.
        size: Bytes of a number.

    >>> position_bytes(width=1024, written=12_288, pairs=0, size=2)  # Qwen3-0.6B, no logits kept
    63488
    """
    return size * (2 * written + 3 * width) + 8 * width + 8 * pairs


def max_positions() -> int:
    """Returns the most positions of a batch on one accelerator."""
    return TPU_POSITIONS if jax.default_backend() == "tpu" else MAX_POSITIONS


def positions(free: float, a_position: int, most: int = MAX_POSITIONS) -> int:
    """Returns the power of two of positions that fit in half of the free bytes, at most `most`.

    The other half is for a second batch that waits, and for the programs' own memory.

    >>> positions(100e9, 63_488), positions(2e9, 63_488), positions(1e6, 63_488)
    (65536, 8192, 128)
    """
    fit = min(free / 2 / a_position, most)  # `free` may be infinite.
    return max(MIN_POSITIONS, 1 << (int(fit).bit_length() - 1)) if fit >= 1 else MIN_POSITIONS


def halve(positions: int, error: Exception, length: int) -> int:
    """Halves the positions if a batch ran out of memory, and raises any other error again.

    Args:
        positions: Positions of the batch that failed.
        error: The error of the batch.
        length: Positions of one sequence of the batch.

    Raises:
        InputError: the batch was a single sequence.
    """
    if "RESOURCE_EXHAUSTED" not in str(error):  # XLA's name of this error
        raise error
    if positions < 2 * length:
        expected = f"room for one sequence of {length} tokens beside the network"
        remedy = f"use a larger device, {spell('mesh')}, or a narrower {spell('dtype')}"
        raise InputError.at("the device's memory", expected, "", remedy) from error
    return positions // 2


def wait(scores: Sequence[ReadScores]) -> np.ndarray:
    """Waits for the log-probabilities `[e]` of all chunks."""
    return np.concatenate([np.asarray(log_probs)[:reads] for log_probs, reads in scores])

"""Runs prompts and their label tries through a causal network, batch by batch.

The memory of the device decides how many token positions a batch has; label scores are read off the
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
"""Most tokens of a prefix that are run at once: the memory of attention grows with their square."""
STEP = 64
"""Prefixes are padded to a multiple of this, which keeps the compiled programs few."""
THREADS = 2
"""Batches that run at once on a CPU: what XLA does in one thread leaves a core for the other."""
READ_AFTER = 4096
"""Positions on a CPU after which what is to be read is read: few reads at once are slow."""
CPU_POSITIONS = 1024
"""Positions on CPUs, where a batch should stay in the caches."""
MAX_POSITIONS, MIN_POSITIONS = 65536, 128
"""Positions on accelerators: more would be no faster, and a sequence is no shorter."""
BUDGETED_KEYS = 2048
"""Keys of a prefix and a sequence that memory is laid out for where logits are kept."""
MAX_READS = 512
"""Most positions that are unembedded at once: logits of all might not fit."""
READ_STEP = 32
"""They are padded to a multiple of this, which keeps the compiled programs few."""
VOCABULARY_SPAN = {"cpu": 2048}
"""Words of the vocabulary whose logits are computed at a time, by backend; elsewhere all."""


ReadScores = tuple[jax.Array, int]
"""Log-probabilities of some reads, the first so many of an array; the others are padding."""


class PrefixCache(NamedTuple):
    """The tokens of a prefix that was run, and its keys and values."""

    tokens: list[int]
    cache: programs.Cache


class SequenceBatch(NamedTuple):
    """Sequences of one length, and how many the program takes."""

    sequences: list[packing.PackedSequence]
    size: int


class _Sent(NamedTuple):
    """Batches on their way, and what waits for the log-probabilities that they are read for."""

    batches: list[SequenceBatch]
    values: Callable[[], np.ndarray]

    @property
    def sequences(self) -> list[packing.PackedSequence]:
        return list(chain.from_iterable(batch.sequences for batch in self.batches))


class Forward:
    """A causal network on its devices, the prefix it ran last, and its batches.

    On a CPU two batches run at once, and the hidden states of several are read together. They run
    in threads, which `jax.config` reaches and context managers such as `jax.debug_nans` do not.
    Elsewhere a batch is sent while the one before it runs.

    Attributes:
        notes: what a user should know of how it went.
        prefix: the prefix that was run last.

    Args:
        checkpoint: a causal language model and its tokenizer.
        batch_size: most rows in a batch.
        normalized: whether to subtract the log of the softmax's denominator.
    """

    def __init__(self, checkpoint: Checkpoint, batch_size: int, normalized: bool):
        self.notes: list[str] = []
        self.prefix = PrefixCache([], ())
        self._graph, self._state = nnx.split(cast(CausalNetwork, checkpoint.model))
        self._mesh = checkpoint.mesh  # None: one device
        self._vocabulary = checkpoint.config.vocab_size
        self._batch_size, self._normalized = batch_size, normalized
        self._attention = programs.attention_kind(
            jax.default_backend(), checkpoint.dtype, checkpoint.mesh is not None
        )
        self._precision = partial(jax.default_matmul_precision, exactness(checkpoint.dtype))
        self._budget = budget(checkpoint, logits=self._attention == "at once")
        self._compiled: set[tuple[int, ...]] = set()  # shapes that both threads may run
        self._compiling = Lock()

    def run(
        self, prompts: list[list[int]], tries: Sequence[trie.Trie], done: set[int]
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Row numbers and their log-probabilities `[rows, k]`, rows `done` left out where all are.

        Args:
            prompts: token ids.
            tries: the label trie of each.
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
                # One batch runs while the next is laid out; no more of them wait in memory.
                if waiting and len(running) < 2:  # one runs, one waits
                    batches = self._next(waiting)
                    count = sum(len(batch.sequences) for batch in batches)
                    if not done.issuperset(chain.from_iterable(p.rows for p in waiting[:count])):
                        layouts = [packing.lay_out(*b, shared, prompts, tries) for b in batches]
                        running.append(_Sent(batches, self._send(layouts, threads)))
                    waiting = waiting[count:]
                    continue
                values = running[0].values()
            except jax.errors.JaxRuntimeError as error:
                # All that was sent goes back, in its order, for smaller batches.
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
        """The batches that are read together: one, but more on a CPU."""
        batches: list[SequenceBatch] = []
        positions, count = 0, 0
        while waiting[count:] and (not batches or (self._on_threads and positions < READ_AFTER)):
            batches.append(self._batch(waiting[count:]))
            positions += batches[-1].size * waiting[count].length
            count += len(batches[-1].sequences)
        return batches

    def _batch(self, sequences: list[packing.PackedSequence]) -> SequenceBatch:
        """The first sequences, of one length and as many as fit.

        Batches of one length are alike in size, which leaves little of the last one empty.
        """
        length, rows, count = sequences[0].length, 0, 0
        most = max(1, self._budget // length)  # sequences
        alike = list(takewhile(lambda packed: packed.length == length, sequences))
        # As few batches as hold them, of one size, which is rounded up to an eighth of the most:
        # eight programs at most are compiled for a length.
        total = sum(len(packed.rows) for packed in alike)
        batches = max(-(-len(alike) // most), -(-total // self._batch_size))
        even = -(-len(alike) // batches)
        step = max(1, most // 8)
        size = min(most, -(-even // step) * step)
        for packed in alike[:size]:
            rows += len(packed.rows)
            if rows > self._batch_size and count:  # one sequence at least
                break
            count += 1
        step = sharding.row_multiple(self._mesh)
        return SequenceBatch(sequences[:count], -(-size // step) * step)

    def _send(
        self, layouts: list[packing.Layout], threads: ThreadPoolExecutor | None
    ) -> Callable[[], np.ndarray]:
        """Begin to run batches; the result waits for what is read of them `[e]`."""
        cache = self.prefix.cache
        if threads is None:
            (layout,) = layouts  # `_next` gives several on CPUs alone
            h = self._hidden(cache, layout)
            scores = self._read(h, layout.reads, layout.targets, layout.slots)
            for log_probs, _ in scores:
                log_probs.copy_to_host_async()  # while the next batch runs
            return partial(wait, scores)
        futures = [threads.submit(self._states_read, cache, layout) for layout in layouts]
        # The states that are read are concatenated batch by batch.
        before = accumulate((len(layout.slots) for layout in layouts), initial=0)
        reads = [n + layout.reads for n, layout in zip(before, layouts, strict=False)]
        targets = np.concatenate([layout.targets for layout in layouts])

        def values() -> np.ndarray:
            h = np.concatenate(list(map(Future.result, futures)))
            return wait(self._read(h, np.concatenate(reads), targets))

        return values

    def _states_read(self, cache: programs.Cache, layout: packing.Layout) -> np.ndarray:
        """Hidden states `[m, d]` that a layout reads, waited for in a thread."""
        key = *layout.tokens.shape, cache[0][0].shape[0] if cache else 0  # what decides the program
        # Or both threads would compile the same program.
        with nullcontext() if key in self._compiled else self._compiling:
            h = np.asarray(self._hidden(cache, layout))
            self._compiled.add(key)
        return np.asarray(h[layout.slots])

    def _hidden(self, cache: programs.Cache, layout: packing.Layout) -> jax.Array:
        """Hidden states `[b t, d]` of a layout after a prefix, not waited for."""
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
        """Log-probabilities `[e]` of target tokens, in chunks, not waited for.

        Args:
            h: `[b t, d]` hidden states of which `slots` are read, or `[m, d]` without them.
            reads: `[e]` which of them each read is after, ascending.
            targets: `[e]` token that is read there.
            slots: `[m]` which hidden states are read; all, where it is None.
        """
        # Each token is unembedded once; powers of two keep the compiled programs few.
        tokens, indices = np.unique(targets, return_inverse=True)
        tokens = np.pad(tokens, (0, max(8, power(len(tokens))) - len(tokens)))
        # On a mesh the devices share the vocabulary, and each has all of its part at once.
        home, vocabulary = sharding.replicated(self._mesh), self._vocabulary
        spans = VOCABULARY_SPAN if home is None else {}
        words = spans.get(jax.default_backend(), vocabulary) if self._normalized else None
        scores: list[ReadScores] = []
        for start in range(0, int(reads[-1]) + 1, MAX_READS):
            count = min(MAX_READS, int(reads[-1]) + 1 - start)
            padding = (0, -count % READ_STEP)  # to a multiple of `READ_STEP`
            if slots is None:
                states = np.pad(h[start : start + count], (padding, (0, 0)))
            else:
                states = programs.take(h, np.pad(slots[start : start + count], padding))
            # reads of these states
            first, last = np.searchsorted(reads, (start, start + count)).tolist()
            size = power(last - first) - (last - first)  # to a power of two
            after = np.pad(reads[first:last] - start, (0, size))
            picked = np.pad(indices[first:last], (0, size))
            with self._precision():
                log_probs = programs.read(
                    self._graph, home, vocabulary, words, self._state, states, tokens, after, picked
                )
            scores.append((log_probs, last - first))
        return scores

    def _run_prefix(self, tokens: list[int]) -> None:
        """Run the shared tokens from where they differ from the prefix that was run last."""
        before, cache = self.prefix
        if tokens == before:  # run already
            return
        if not tokens:
            self.prefix = PrefixCache([], ())
            return
        start = min(len(commonprefix([before, tokens])), len(tokens) - 1)  # noqa: RUF071
        if start < STEP:
            start, cache = 0, ()  # what little is common is not worth another cache's size
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
    """Token positions of a batch on the devices that hold a checkpoint.

    `logits` says that attention keeps a float32 logit for each head and pair at once.
    """
    if jax.default_backend() == "cpu":
        return CPU_POSITIONS
    config, mesh = checkpoint.config, checkpoint.mesh
    state = jax.tree_util.tree_leaves_with_path(nnx.state(checkpoint.model))
    # Outputs of all matrices, a layer's share of them.
    outputs = [leaf.shape[-1] for path, leaf in state if "kernel" in jax.tree_util.keystr(path)]
    written = sum(outputs) // config.layers
    keys = min(BUDGETED_KEYS, config.positions) if logits else 0  # no longer than the longest
    size = 4 if checkpoint.dtype == "float32" else 2  # bytes of a number
    a_position = position_bytes(config.width, written, config.heads * keys, size) + keys  # the mask
    rows = 1 if mesh is None else mesh.shape["data"]  # which share the rows
    # All processes run the same programs, so the batches of the one with the least memory.
    free = multihost_utils.process_allgather(np.float32(memory.available(jax.local_devices()[0])))
    return rows * positions(float(np.min(free)), a_position)


def position_bytes(width: int, written: int, pairs: int, size: int) -> int:
    """Bytes that a position takes while a layer runs, and its hidden state until it is read.

    Twice what the layer's matrices write for it (a result and what is made of it, such as rotated
    queries or the MLP's product), the residual and its norm in float32, and of each logit itself
    and its exponential.

    Args:
        width: Hidden size.
        written: Numbers that the matrices of one layer write for a position.
        pairs: Logits of attention that are kept for a position.
        size: Bytes of a number.

    >>> position_bytes(width=1024, written=12_288, pairs=0, size=2)  # Qwen3-0.6B, no logits kept
    63488
    """
    return size * (2 * written + 3 * width) + 8 * width + 8 * pairs


def positions(free: float, a_position: int) -> int:
    """The power of two of positions that half of the free bytes hold, within the two bounds.

    Half, because a second batch waits while one runs, and programs need room of their own.

    >>> positions(100e9, 63_488), positions(2e9, 63_488), positions(1e6, 63_488)
    (65536, 8192, 128)
    """
    fit = min(free / 2 / a_position, MAX_POSITIONS)  # free may be infinite
    return max(MIN_POSITIONS, 1 << (int(fit).bit_length() - 1)) if fit >= 1 else MIN_POSITIONS


def halve(positions: int, error: Exception, length: int) -> int:
    """Half the positions if a batch was out of memory; other errors go on.

    Args:
        positions: Positions of the batch that failed.
        error: What was raised.
        length: Positions of one sequence of the batch.

    Raises:
        InputError: the batch was a single sequence.
    """
    if "RESOURCE_EXHAUSTED" not in str(error):  # XLA's name for it
        raise error
    if positions < 2 * length:
        raise InputError(
            f"the device's memory does not hold one sequence of {length} tokens in addition to the "
            f"network; use a larger device, a mesh ({spell('mesh')}), or a narrower "
            f"{spell('dtype')}."
        ) from error
    return positions // 2


def wait(scores: Sequence[ReadScores]) -> np.ndarray:
    """Log-probabilities `[e]` of all chunks."""
    return np.concatenate([np.asarray(log_probs)[:reads] for log_probs, reads in scores])

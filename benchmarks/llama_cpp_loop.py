"""Measures llama.cpp with a careful scoring loop on llama-cpp-python's low-level functions.

The shared prefix of all prompts runs once and stays in the cache. Rows are sequences of one batch
after it, and the labels of a row continue the row's sequence. So each token runs once, and only
positions that are read have logits.

python -m benchmarks.llama_cpp_loop FILE.gguf      # with tokenizer.json in the same folder
"""

import sys
import time
from collections.abc import Iterator, Sequence
from os.path import commonprefix
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp
import numpy as np
from tokenizers import Tokenizer

from batch_calibration.scoring.engine.tokens import encode
from batch_calibration.scoring.engine.trie import Trie, build_trie, sums
from benchmarks import worker

CELLS = 8192
"""Capacity of the cache in tokens: a prefix and one batch after it."""
MOST_TOKENS = 2048
"""Largest number of tokens in a batch."""
MOST_SEQUENCES = llama_cpp.llama_max_parallel_sequences()


class Token(NamedTuple):
    """A token of a batch: its id, position and sequences, and whether its logits are read."""

    number: int
    position: int
    sequences: Sequence[int]
    is_read: bool


class Network:
    """A network in llama.cpp with a cache; all sequences in it begin with the same prefix."""

    def __init__(self, path: Path, threads: int):
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_seq_max, settings.kv_unified = CELLS, MOST_SEQUENCES, True
        settings.n_batch = MOST_TOKENS
        settings.n_threads = settings.n_threads_batch = threads
        # Flash attention is faster here. 512 tokens are llama.cpp's own default.
        settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        settings.n_ubatch = 512
        if "float32" in path.name:  # the default cache is float16
            settings.type_k = settings.type_v = llama_cpp.GGML_TYPE_F32
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        self.cache = llama_cpp.llama_get_memory(self.context)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(
            llama_cpp.llama_model_get_vocab(self.model)
        )
        self.batch = llama_cpp.llama_batch_init(MOST_TOKENS, 0, MOST_SEQUENCES)
        self.run_tokens = 0

    def run(self, tokens: Sequence[Token]) -> np.ndarray:
        """Runs `tokens`, and returns the logits `[m, vocabulary]` of the positions to read."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i] = token.number, token.position
            batch.n_seq_id[i] = len(token.sequences)
            for j, sequence in enumerate(token.sequences):
                batch.seq_id[i][j] = sequence
            batch.logits[i] = token.is_read
        if llama_cpp.llama_decode(self.context, batch):
            sys.exit("error: llama.cpp refused a batch")
        self.run_tokens += len(tokens)
        count = sum(token.is_read for token in tokens)
        if not count:
            return np.zeros((0, self.vocabulary), np.float32)
        return np.ctypeslib.as_array(
            llama_cpp.llama_get_logits(self.context), (count, self.vocabulary)
        )

    def keep_prefix(self, tokens: Sequence[int]) -> None:
        """Clears the cache, then runs the prefix of all sequences."""
        llama_cpp.llama_memory_clear(self.cache, False)
        for start in range(0, len(tokens), MOST_TOKENS):
            chunk = enumerate(tokens[start : start + MOST_TOKENS], start)
            self.run([Token(number, position, (0,), False) for position, number in chunk])
        if tokens:
            for sequence in range(1, MOST_SEQUENCES):
                llama_cpp.llama_memory_seq_cp(self.cache, 0, sequence, 0, len(tokens))

    def cut_back(self, length: int) -> None:
        """Removes all tokens after the prefix of `length` tokens from the cache."""
        llama_cpp.llama_memory_seq_rm(self.cache, -1, length, -1)


def lay_out(prompt: Sequence[int], shared: int, labels: Trie, first: int) -> list[Token]:
    """Lays out a row's tokens after the prefix, with a sequence for each leaf from `first` on."""
    nodes = range(len(labels.tokens))
    leaves = [node for node in nodes if labels.ends[node] == node + 1]
    own = range(first, first + max(1, len(leaves)))
    row = []
    for position, number in enumerate(prompt[shared:], shared):
        row.append(Token(number, position, own, position == len(prompt) - 1))
    for node in nodes:
        end = int(labels.ends[node])
        below = [first + i for i, leaf in enumerate(leaves) if node <= leaf < end]
        position = len(prompt) + int(labels.depths[node])
        row.append(Token(int(labels.tokens[node]), position, below, True))
    return row


def batches(
    prompts: list[list[int]], shared: int, tries: Sequence[Trie], most: int
) -> Iterator[tuple[list[int], list[Token]]]:
    """Yields batches of rows with their tokens: at most `most` rows, within the batch limits."""
    rows: list[int] = []
    tokens: list[Token] = []
    sequences = 0
    for row in range(len(prompts)):
        laid_out = lay_out(prompts[row], shared, tries[row], sequences)
        used = laid_out[0].sequences
        is_full = len(rows) == most or len(tokens) + len(laid_out) > MOST_TOKENS
        if rows and (is_full or used[-1] >= MOST_SEQUENCES):
            yield rows, tokens
            rows, tokens = [], []
            laid_out = lay_out(prompts[row], shared, tries[row], 0)
            used = laid_out[0].sequences
        rows.append(row)
        tokens += laid_out
        sequences = used[-1] + 1
    yield rows, tokens


def read(logits: np.ndarray, tries: Sequence[Trie]) -> np.ndarray:
    """Computes the labels' log-probabilities `[rows, k]` from the logits of the rows' slots."""
    top = logits.max(axis=1, keepdims=True)
    norm = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
    reads, start = [], 0
    for labels in tries:
        slots = start + labels.slots
        reads.append(logits[slots, labels.targets] - norm[slots])
        start += len(labels.tokens) + 1
    return sums(np.concatenate(reads), tries)


def main() -> None:
    """Serves jobs on a GGUF file."""
    path = Path(sys.argv[1])
    network = Network(path, worker.pin())
    tokenizer = Tokenizer.from_file(str(path.parent / "tokenizer.json"))

    def answer(texts: list[str], labels: list[str], batch: int) -> dict[str, Any]:
        network.run_tokens, start = 0, time.perf_counter()
        prompts, label_tokens = encode(tokenizer, texts, labels)
        tries = list(map(build_trie, label_tokens))
        shared = min(len(commonprefix(prompts)), min(map(len, prompts)) - 1)  # noqa: RUF071
        network.keep_prefix(prompts[0][:shared])
        log_probs = []
        for rows, tokens in batches(prompts, shared, tries, batch):
            logits = network.run(tokens)
            log_probs.append(read(logits, [tries[row] for row in rows]))
            network.cut_back(shared)
        return {
            "seconds": time.perf_counter() - start,
            "tokens": network.run_tokens,
            "memory": worker.peak_memory(),
            "log_probs": np.concatenate(log_probs).tolist(),
        }

    worker.serve(answer)


if __name__ == "__main__":
    main()

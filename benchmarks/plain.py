"""A plain transformers loop that keeps the prefix's cache, measured on the same jobs as ours.

The fastest that a careful user writes: the beginning that all prompts share is run once; rows of
like length go in batches, right-padded, over a copy of its cache; only the hidden states that are
read are unembedded; labels of several tokens go on from their row's cache.
"""

import copy
import os
import sys
import time
from collections.abc import Iterator
from os.path import commonprefix
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, DynamicCache

from benchmarks import worker


class Plain:
    """A network and what it scores with."""

    def __init__(self, directory: Path):
        # By the variable that keeps jax from an accelerator.
        self.cuda = torch.cuda.is_available() and os.environ.get("JAX_PLATFORMS") != "cpu"
        dtype = torch.bfloat16 if self.cuda else torch.float32
        self.model = AutoModelForCausalLM.from_pretrained(directory, dtype=dtype)
        self.model.to("cuda" if self.cuda else "cpu").eval()
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.tokens = 0

    def run(
        self, ids: np.ndarray, mask: np.ndarray, places: np.ndarray, cache: DynamicCache
    ) -> Any:
        """Hidden states `[b, t, d]` of `ids [b, t]` at `places`, after what is cached."""
        self.tokens += ids.size  # padding included
        tensor = lambda array: torch.as_tensor(array, device=self.model.device)  # noqa: E731
        return self.model.base_model(
            input_ids=tensor(ids), attention_mask=tensor(mask), position_ids=tensor(places),
            past_key_values=cache, use_cache=True,
        ).last_hidden_state  # fmt: skip

    def read(self, h: Any) -> Any:
        """Log-probabilities `[n, vocabulary]` after hidden states `[n, d]`."""
        # In float32, as bfloat16 rounds.
        return torch.log_softmax(self.model.lm_head(h).float(), dim=-1)

    @torch.inference_mode()
    def score(self, texts: list[str], labels: list[str], batch: int) -> np.ndarray:
        """Log-probabilities `[n, k]` in nats."""
        prompts = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts)]
        endings = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(labels)]
        # A prompt keeps one token to read after.
        shared = min(len(commonprefix(prompts)), min(map(len, prompts)) - 1)  # noqa: RUF071
        prefix = DynamicCache()
        if shared:
            shared_ids = np.array([prompts[0][:shared]])
            self.run(shared_ids, np.ones_like(shared_ids), np.arange(shared)[None], prefix)
        log_probs = np.zeros((len(texts), len(labels)), np.float32)
        for rows in in_batches(prompts, batch):
            cache = copy.deepcopy(prefix)  # a call adds to its cache
            if shared:
                cache.batch_repeat_interleave(len(rows))
            ids, mask = padded([prompts[row][shared:] for row in rows])
            # [rows, shared + t]
            seen = np.concatenate([np.ones((len(rows), shared), int), mask], axis=1)
            places = np.broadcast_to(shared + np.arange(ids.shape[1]), ids.shape)
            h = self.run(ids, seen, places, cache)
            ends = mask.sum(axis=1)
            # After each row's last token.
            first = self.read(h[torch.arange(len(rows)), torch.as_tensor(ends - 1)])
            log_probs[rows] = first[:, [ending[0] for ending in endings]].cpu().numpy()
            long_labels = [i for i, ending in enumerate(endings) if len(ending) > 1]
            if long_labels:
                log_probs[np.ix_(rows, long_labels)] += self.rest(
                    [endings[i] for i in long_labels], cache, seen, shared + ends
                )
        return log_probs

    def rest(self, endings: list[list[int]], cache: Any, seen: np.ndarray, ends: np.ndarray) -> Any:
        """Log-probabilities `[rows, words]` of all tokens of words but the first."""
        rows = len(seen)
        cache.batch_repeat_interleave(len(endings))
        # Nothing is read after a label's last token.
        ids, mask = padded([ending[:-1] for ending in endings])
        ids, mask = np.tile(ids, (rows, 1)), np.tile(mask, (rows, 1))
        places = np.repeat(ends, len(endings))[:, None] + np.arange(ids.shape[1])
        seen = np.concatenate([np.repeat(seen, len(endings), axis=0), mask], axis=1)
        h = self.run(ids, seen, places, cache)
        real = torch.as_tensor(mask, dtype=torch.bool)
        next_ids = torch.as_tensor([token for ending in endings for token in ending[1:]] * rows)
        token_log_probs = self.read(h[real]).gather(1, next_ids[:, None].to(h.device))[:, 0].cpu()
        # Padding adds 0.
        sums = torch.zeros(real.shape).masked_scatter(real, token_log_probs).sum(axis=1)
        return sums.reshape(rows, len(endings)).numpy()


def in_batches(prompts: list[list[int]], size: int) -> Iterator[list[int]]:
    """Rows of like length, `size` at a time."""
    order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
    yield from (order[start : start + size] for start in range(0, len(order), size))


def padded(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids as one array, padded on the right, and which of them are real."""
    length = max(map(len, lists))
    ids, mask = (np.zeros((len(lists), length), int) for _ in range(2))
    for row, token_ids in enumerate(lists):
        ids[row, : len(token_ids)], mask[row, : len(token_ids)] = token_ids, 1
    return ids, mask


def main() -> None:
    """Serve jobs on a checkpoint."""
    torch.set_num_threads(worker.pin())
    plain = Plain(Path(sys.argv[1]))

    def answer(texts: list[str], labels: list[str], batch: int) -> dict[str, Any]:
        plain.tokens, start = 0, time.perf_counter()
        log_probs = plain.score(texts, labels, batch)
        return {
            "seconds": time.perf_counter() - start,
            "tokens": plain.tokens,
            "memory": torch.cuda.max_memory_allocated() if plain.cuda else worker.peak_memory(),
            "log_probs": log_probs.tolist(),
        }

    worker.serve(answer)


if __name__ == "__main__":
    main()

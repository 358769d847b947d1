"""Times the engine's attention and counts its packing, beside what each took the place of.

    python -m benchmarks.attention

GPT-2-small's heads; 2,048 queries over 768 shared keys, and 16 sequences of 128 slots. Prints the
best of ten calls, in turn. Packing is counted, not timed: the share of slots that are real tokens,
and on real rows of ../shared without shots, by GPT-2's tokenizer, of those that are distinct ones.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import ByteLevelBPETokenizer

from batch_calibration.scoring.engine.batches import batches, group_prompts
from batch_calibration.scoring.engine.packing import SHORTEST, branch, pack_prompts
from batch_calibration.scoring.models.attention import Heads, self_attention
from batch_calibration.scoring.models.prefix_attention import prefix_attention
from batch_calibration.scoring.tasks import TASKS
from benchmarks.cases import Case, render


def best(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Milliseconds of each call, the best of ten rounds."""
    times = dict.fromkeys(calls, np.inf)
    for call in calls.values():  # compile before anything is timed
        jax.block_until_ready(call())
    # In turn, so that a slow moment of a shared machine falls on all of them.
    for _ in range(10):
        for name, call in calls.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            times[name] = min(times[name], 1000 * (time.perf_counter() - start))
    return times


def main() -> None:
    """Time both attentions and count the packing."""
    random = np.random.default_rng(0)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(random.normal(size=shape), jnp.float32)

    query, keys, values = (
        normal(2048, 12, 64),
        normal(768, 12, 64),
        normal(768, 12, 65).at[..., -1].set(1),  # the last column marks keys that are there
    )
    sequences = [normal(16, 128, 12, 64) for _ in range(3)]
    mask = jnp.tril(jnp.ones((1, 128, 128), bool))  # [1, q, k], causal
    turns, at_once = (jax.jit(partial(prefix_attention, at_once=flag)) for flag in (False, True))
    inside = jax.jit(lambda q, k, v, mask: self_attention(Heads(q, k, v), mask))
    usual = jax.jit(partial(jax.nn.dot_product_attention, is_causal=True, return_residual=True))
    times = best({
        "768 shared keys, groups in turn": lambda: turns(query, keys, values),
        "768 shared keys, groups at once": lambda: at_once(query, keys, values),
        "sequences of 128, groups in turn": lambda: inside(*sequences, mask),
        "sequences of 128, jax.nn.dot_product_attention": lambda: usual(*sequences),
    })  # fmt: skip
    for name, milliseconds in times.items():
        print(f"{name:45}{milliseconds:8.1f} ms")
    for low, high in ((20, 70), (10, 50), (30, 200)):  # tokens a row, from and to
        lengths = random.integers(low, high, 1000).tolist()
        rows, total = range(len(lengths)), sum(lengths)
        buckets = sum(b.size * b.length for b in batches(rows, lengths, 64, 2048, 32))
        # No two rows share a beginning.
        prompts = [[row] * length for row, length in enumerate(lengths)]
        packed = sum(
            sequence.length for sequence in pack_prompts(rows, prompts, 0, [0] * len(rows), 256)
        )
        print(
            f"1,000 rows of {low} to {high} tokens: {total / buckets:.0%} of bucketed slots real, "
            f"{total / packed:.0%} of packed ones"
        )
    for task in (name for name, sequence in TASKS.items() if not sequence.is_image):
        print(
            f"{task}: {distinct(task):.0%} of the slots of up to 1,000 rows hold a distinct token"
        )


def distinct(task: str) -> float:
    """Distinct beginnings of a task's prompts by the slots that they are packed in."""
    shared = Path(__file__).resolve().parents[2] / "shared"
    files = (shared / "tokenizers" / "gpt2" / name for name in ("encoder.json", "vocab.bpe"))
    tokenizer = ByteLevelBPETokenizer(*map(str, files))
    texts = render(Case("", task, 0, 0, 0), shared / "data", 1000)["texts"]
    prompts = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    # Sorted, so that each prompt stands behind the one it shares its longest beginning with.
    distinct_tokens = sum(len(b) - branch(a, b, 0) for a, b in pairwise([[], *sorted(prompts)]))
    none = [0] * len(prompts)
    slots = 0
    for start, rows in group_prompts(prompts, SHORTEST):
        slots += start  # the shared beginning is run once
        slots += sum(packed.length for packed in pack_prompts(rows, prompts, start, none, 256))
    return distinct_tokens / slots


if __name__ == "__main__":
    main()

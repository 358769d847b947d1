"""Measures the scorer of `config.scorer=transformers` on the same jobs as the Flax networks.

It is the loop of a careful user of transformers: the shared prefix of all prompts runs once, rows
of similar length run in batches on copies of its cache, and labels of several tokens continue from
the cache of their row.
"""

import sys
import time
from pathlib import Path
from typing import Any

import torch

from batch_calibration.scoring.models.files.transformers_files import TransformersFiles
from batch_calibration.scoring.transformers_lm import TransformersLM
from benchmarks import worker


def main() -> None:
    """Serves jobs on a checkpoint."""
    torch.set_num_threads(worker.pin())
    checkpoint = TransformersFiles(Path(sys.argv[1])).load()
    is_on_gpu = checkpoint.model.device.type == "cuda"
    tokens = [0]

    def count_tokens(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Adds the positions of a call, padding included."""
        tokens[0] += (named["input_ids"] if "input_ids" in named else arguments[0]).numel()

    checkpoint.model.base_model.register_forward_pre_hook(count_tokens, with_kwargs=True)

    def answer(texts: list[str], labels: list[str], batch: int) -> dict[str, Any]:
        scorer = TransformersLM(checkpoint, batch)
        tokens[0], start = 0, time.perf_counter()
        log_probs = scorer.score(texts, labels).log_probs
        return {
            "seconds": time.perf_counter() - start,
            "tokens": tokens[0],
            "memory": torch.cuda.max_memory_allocated() if is_on_gpu else worker.peak_memory(),
            "log_probs": log_probs.tolist(),
        }

    worker.serve(answer)


if __name__ == "__main__":
    main()

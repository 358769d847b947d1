"""Measures lm-evaluation-harness's `hf` backend on the same jobs as our scorer."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from benchmarks import worker


class Counting(HFLM):
    """The unmodified backend with a count of its tokens, padding included."""

    tokens = 0

    # Overrides a method of lm_eval, so the name is fixed.
    def _model_call(self, inps: torch.Tensor, *args: Any, **named: Any) -> torch.Tensor:
        self.tokens += inps.numel()
        return super()._model_call(inps, *args, **named)


def main() -> None:
    """Serves jobs on a checkpoint."""
    torch.set_num_threads(worker.pin())
    directory = Path(sys.argv[1])
    cuda = torch.cuda.is_available() and os.environ.get("JAX_PLATFORMS") != "cpu"  # as for jax
    dtype = torch.bfloat16 if cuda else torch.float32
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=dtype)
    model.to("cuda" if cuda else "cpu").eval()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(directory / "tokenizer.json"), eos_token="<|endoftext|>"
    )

    def answer(texts: Sequence[str], labels: Sequence[str], batch: int = 1) -> dict[str, Any]:
        # The constructor fixes the batch size, so each job makes a new backend.
        backend = Counting(model, tokenizer=tokenizer, batch_size=batch)
        requests = []
        for i, text in enumerate(texts):
            requests += [Instance("loglikelihood", {}, (text, label), i) for label in labels]
        start = time.perf_counter()
        scores = backend.loglikelihood(requests, disable_tqdm=True) if requests else []
        seconds = time.perf_counter() - start
        log_probs = np.array([score for score, _ in scores]).reshape(-1, len(labels))
        return {
            "seconds": seconds,
            "tokens": backend.tokens,
            "memory": torch.cuda.max_memory_allocated() if cuda else worker.peak_memory(),
            "log_probs": log_probs.tolist(),
        }

    worker.serve(answer)


if __name__ == "__main__":
    main()

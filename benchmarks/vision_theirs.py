"""Measures transformers' CLIP with its Pillow image processor on the same jobs as our scorer."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import CLIPModel, CLIPTokenizer
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from benchmarks import worker


def main() -> None:
    """Serves jobs on a checkpoint and a case file with image paths and statements."""
    torch.set_num_threads(worker.pin())
    directory, texts = map(Path, sys.argv[1:])
    case = json.loads(texts.read_text())
    model = CLIPModel.from_pretrained(directory, dtype=torch.float32).eval()
    tokenizer = CLIPTokenizer.from_pretrained(directory)
    processor = CLIPImageProcessorPil.from_pretrained(directory)

    def embed(paths: list[str]) -> torch.Tensor:
        images = [Image.open(path) for path in paths]
        pixels = processor(images, return_tensors="pt").pixel_values
        return model.get_image_features(pixel_values=pixels).pooler_output

    @torch.inference_mode()
    def answer(rows: tuple[int, int] = (0, 0), batch: int = 32) -> dict[str, Any]:
        start = time.perf_counter()
        if rows[1]:
            chosen = worker.take(case, *rows)
            embedded = [embed(chosen[i : i + batch]) for i in range(0, len(chosen), batch)]
        else:
            tokens = tokenizer(case["labels"], padding=True, return_tensors="pt")
            embedded = [model.get_text_features(**tokens).pooler_output]
        vectors = torch.nn.functional.normalize(torch.cat(embedded), dim=-1)
        seconds = time.perf_counter() - start
        return {
            "seconds": seconds, "memory": worker.peak_memory(), "vectors": vectors.tolist(),
        }  # fmt: skip

    worker.serve(answer)


if __name__ == "__main__":
    main()

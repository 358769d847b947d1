"""Measures our image scorer: seconds for images or statements, memory, embeddings."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from batch_calibration.cli.machine import keep_programs
from batch_calibration.scoring import ImageInputs
from batch_calibration.scoring.data.images import ImageFile
from batch_calibration.scoring.dual_encoder import DualEncoder
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from benchmarks import worker
from benchmarks.ours import peak_memory


def main() -> None:
    """Serves jobs on a checkpoint and a case file with image paths and statements."""
    worker.pin()
    keep_programs()
    directory, texts = map(Path, sys.argv[1:])  # the checkpoint, and the case file
    case = json.loads(texts.read_text())
    # CLIP has 77 positions.
    scorer = DualEncoder(load_checkpoint(directory), scale=0, max_tokens=77)

    def answer(rows: tuple[int, int] = (0, 0)) -> dict[str, Any]:
        start = time.perf_counter()
        if rows[1]:
            refs = [ImageFile(Path(path)) for path in worker.take(case, *rows)]
            vectors, _, _ = scorer.embed_images(ImageInputs(refs))
        else:
            vectors, _ = scorer.embed(case["labels"])
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "memory": peak_memory(), "vectors": vectors.tolist()}

    worker.serve(answer)


if __name__ == "__main__":
    main()

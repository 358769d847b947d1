"""Writes tests/scoring/models/golden_clip: checkpoints, pixels, token ids and answers.

python tests/reference/make_golden_clip.py
"""

import json
import shutil
from pathlib import Path

import numpy as np
from cases_clip import CLIP, SIGLIP, answers, build, captions, inputs, save, their_tokenizer
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "scoring" / "models" / "golden_clip"
MERGES = ROOT.parents[1] / "shared" / "tokenizers" / "clip" / "bpe_simple_vocab_16e6.txt.gz"


def main() -> None:
    """Write each case anew."""
    shutil.rmtree(GOLDEN, ignore_errors=True)
    for name in [*CLIP, *SIGLIP]:
        directory = GOLDEN / name
        model = build(name)
        save(name, model, directory)
        pixels, tokens = inputs(name)
        tensors = {
            "pixels": np.ascontiguousarray(pixels.numpy().transpose(0, 2, 3, 1)),
            "tokens": tokens.numpy().astype(np.int32),
            # Logits come transposed, and safetensors would write them as they lie in memory.
            **{k: np.ascontiguousarray(v) for k, v in answers(model, pixels, tokens).items()},
        }
        (directory / "expected").mkdir()
        save_file(tensors, directory / "expected" / "answers.safetensors")
    texts = captions(150)
    ids = their_tokenizer(MERGES)(texts).input_ids
    rows = [json.dumps(row, ensure_ascii=True) for row in zip(texts, ids, strict=True)]
    (GOLDEN / "captions.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()

"""Writes tests/scoring/models/golden: checkpoints and their answers in transformers.

python tests/reference/make_golden.py [CASE ...]

Other threads and processors round otherwise: for a new case name it, and the others stay.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
from cases import CAUSAL, answers, build, inputs, save
from safetensors.numpy import save_file

GOLDEN = Path(__file__).resolve().parents[1] / "scoring" / "models" / "golden"


def main(names: list[str]) -> None:
    """Write these cases anew, or all."""
    if not names:
        shutil.rmtree(GOLDEN, ignore_errors=True)
    for name in names or CAUSAL:
        directory = GOLDEN / name
        shutil.rmtree(directory, ignore_errors=True)
        model = build(name)
        save(name, model, directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        tokens = inputs(name)
        tensors = {
            "tokens": tokens.numpy().astype(np.int32),
            "answers": answers(model, tokens).numpy(),
        }
        (directory / "expected").mkdir()
        save_file(tensors, directory / "expected" / "answers.safetensors")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Write tests/golden: checkpoints and answers of transformers, for tests that have no torch.

python tests/reference/make_golden.py
"""

import shutil
from pathlib import Path

import numpy as np
from cases import BERT, CAUSAL, answers, build, inputs, save
from safetensors.numpy import save_file

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def main() -> None:
    """Write each case anew."""
    shutil.rmtree(GOLDEN, ignore_errors=True)
    for name in [*CAUSAL, *BERT]:
        directory = GOLDEN / name
        model = build(name)
        save(name, model, directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        tokens, types = inputs(name)
        tensors = {
            "tokens": tokens.numpy().astype(np.int32),
            "types": types.numpy().astype(np.int32),
            "answers": answers(name, model, tokens, types).numpy(),
        }
        (directory / "expected").mkdir()
        save_file(tensors, directory / "expected" / "answers.safetensors")


if __name__ == "__main__":
    main()

"""Importing the package is cheap."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("room", "heavy"),
    [
        (".version", ("flax", "tensorflow", "absl", "optax", "matplotlib", "sklearn")),
        (".scoring.causal_lm", ("jax.experimental.pallas", "httpx2", "batch_calibration.methods")),
        (".studies.scoring", ("flax", "httpx2", "batch_calibration.methods", "matplotlib")),
    ],
)
def test_import_loads_no_framework(room, heavy):
    script = (
        f"import sys, batch_calibration{room}; "
        f"print([name for name in {heavy} if name in sys.modules], batch_calibration.__version__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[] 0.2.0"

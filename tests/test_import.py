"""Importing the package is cheap, and every example in its docstrings runs."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = (
    "errors",
    "settings",
    "inputs",
    "validation",
    "api",
    "methods",
    "fitting",
    "metrics",
    "intervals",
    "arrays",
    "frames",
    "classes",
    "boundary",
    "layer",
    "estimator",
    "calibration.base",
    "calibration.shift",
    "calibration.learned_shift",
    "calibration.running",
    "calibration.objective",
    "calibration.assignment",
    "calibration.prototypes",
)


@pytest.mark.parametrize(
    ("room", "heavy"),
    [
        (".version", ("flax", "tensorflow", "absl", "optax", "matplotlib", "sklearn")),
        (".scoring.causal_lm", ("jax.experimental.pallas", "httpx2", "batch_calibration.methods")),
        (".study.scoring", ("flax", "httpx2", "batch_calibration.methods", "matplotlib")),
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
    assert done.stdout.strip() == "[] 0.1.0"


@pytest.mark.parametrize("room", ROOMS)
def test_examples_run(room):
    module = importlib.import_module(f"batch_calibration.{room}")
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0

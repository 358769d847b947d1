"""Importing the package is cheap."""

import pytest
from processes import python

NETWORKS = ("batch_calibration.scoring.models", "batch_calibration.scoring.engine")


@pytest.mark.parametrize(
    ("room", "heavy"),
    [
        (".version", ("flax", "tensorflow", "absl", "optax", "matplotlib", "sklearn")),
        (".scoring.causal_lm", ("jax.experimental.pallas", "httpx2", "batch_calibration.methods")),
        (".studies", ("absl",)),
        (".studies.calibration", ("flax", "absl", "optax", "matplotlib", *NETWORKS)),
        (".studies.scoring", ("flax", "httpx2", "batch_calibration.methods", "matplotlib")),
    ],
)
def test_import_loads_no_framework(room, heavy):
    script = (
        f"import sys, batch_calibration{room}; "
        f"print([name for name in {heavy} if name in sys.modules], batch_calibration.__version__)"
    )
    assert python("-c", script).stdout.strip() == "[] 0.2.0"

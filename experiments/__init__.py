"""Programs that run studies from configs, and the studies of this repository."""

import importlib.util
import sys

NEEDED = ("absl", "ml_collections", "flax", "platformdirs")
"""Packages of the extra "experiments". Checked here so that no program ends in a traceback."""

_missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if _missing:
    install = "pip install 'batch-calibration[experiments]'"
    print(f"error: {', '.join(_missing)} not installed; {install}.", file=sys.stderr)
    raise SystemExit(2)

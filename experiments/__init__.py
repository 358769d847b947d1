"""Programs of studies with configs, and the studies of this repository."""

import importlib.util
import sys

NEEDED = ("absl", "ml_collections", "flax", "rich", "platformdirs")
"""Of the extra "experiments"; without them a program would end in a traceback."""

_missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if _missing:
    install = "pip install 'batch-calibration[experiments]'"
    print(f"error: {', '.join(_missing)} not installed; {install}.", file=sys.stderr)
    raise SystemExit(2)

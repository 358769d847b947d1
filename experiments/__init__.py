"""The programs: flags in, tables and figures out."""

import os
import signal
import sys
from typing import NoReturn


def stop(*_: object) -> NoReturn:
    """Answer Ctrl-C with a sentence and exit code 130."""
    sys.stdout.flush()
    sentence = "stopped; what was finished is kept: the same command goes on from there."
    print(f"error: {sentence}", file=sys.stderr, flush=True)
    os._exit(130)


# `python -m` is about to import a program, which takes seconds, and JAX's half-imported C++ may
# abort or go on where an exception is raised: leave at once. The door raises again before `main`.
if sys.argv[:1] == ["-m"]:
    signal.signal(signal.SIGINT, stop)

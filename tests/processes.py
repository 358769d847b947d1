"""Python in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def python(*words, code=0, env=None, cwd=ROOT, **options):
    """Runs Python with these words, here in the checkout, and checks its exit code."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    environment = os.environ | (env or {})
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=cwd, env=environment, check=False, **streams)
    assert done.returncode == code, f"{done.stdout}{done.stderr}"
    return done

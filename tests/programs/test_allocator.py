"""Programs allocate from few arenas, which keep pages; glibc would give each thread its own."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ARENAS = """
import ctypes, os, threading
from batch_calibration.cli.machine import use_few_arenas
use_few_arenas()
kept, held = [], threading.Barrier(9)
def allocate():
    kept.append(b"x" * 100_000)
    held.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
[thread.start() for thread in threads]
held.wait()
ours, theirs = os.pipe()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fdopen(theirs, b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
print(os.read(ours, 1 << 16).count(b"<heap nr="))
"""

PAGES = """
import resource
from batch_calibration.cli.machine import use_few_arenas
use_few_arenas()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batch = bytearray(64 * 2**20)
    batch[::4096] = bytes(len(batch[::4096]))  # each page is written to
    del batch
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
IS_GLIBC = platform.libc_ver()[0] == "glibc"
needs_glibc = pytest.mark.skipif(not IS_GLIBC, reason="another C library has no arenas")


def _run(program: str, set_to: str | None) -> int:
    """The number that a Python program prints, with MALLOC_ARENA_MAX set so."""
    env = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    env |= {"MALLOC_ARENA_MAX": set_to} if set_to else {}
    folder = Path(__file__).resolve().parents[2]
    return int(subprocess.check_output([sys.executable, "-c", program], cwd=folder, env=env))


@needs_glibc
@pytest.mark.parametrize(("set_to", "most"), [(None, 4), ("3", 3)])
def test_threads_share_the_arenas(set_to, most):
    assert _run(ARENAS, set_to) == most


@needs_glibc
def test_a_second_large_array_fetches_no_pages_anew():
    assert 10 * _run(PAGES, None) < _run(PAGES, "1")

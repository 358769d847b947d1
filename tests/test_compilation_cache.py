"""Compiled programs are shared whole, whatever becomes of the processes that compile them."""

import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.fixture
def start(tmp_path):
    """Starts a process that compiles programs FIRST to LAST, with a cache in `tmp_path`."""

    def starting(first, last, *how, cache=tmp_path):
        kept = {name: value for name, value in os.environ.items() if "_CACHE_" not in name}
        return subprocess.Popen(
            [sys.executable, TESTS / "compiling.py", str(first), str(last), *how],
            env=kept | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(TESTS.parent)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return starting


def compiled(process):
    """How many programs a process compiled that found no others."""
    said, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    return int(said)


def entries(folder):
    """Whether each entry that processes left is whole, by its folder."""
    found = {}
    for path in folder.rglob("*-cache"):
        try:
            zlib.decompress(path.read_bytes())
            whole = True
        except zlib.error:
            whole = False
        found.setdefault(path.parent.name, []).append(whole)
    return found


def test_a_process_that_is_killed_and_two_at_once_leave_whole_programs_only(start, tmp_path):
    killed = start(0, 4, "killed")
    killed.communicate(timeout=300)
    assert killed.returncode == -signal.SIGXFSZ
    (left,) = entries(tmp_path).values()
    assert sorted(left) == [False, True, True, True]
    both = [start(2, 6), start(2, 8)]
    for process, most in zip(both, (3, 5), strict=True):
        assert compiled(process) <= most
    assert entries(tmp_path) == {"shared": [True] * 8}
    assert compiled(start(0, 9, "linkless")) == 1
    assert entries(tmp_path) == {"shared": [True] * 9}


def test_a_program_runs_where_nothing_can_be_kept(start, tmp_path):
    assert compiled(start(0, 2, "full")) == 2
    assert entries(tmp_path) == {}
    file = tmp_path / "file"
    file.touch()
    assert compiled(start(0, 2, cache=file)) == 0
    assert compiled(start(0, 2, cache=tmp_path / "absent")) == 2
    assert entries(tmp_path / "absent") == {"shared": [True] * 2}

"""Compiled programs are shared whole, whatever becomes of the processes that compile them."""

import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture
def start(tmp_path):
    """Starts a process that compiles programs FIRST to LAST, with a cache in `tmp_path`."""

    def starting(first, last, *how, cache=tmp_path, **variables):
        env = {name: value for name, value in os.environ.items() if "_CACHE_" not in name}
        return subprocess.Popen(
            [sys.executable, Path(__file__).with_name("compiling.py"), str(first), str(last), *how],
            env=env | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(TESTS.parent)} | variables,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return starting


def compiled(process):
    """Number of programs that a process compiled without stored ones."""
    stdout, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    return int(stdout)


def entries(folder):
    """Completeness of each entry that processes left, by folder."""
    are_whole = {}
    for path in folder.rglob("*-cache"):
        try:
            zlib.decompress(path.read_bytes())
            is_whole = True
        except zlib.error:
            is_whole = False
        are_whole.setdefault(path.parent.name, []).append(is_whole)
    return are_whole


def test_a_process_that_is_killed_and_two_at_once_leave_whole_programs_only(start, tmp_path):
    killed = start(0, 4, "killed")
    killed.communicate(timeout=300)
    assert killed.returncode == -signal.SIGXFSZ
    (programs_left,) = entries(tmp_path).values()
    assert sorted(programs_left) == [False, True, True, True]
    for process, most in zip([start(2, 6), start(2, 8)], (3, 5), strict=True):
        assert compiled(process) <= most
    assert entries(tmp_path) == {"checked": [True] * 8}
    assert compiled(start(0, 9, "linkless")) == 1
    assert entries(tmp_path) == {"checked": [True] * 9}


def test_a_program_runs_where_nothing_can_be_kept(start, tmp_path):
    assert compiled(start(0, 2, "full")) == 2
    assert entries(tmp_path) == {}
    file = tmp_path / "file"
    file.touch()
    assert compiled(start(0, 2, cache=file)) == 0
    assert compiled(start(0, 2, cache=tmp_path / "absent")) == 2
    assert entries(tmp_path / "absent") == {"checked": [True] * 2}


def test_damaged_programs_are_dropped_and_compiled_anew(start, tmp_path):
    assert compiled(start(0, 8)) == 8
    checked = next(tmp_path.rglob("checked"))
    flipped, cut, empty, garbled, folder, link, renamed, intact = sorted(checked.iterdir())
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 4
    flipped.write_bytes(content)
    cut.write_bytes(cut.read_bytes()[:-100])
    empty.write_bytes(b"")
    # As zstandard without a checksum would give: it can be decompressed, and is another program.
    program = bytearray(zlib.decompress(garbled.read_bytes()))
    program[-1] ^= 1
    garbled.write_bytes(zlib.compress(program))
    folder.unlink()
    folder.mkdir()
    link.unlink()
    link.symlink_to("nowhere")
    renamed.rename(checked / renamed.name.partition("-")[2])
    assert compiled(start(0, 8)) == 7
    assert intact.is_file() and entries(tmp_path) == {"checked": [True] * 8}
    assert compiled(start(0, 8)) == 0


def test_a_damaged_program_in_a_folder_of_ones_own_is_compiled_without_a_word(start, tmp_path):
    """JAX itself reads and writes there; it takes no second entry of a name."""
    chosen = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "mine")}
    assert compiled(start(0, 2, **chosen)) == 2
    for path in (tmp_path / "mine").iterdir():
        path.write_bytes(path.read_bytes()[:-100])
    assert compiled(start(0, 2, **chosen)) == 2
    assert not (tmp_path / "batch-calibration").exists()


def test_what_a_process_left_before_a_restart_is_removed_after_a_day(start, tmp_path):
    assert compiled(start(0, 1)) == 1
    checked = next(tmp_path.rglob("checked"))
    recent, old = (checked.with_name(f"0123456789ab-{number}-1") for number in (7, 8))
    for folder in (recent, old):
        folder.mkdir()
        (folder / f"jit_program-{folder.name}-cache").write_bytes(zlib.compress(b"a program"))
    os.utime(old, (0, 0))
    os.utime(checked, (0, 0))
    assert compiled(start(0, 1)) == 0
    assert {path.name for path in checked.parent.iterdir()} == {"checked", recent.name}
    assert len(list(checked.iterdir())) == 2

"""File systems that fail for a moment, as network ones do, and what lies in a claim's place."""

import errno
import io
import os

import numpy as np
import pytest
from workers import FakeScorer, render
from workers import files as tables

from batch_calibration import files
from batch_calibration.settings import Cell, Settings
from batch_calibration.studies import Store, scoring
from batch_calibration.studies.claims import Claims
from batch_calibration.studies.store import read_status

CELLS = [Cell("fake", seed) for seed in range(2)]
CHANGES = ("replace", "rename", "unlink", "rmdir", "mkdir")
OPERATIONS = {os: (*CHANGES, "listdir", "fsync"), io: ("open",)}


@pytest.fixture(autouse=True)
def contexts(monkeypatch):
    """Workers of workers.py, without pauses between attempts."""
    monkeypatch.setattr(scoring, "render_contexts", render)
    monkeypatch.setattr(files, "PAUSES", (0, 0, 0))


def score(workdir):
    """Score in this process; a scorer without work."""
    scorer = FakeScorer(workdir.with_name("log"))
    scorer.one = lambda text: [-float(len(text)), -1.0]
    return scoring.run_scoring(Settings(), CELLS, Store(workdir, create=True), scorer=scorer)


class Failing:
    """Fails the operation of one number on a file below a folder, before or after it is done."""

    def __init__(self, monkeypatch, folder, number=-1, code=errno.EIO, is_done=False):
        self.folder, self.number, self.code, self.is_done = f"{folder}/", number, code, is_done
        self.calls = []
        for module, names in OPERATIONS.items():
            for name in names:
                monkeypatch.setattr(module, name, self.wrap(name, getattr(module, name)))

    def wrap(self, name, operation):
        def call(path, *arguments, **options):
            number = len(self.calls)
            if not str(path).startswith(self.folder) and name != "fsync":
                return operation(path, *arguments, **options)
            self.calls.append(name)
            if number != self.number:
                return operation(path, *arguments, **options)
            if self.is_done and name in CHANGES:
                operation(path, *arguments, **options)
            raise OSError(self.code, os.strerror(self.code), str(path))

        return call


@pytest.mark.parametrize("is_done", [False, True], ids=["undone", "done"])
def test_each_operation_on_a_file_may_fail_once(tmp_path, monkeypatch, is_done):
    """With `is_done` it was done, and the server's answer was lost."""
    with monkeypatch.context() as patched:
        calls = Failing(patched, tmp_path / "whole").calls
        score(tmp_path / "whole")
    assert {"replace", "unlink", "rmdir", "mkdir", "listdir", "open"} <= set(calls)
    for number in range(len(calls)):
        workdir = tmp_path / str(number)
        code = (errno.EIO, errno.ESTALE, errno.EBUSY)[number % 3]
        with monkeypatch.context() as patched:
            failing = Failing(patched, workdir, number, code, is_done)
            score(workdir)
        assert len(failing.calls) > number, calls[number]
        assert tables(workdir) == tables(tmp_path / "whole"), calls[number]
        assert not list(workdir.glob("work/claims/*")) and not list(workdir.rglob("*.batches"))
        assert not list(workdir.rglob("*.partial"))


def test_an_error_that_stays_ends_the_attempts(tmp_path, monkeypatch):
    attempts = []

    def refuse(*paths):
        attempts.append(paths)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", refuse)
    for code, most in ((errno.ENOSPC, 1), (errno.EIO, 16)):
        attempts.clear()
        with pytest.raises(OSError, match=os.strerror(code)):
            files.write_whole(tmp_path / "a", b"new")
        assert len(attempts) == most
    assert not list(tmp_path.iterdir())


def lay(kind, path):
    """Files in the place of the claim on a context."""
    path.parent.mkdir(parents=True)
    if kind == "a file":
        path.write_text("x")
    elif kind == "a dead link":
        path.symlink_to("nowhere")
    else:
        path.mkdir()
        if kind == "a folder in it":
            (path / "folder").mkdir()
        elif kind == "a dead link in it":
            (path / "link").symlink_to("nowhere")
        else:
            (path / "unreadable").touch()


KINDS = ["a file", "a dead link", "a folder in it", "a dead link in it", "an unreadable file in it"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_claim_is_named_and_the_other_contexts_are_scored(
    tmp_path, monkeypatch, kind, refuses
):
    plan_ids = sorted(score(tmp_path / "whole").ids)
    claim = tmp_path / "w/work/claims" / plan_ids[0]
    lay(kind, claim)
    opened = io.open

    def refuse(path, *arguments, **options):
        if str(path).endswith("unreadable"):  # as root every file can be read
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(io, "open", refuse)
    error = refuses(Claims(claim.parent).take, plan_ids[0])
    assert str(error) in str(refuses(score, tmp_path / "w"))
    expected, scored = tables(tmp_path / "whole"), tables(tmp_path / "w")
    assert scored == {file: expected[file] for file in expected if plan_ids[0] not in file}
    status = read_status(Store(tmp_path / "w"))
    assert len(status.done) == len(status.left) == 1
    assert [f"broken claim: {error}"] == list(status.lines())[1:2]
    os.rename(claim, tmp_path / "broken")
    score(tmp_path / "w")
    assert tables(tmp_path / "w") == expected


def test_a_claim_that_is_a_link_to_an_empty_folder(tmp_path, refuses):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims/a").symlink_to(tmp_path / "elsewhere")
    assert refuses(Claims(tmp_path / "claims").take, "a").where == str(tmp_path / "claims/a")
    assert [path.name for path in (tmp_path / "claims").iterdir()] == ["a"]


def test_a_batch_is_whole_where_a_part_of_it_was_written_before_a_failure(tmp_path, monkeypatch):
    from batch_calibration.studies import journal

    plans = [journal.BlockPlan("test", "0", 4)]
    written = journal.Journal(tmp_path, plans)
    written.add([0, 1], np.ones((2, 2), np.float32))
    file = written._file

    class Halting:
        failed = False

        def __getattr__(self, name):
            return getattr(file, name)

        def write(self, content):
            if self.failed:
                return file.write(content)
            self.failed = True
            file.write(content[:20])
            raise OSError(errno.EIO, "Input/output error")

    written._file = Halting()
    with written:
        written.add([2, 3], np.zeros((2, 2), np.float32))
    reopened = journal.Journal(tmp_path, plans)
    assert {row: scores.tolist() for row, scores in reopened.rows.items()} == dict(
        enumerate([[1, 1], [1, 1], [0, 0], [0, 0]])
    )

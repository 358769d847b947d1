"""Workers that share a workdir: killed, stalled, out of disk, without locks, with wrong clocks."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from workers import BATCH, CONTEXTS, SIZES, FakeScorer, files, render, score

from batch_calibration.files import ended, process_name
from batch_calibration.settings import Cell, PromptSettings
from batch_calibration.studies import Store, claims, scoring
from batch_calibration.studies.claims import Claims

HERE = Path(__file__).parents[1]
ROWS = CONTEXTS * sum(SIZES.values())
WAIT = 120
"""Seconds after which a test gives up, far beyond what any takes."""


@pytest.fixture(scope="module", autouse=True)
def rendering():
    """Contexts of workers.py in place of rendered ones."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scoring, "render_contexts", render)
        yield


@pytest.fixture(scope="module")
def expected_files(tmp_path_factory, rendering):
    """Every file of scores that one worker writes, undisturbed."""
    folder = tmp_path_factory.mktemp("whole")
    assert score(folder, folder / "log").scored == ROWS
    return files(folder)


def left_over(workdir):
    """Files that workers need while they work, and nobody afterwards."""
    paths = [path for path in Path(workdir).rglob("*") if path.is_file()]
    lasting = {"scores", "plans", "rates", "runs"}
    return [path for path in paths if path.parent.name not in lasting or path.name[0] == "."]


def scored(log):
    return Counter(Path(log).read_text().splitlines())


def worker(*arguments, prefix=(), **options):
    """A process of workers.py."""
    path = {"PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}"}
    command = [*prefix, sys.executable, str(HERE / "workers.py"), *map(str, arguments)]
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=os.environ | path, **options)


@pytest.mark.slow
def test_two_workers_that_are_killed_at_50_moments_write_what_one_writes(tmp_path, expected_files):
    stdout, errors = worker("kill", tmp_path, 14, 50).communicate(timeout=WAIT)
    runs = json.loads(stdout.splitlines()[-1])
    assert sum(run["kills"] for run in runs) == 50, errors
    for run in runs:
        # Opening removes what the killed left, and a last worker finds all done.
        assert score(run["workdir"], run["log"]).scored == 0
        assert files(run["workdir"]) == expected_files and not left_over(run["workdir"])
        times = scored(run["log"])
        assert len(times) == ROWS and times.total() - ROWS <= BATCH * run["kills"]


@pytest.mark.slow
def test_workers_share_the_contexts_and_none_is_scored_twice(tmp_path, expected_files):
    work = tmp_path / "w"
    processes = [worker("score", work, tmp_path / "log") for _ in range(2)]
    streams = [process.communicate(timeout=WAIT) for process in processes]
    shares = [int(out) for out, _ in streams]
    assert sum(shares) == ROWS and set(scored(tmp_path / "log").values()) == {1}
    assert files(work) == expected_files and not left_over(work)


@pytest.mark.slow
def test_a_folder_without_locks(tmp_path, expected_files, monkeypatch):
    """No lock is taken anywhere: where the file system has none, workers share as they do here."""
    import fcntl

    def refuse(*_):
        raise OSError(37, "No locks available")

    for name in ("flock", "lockf", "fcntl"):
        monkeypatch.setattr(fcntl, name, refuse)
    reports = share(tmp_path, [{}, {}])
    assert sum(report.scored for report in reports) == ROWS
    assert files(tmp_path / "w") == expected_files and not left_over(tmp_path / "w")


def in_threads(function, arguments):
    """Call a function with each of the arguments at once."""
    threads = [threading.Thread(target=function, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)


def share(folder, options):
    """Workers as threads of this process; what each reports."""
    reports = []

    def work(options_of_worker):
        reports.append(score(folder / "w", folder / "log", **options_of_worker))

    in_threads(work, options)
    assert len(reports) == len(options)
    return reports


class Elsewhere:
    """Names processes as if they ran on another machine, which tells nothing of their end."""

    def __init__(self, monkeypatch):
        self.names = itertools.count()
        monkeypatch.setattr(claims, "process_name", self)

    def __call__(self):
        return f"{next(self.names):012x}-7-123"


@pytest.mark.slow
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_stale_claim_is_known_whatever_the_clocks_of_two_machines_say(
    tmp_path, monkeypatch, hours
):
    class Clock(datetime):
        @classmethod
        def now(cls, zone):
            return datetime.now(zone) + timedelta(hours=hours)

    passed = [0.0]
    Elsewhere(monkeypatch)
    with monkeypatch.context() as far:
        far.setattr(claims, "datetime", Clock)
        theirs = Claims(tmp_path, lease=9e9).take("a", "context a", of=3)
    first_claims = Claims(tmp_path, lease=60, clock=lambda: passed[0])
    with theirs:
        path = next((tmp_path / "a").iterdir())
        off = time.time() + 3600 * hours
        for _ in range(5):  # beats come, a little less often than a lease ends
            os.utime(path, (off, off))
            assert first_claims.take("a") is None
            passed[0] += 59
            theirs._beat()
        assert first_claims.take("a") is None
        (beat,) = first_claims.heartbeats().values()
        assert datetime.fromisoformat(beat.since) - datetime.now(UTC) < timedelta(hours=hours)
        # No beat from here on.
        passed[0] += 59
        assert first_claims.take("a") is None
        passed[0] += 2
        with first_claims.take("a", "context a") as taken:
            taken.check()
            with pytest.raises(claims.ClaimLost):
                theirs.check()
            theirs._beat()
            assert Claims(tmp_path).take("a") is None
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_of_many_who_see_a_stale_claim_one_takes_it(tmp_path, monkeypatch):
    Elsewhere(monkeypatch)
    assert Claims(tmp_path).take("a")
    passed = [0.0]
    seeing = [Claims(tmp_path, clock=lambda: passed[0]) for _ in range(8)]
    assert [claims.take("a") for claims in seeing] == [None] * 8
    passed[0] = 61
    gate, taken = threading.Barrier(8), []

    def take(claims):
        gate.wait()
        taken.append(claims.take("a"))

    in_threads(take, seeing)
    assert len(taken) == 8 and sum(claim is not None for claim in taken) == 1


@pytest.mark.slow
def test_of_many_who_want_a_free_context_one_takes_it(tmp_path):
    all_claims, gate, taken = [Claims(tmp_path) for _ in range(8)], threading.Barrier(8), []

    def take(claims):
        for round in range(20):
            gate.wait()
            claim = claims.take("a")
            taken.append((round, claim))
            gate.wait()
            if claim:
                claim.__enter__().__exit__(None, None, None)

    in_threads(take, all_claims)
    assert Counter(round for round, claim in taken if claim) == dict.fromkeys(range(20), 1)


def test_a_process_is_known_by_its_beginning_and_its_machine(monkeypatch):
    name = process_name()
    machine, number, began = name.split("-")
    assert not ended(name) and not ended(f"{name}-0a1b2c3d")
    assert ended(f"{machine}-{number}-{int(began) - 1}-0a1b2c3d")  # its number is given again
    assert not ended(f"0123456789ab-{number}-1") and not ended("") and not ended("a-b-c")
    monkeypatch.setattr("batch_calibration.files._machine", lambda: "0123456789ab")
    assert not ended(name)


@pytest.mark.slow
def test_a_worker_that_stalls_loses_its_context_and_writes_nothing_over_the_others(
    tmp_path, expected_files, monkeypatch
):
    """It goes on after another took over: what that one wrote stays, and all is done."""
    stalled, resumed = threading.Event(), threading.Event()

    class Stalls(FakeScorer):
        def score(self, inputs, labels, **options):
            scores = super().score(inputs, labels, **options)
            if not stalled.is_set():
                stalled.set()
                assert resumed.wait(WAIT)
            return scores

    Elsewhere(monkeypatch)
    monkeypatch.setattr(claims.Claim, "_keep_beating", lambda claim: None)  # no beats
    work, log = tmp_path / "w", tmp_path / "log"
    options = {"lease": 0.05, "scorer": Stalls(log)}
    first = threading.Thread(target=score, args=(work, log), kwargs=options)
    first.start()
    assert stalled.wait(WAIT)
    second = score(work, log, lease=0.05)
    before = {path: path.stat().st_mtime_ns for path in (work / "scores").iterdir()}
    resumed.set()
    first.join(WAIT)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert second.scored < ROWS and files(work) == expected_files and not left_over(work)


def test_writers_of_one_context_with_other_blocks_lose_none(tmp_path):
    """Eight runs, each with a probe of its own and the test rows, at once on one context."""
    names = [f"probe{number}" for number in range(8)]
    cells = [Cell("fake", prompt=PromptSettings(template=name)) for name in names]
    share(tmp_path, [{"cells": [cell]} for cell in cells])
    ((table,), _) = Store(tmp_path / "w").tables()
    assert set(table.blocks) == {"test", *names}
    assert set(scored(tmp_path / "log").values()) == {1} and not left_over(tmp_path / "w")


SMALL_DISK = """mount -t tmpfs -o size=32k none "$0" || exit 77
"$@"; echo "code $?"
mount -o remount,size=9m "$0"
"$@"; echo "code $?"
cp -r "$0/w" "$0.kept"
"""


@pytest.mark.slow
def test_a_full_disk_keeps_what_is_done_and_room_lets_the_run_go_on(tmp_path, expected_files):
    """A real one: a file system in memory, mounted for one shell and what it starts."""
    work, log = tmp_path / "disk", tmp_path / "log"
    work.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, str(work)]
    try:
        process = worker("score", work / "w", log, prefix=alone)
    except FileNotFoundError:
        pytest.skip("needs unshare, of util-linux, to mount a small disk")
    out, errors = process.communicate(timeout=WAIT)
    if "code" not in out:
        pytest.skip(f"needs the right to mount a small disk: {errors}")
    full, resumed, code = out.splitlines()
    assert (full, code) == ("code 2", "code 0") and "No space left on device" in errors
    assert "Traceback" not in errors and errors.count("error: ") == 1, errors
    # What had been finished is not scored again, but for the batch that could not be kept.
    assert 0 < int(resumed) < ROWS and scored(log).total() <= ROWS + BATCH
    done_folder = tmp_path / "disk.kept"
    assert files(done_folder) == expected_files and not left_over(done_folder)

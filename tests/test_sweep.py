"""Workers that share a workdir write what one process writes, whoever of them dies."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from batch_calibration.errors import InputError
from batch_calibration.grids import grid
from batch_calibration.settings import Settings
from batch_calibration.store import Store
from batch_calibration.study import sweep
from experiments.launchers.local import Local

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = Settings.of(
    model="mini", data="mini", tasks="sst2", limit=40, labeled_per_class=0, seeds=3
)
FLAGS = [
    "--config=configs/mini.py", "--config.tasks=sst2", "--config.limit=40", "--config.seeds=3",
    "--config.labeled_per_class=0", "--config.shots=1,2",
]  # fmt: skip


@pytest.fixture(scope="module")
def studies():
    return grid(SETTINGS, shots=(1, 2))


@pytest.fixture(scope="module")
def one(studies, tmp_path_factory):
    """The workdir of one process."""
    workdir = tmp_path_factory.mktemp("one")
    report = sweep(studies, workdir)
    assert report.contexts == 6 and report.workers[0].scored == report.inputs and not report.lost
    return workdir


def tables(workdir):
    return {path.name: path.read_bytes() for path in (workdir / "scores").iterdir()}


def until(true, seconds=300):
    """Wait for a condition; the limit only ends a test that would wait forever."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "the condition did not come"
        time.sleep(0.05)


def start(workdir, *flags):
    """A launcher as a program of its own, in a group of its own."""
    command = [sys.executable, "-m", "experiments.sweep", *FLAGS, f"--workdir={workdir}", *flags]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def workers(launcher):
    """The processes of a launcher's workers."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    found = [int(child) for child in children]
    return [one for one in found if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


def runs(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def last_context_held(one, workdir):
    """A sweep that cannot end: one of its contexts is claimed by this process."""
    name = sorted(path.stem for path in (one / "scores").iterdir())[-1]
    with Store(workdir, create=True).claims.take(name):
        yield


def test_workers_of_this_machine_write_the_store_of_one_process(studies, one, tmp_path):
    said = []
    report = sweep(studies, tmp_path, launch=Local(workers=2), notify=said.append)
    assert tables(tmp_path) == tables(one)
    assert report.contexts == 6 and report.lost == () and "2 workers" in said[0]
    assert sum(worker.scored for worker in report.workers) == report.inputs


def test_a_launcher_that_is_killed_leaves_workers_that_finish(one, tmp_path):
    with last_context_held(one, tmp_path):
        first = start(tmp_path)
        until(lambda: len(tables(tmp_path)) == 5)
        left = workers(first)
        assert len(left) == 2
        first.kill()
        first.wait()
        second = start(tmp_path)
        until(lambda: len(workers(second)) == 2)
        assert all(map(runs, left))
    said, errors = second.communicate(timeout=300)
    assert second.returncode == 0, errors
    assert "6 contexts" in said
    until(lambda: not any(map(runs, left)))
    first.communicate()
    assert tables(tmp_path) == tables(one)


def test_a_launcher_that_is_stopped_stops_its_workers(one, tmp_path, studies):
    with last_context_held(one, tmp_path):
        launcher = start(tmp_path)
        until(lambda: len(tables(tmp_path)) >= 2)
        mine = workers(launcher)
        launcher.send_signal(signal.SIGTERM)
        _, errors = launcher.communicate(timeout=300)
        assert launcher.returncode == 143 and "what was finished is kept" in errors
        assert not any(map(runs, mine))
    assert Store(tmp_path).claims.held() == {}
    stopped = tables(tmp_path)
    sweep(studies, tmp_path)
    assert tables(tmp_path) == tables(one) and stopped.items() <= tables(one).items()


def test_a_worker_that_is_killed_leaves_its_part_to_the_others(one, tmp_path):
    with last_context_held(one, tmp_path):
        launcher = start(tmp_path)
        until(lambda: len(tables(tmp_path)) >= 2)
        os.kill(workers(launcher)[0], signal.SIGKILL)
    said, errors = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, errors
    assert "worker 0 ended early (exit code -9)" in said and "6 contexts" in said
    assert tables(tmp_path) == tables(one)


def test_a_wrong_setting_is_one_sentence_and_nothing_is_scored(tmp_path):
    wrong = grid(SETTINGS.replace(tasks="copa"), verbalizer=("nobody",))
    with pytest.raises(InputError, match="nobody") as caught:
        sweep(wrong, tmp_path, launch=Local(workers=2), notify=lambda _: None)
    assert str(caught.value).count("nobody") == 1 and tables(tmp_path) == {}


def test_a_worker_of_two_processes(one, tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
    studies = grid(SETTINGS.replace(mesh="data:2", seeds=1))
    report = sweep(studies, tmp_path, launch=Local(workers=1, processes=2), notify=lambda _: None)
    assert report.workers[0].scored == report.inputs
    assert tables(tmp_path).keys() <= tables(one).keys() and len(tables(tmp_path)) == 1

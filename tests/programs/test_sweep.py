"""Workers that share a workdir write what one process writes, whoever of them dies."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from workers import files as tables

from batch_calibration.cli.launchers.local import Local
from batch_calibration.cli.launchers.slurm import Slurm
from batch_calibration.settings import Settings, grid
from batch_calibration.studies import Store, sweep

ROOT = Path(__file__).resolve().parents[2]
ROWS = {"tasks": "sst2", "limit": 40, "labeled_per_class": 0, "seeds": 3}
SETTINGS = Settings.of(model="mini", data="mini", **ROWS)
FLAGS = ["--config=configs/mini.py", *(f"--config.{key}={value}" for key, value in ROWS.items())]
FLAGS += ["--config.shots=1,2"]


@pytest.fixture(scope="module")
def studies():
    return grid(SETTINGS, shots=(1, 2))


@pytest.fixture(scope="module")
def reference_store(studies, tmp_path_factory):
    """The workdir of one process."""
    workdir = tmp_path_factory.mktemp("one")
    report = sweep(studies, workdir)
    assert report.contexts == 6 and report.workers[0].scored == report.inputs and not report.lost
    return workdir


def until(true, seconds=300):
    """Wait for a condition; the limit only ends a test that would wait forever."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "the condition did not come"
        time.sleep(0.05)


def popen(*words, **options):
    """Python in a process of its own that is not waited for."""
    command, pipe = [sys.executable, *map(str, words)], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=pipe, stderr=pipe, **options)


def start(workdir, *flags):
    """A launcher as a program of its own, in a group of its own."""
    words = ["-m", "batch_calibration", "sweep", *FLAGS, f"--workdir={workdir}", *flags]
    return popen(*words, start_new_session=True)


def workers(launcher):
    """The processes of a launcher's workers."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    pids = [int(child) for child in children]
    return [pid for pid in pids if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def runs(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def last_context_held(reference_store, workdir):
    """A sweep that cannot end: one of its contexts is claimed by this process."""
    name = sorted(path.stem for path in (reference_store / "scores").iterdir())[-1]
    with Store(workdir, create=True).claims.take(name):
        yield


def test_workers_of_this_machine_write_the_store_of_one_process(studies, reference_store, tmp_path):
    notes = []
    report = sweep(studies, tmp_path, launch=Local(workers=2), notify=notes.append)
    assert tables(tmp_path) == tables(reference_store)
    assert report.contexts == 6 and report.lost == () and "2 workers" in notes[0]
    assert sum(worker.scored for worker in report.workers) == report.inputs


def test_a_program_s_workers_write_it_too(program, reference_store, tmp_path):
    flags = (*FLAGS[:-1], "--vary=shots=1,2", "--launcher=local", "--workers=2")
    done = program("sweep", *flags, f"--workdir={tmp_path}", process=True)
    assert "6 contexts: " in done.stdout and " by 2 workers: " in done.stdout
    assert tables(tmp_path) == tables(reference_store)
    again = program("sweep", *flags, f"--workdir={tmp_path}", "--dry_run", process=True)
    assert "0 of " in again.stdout


def test_a_launcher_that_is_killed_leaves_workers_that_finish(reference_store, tmp_path):
    with last_context_held(reference_store, tmp_path):
        first = start(tmp_path)
        until(lambda: len(tables(tmp_path)) == 5)
        left_workers = workers(first)
        assert len(left_workers) == 2
        first.kill()
        first.wait()
        second = start(tmp_path)
        until(lambda: len(workers(second)) == 2)
        assert all(map(runs, left_workers))
    stdout, errors = second.communicate(timeout=300)
    assert second.returncode == 0, errors
    assert "6 contexts" in stdout
    until(lambda: not any(map(runs, left_workers)))
    first.communicate()
    assert tables(tmp_path) == tables(reference_store)


def test_a_launcher_that_is_stopped_stops_its_workers(reference_store, tmp_path, studies):
    with last_context_held(reference_store, tmp_path):
        launcher = start(tmp_path)
        until(lambda: len(tables(tmp_path)) >= 2)
        own_workers = workers(launcher)
        launcher.send_signal(signal.SIGTERM)
        _, errors = launcher.communicate(timeout=300)
        assert launcher.returncode == 143 and "finished work is kept" in errors
        assert not any(map(runs, own_workers))
    assert Store(tmp_path).claims.heartbeats() == {}
    stopped = tables(tmp_path)
    sweep(studies, tmp_path)
    expected = tables(reference_store)
    assert tables(tmp_path) == expected and stopped.items() <= expected.items()


def test_a_worker_that_is_killed_leaves_its_part_to_the_others(reference_store, tmp_path):
    with last_context_held(reference_store, tmp_path):
        launcher = start(tmp_path)
        until(lambda: len(tables(tmp_path)) >= 2)
        os.kill(workers(launcher)[0], signal.SIGKILL)
    stdout, errors = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, errors
    assert "worker 0 ended early (exit code -9)" in stdout and "6 contexts" in stdout
    assert tables(tmp_path) == tables(reference_store)


def test_a_wrong_setting_is_one_sentence_and_nothing_is_scored(tmp_path, refuses):
    wrong = grid(SETTINGS.replace(tasks="copa"), verbalizer=("nobody",))
    caught = refuses(sweep, wrong, tmp_path, launch=Local(workers=2), notify=lambda _: None)
    assert str(caught).count("nobody") == 1 and tables(tmp_path) == {}


def test_a_worker_of_two_processes(reference_store, tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
    studies = grid(SETTINGS.replace(mesh="data:2", seeds=1))
    report = sweep(studies, tmp_path, launch=Local(workers=1, processes=2), notify=lambda _: None)
    assert report.workers[0].scored == report.inputs
    assert tables(tmp_path).keys() <= tables(reference_store).keys() and len(tables(tmp_path)) == 1


def children(process):
    try:
        return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    except FileNotFoundError:
        return []


def test_a_preempted_job_starts_again_and_finishes(studies, reference_store, tmp_path):
    """Preemption is the signal that Slurm sends; the job's own process gets it in mid-run."""
    notes = []

    def preempt():
        with last_context_held(reference_store, tmp_path):
            until(lambda: len(tables(tmp_path)) >= 2)
            controller = int(notes[0].split()[1].rstrip(";,"))
            (job,) = children(controller)
            os.kill(job, signal.SIGUSR2)
            until(lambda: children(controller) not in ([job], []))

    interruption = threading.Thread(target=preempt)
    interruption.start()
    launch = Slurm(workers=1, cluster="local", poll=0.1)
    report = sweep(studies, tmp_path, launch=launch, notify=notes.append)
    interruption.join()
    assert report.contexts == 6 and report.lost == ()
    assert tables(tmp_path) == tables(reference_store)
    log = "".join(path.read_text() for path in (tmp_path / "work" / "logs").rglob("*_log.*"))
    assert "Caught signal SIGUSR2" in log and "Requeued job" in log


def test_a_wrong_setting_is_refused_before_a_job_is_asked_for(studies, tmp_path, refuses):
    (study,) = studies
    wrong = study._replace(cells=(study.settings.cell("sst2", shots=5000),))
    launch = Slurm(cluster="local")
    assert "5000" in str(refuses(sweep, [wrong], tmp_path, launch=launch, notify=lambda _: None))
    assert not list((tmp_path / "work").rglob("*"))


def test_a_node_of_ray_is_removed_and_the_sweep_ends_whole(studies, reference_store, tmp_path):
    """A cluster of two nodes, one worker on each; `ray_sweep.py` removes one in mid-run."""
    workdir = tmp_path / "w"
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    with last_context_held(reference_store, workdir):
        cluster = popen(ROOT / "tests/programs/ray_sweep.py", workdir, env=env)
        until(lambda: (workdir / "removed").exists() or cluster.poll() is not None)
    stdout, errors = cluster.communicate(timeout=300)
    assert cluster.returncode == 0, errors[-3000:]
    report = json.loads(stdout.splitlines()[-1])
    # Ray may abort where a task is cancelled whose result is there.
    assert report == {"contexts": 6, "lost": [], "workers": 2, "cancelled": 0}
    stdout = "".join(log.read_text() for log in (workdir / "work" / "logs").iterdir())
    assert stdout.count("beginning token") == 3, "the lost node's task was started again"
    assert tables(workdir) == tables(reference_store)


def test_a_dry_run_says_what_is_left_and_how_long_it_takes(program, reference_store, tmp_path):
    flags = (*FLAGS[:-1], "--config.shots=1,2,4", f"--workdir={reference_store}")
    done = program("sweep", *flags, "--dry-run")
    rows = done.stdout.split("rows are left")[0].split()[-3:]
    assert re.search(r"^sst2 +9 ", done.stdout, re.M) and f"{rows[0]} of {rows[2]} " in done.stdout
    left, whole = (int(rows[i].replace(",", "")) for i in (0, 2))
    assert left * 3 == pytest.approx(whole, rel=0.1)
    assert "time: about 0:00:" in done.stdout and "rows/s of a worker" in done.stdout
    assert len(tables(reference_store)) == 6
    done = program("sweep", *FLAGS, f"--workdir={tmp_path / 'new'}", "--dry-run")
    assert "time: unknown" in done.stdout and not (tmp_path / "new").exists()


RAY = "--launcher=ray"
HAS = "does not take it; leave it out. It takes --gpus, --processes, --grace"

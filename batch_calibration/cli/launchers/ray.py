"""Starts workers as tasks of a Ray cluster."""

import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from batch_calibration.cli.launchers import ended_early
from batch_calibration.cli.machine import keep_programs, share_programs
from batch_calibration.errors import InputError, answering
from batch_calibration.studies.scoring import ScoringReport
from batch_calibration.studies.workers import Work

if TYPE_CHECKING:
    import ray


@dataclass(frozen=True)
class Ray:
    """Workers as tasks of a Ray cluster, whose nodes all see the workdir.

    Where a node is lost, Ray starts its tasks again on another, and they go on with what is left.

    Attributes:
        workers: how many.
        cpus: for each worker.
        gpus: for each worker.
        resources: others for each worker, by the name that the cluster gives them, such as TPU.
        address: of the cluster; "" is that of RAY_ADDRESS, or else one of this machine alone.
        grace: seconds that workers have to stop before they are killed.
    """

    workers: int = 2
    cpus: float = 1
    gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    address: str = ""
    grace: float = 60.0

    def __call__(self, work: Work, notify: Callable[[str], None]) -> list[ScoringReport | str]:
        """The report of each worker, or a sentence on its end."""
        import ray

        work.check()
        is_ours = not ray.is_initialized()  # a cluster that the caller joined is left as it was
        if is_ours:
            _connect(self.address)
        run = ray.remote(
            num_cpus=self.cpus, num_gpus=self.gpus, resources=dict(self.resources), max_retries=3
        )(_run)
        self._warn_of_missing_resources(notify)
        work.logs.mkdir(parents=True, exist_ok=True)
        notify(
            f"{self.workers} tasks for the cluster at {ray.get_runtime_context().gcs_address}; "
            f"what they say is in {work.logs}"
        )
        tasks = []
        for number in range(self.workers):
            log = work.logs / f"worker-{number}.log"
            tasks.append(run.remote(work, os.getcwd(), log))
        try:
            return [_wait(number, task) for number, task in enumerate(tasks)]
        finally:
            # Only what still runs: Ray 2.60 aborts this process where it cancels a task whose
            # result is there and that it has not yet taken off its list.
            _, running = ray.wait(tasks, num_returns=len(tasks), timeout=0)  # asks, does not wait
            for task in running:
                ray.cancel(task, force=False)  # an interruption, so that claims are given back
            ray.wait(tasks, num_returns=len(tasks), timeout=self.grace)
            if is_ours:
                ray.shutdown()

    def _warn_of_missing_resources(self, notify: Callable[[str], None]) -> None:
        import ray

        needed = {"CPU": self.cpus, "GPU": self.gpus, **self.resources}
        for node in ray.nodes():  # type: ignore[no-untyped-call]
            free = node["Resources"] if node["Alive"] else {}
            # Of one node: a task cannot span two.
            if all(free.get(name, 0) >= amount for name, amount in needed.items()):
                return
        amounts = ", ".join(f"{amount:g} {name}" for name, amount in needed.items() if amount)
        notify(
            f"no node of the cluster has {amounts}: waiting for one; stop this, and ask for less, "
            "where none will come"
        )


def _connect(address: str) -> None:
    """Join a cluster, or make one; interruptions stay answered as they were."""
    import ray

    # `ray.init` sets handlers of its own.
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    host, _, port = address.rpartition(":")
    remedy = "give the address that `ray start --head` printed, or leave it out"
    kinds = (OSError, RuntimeError, ValueError)
    with answering(kinds, f"--address={address}", "a Ray cluster to join", remedy):
        # An address such as auto or ray://HOST:PORT is left to Ray.
        if port.isdecimal() and "/" not in host:
            # Ray itself would try for minutes.
            socket.create_connection((host, int(port)), timeout=10).close()
        # Without "local" it would also join what somebody else's `ray start` left running.
        cluster = address or os.environ.get("RAY_ADDRESS") or "local"
        ray.init(cluster, include_dashboard=False, log_to_driver=False)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _run(work: Work, folder: str, log: Path) -> ScoringReport | str:
    """The task: one worker, in the folder where relative paths of the settings begin."""
    os.chdir(folder)
    keep_programs()
    with log.open("a") as file:
        try:
            return work(partial(print, file=file, flush=True))
        except InputError as error:
            return str(error)
        finally:
            # The process waits for more tasks, and Ray kills it in the end.
            share_programs()


def _wait(number: int, task: "ray.ObjectRef[ScoringReport | str]") -> ScoringReport | str:
    """Wait for a worker: its report, or a sentence on how it ended."""
    import ray

    try:
        return ray.get(task)
    except ray.exceptions.RayError as error:
        # The last line names the cause.
        return ended_early(f"worker {number}", str(error).strip().splitlines()[-1])

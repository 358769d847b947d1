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
    """A launcher of workers as tasks of a Ray cluster with a workdir that all nodes share.

    If a node is lost, Ray restarts its tasks on another node, where they do the remaining work.

    Attributes:
        workers: Number of workers.
        cpus: CPU cores for each worker.
        gpus: GPUs for each worker.
        resources: Other resources for each worker by the cluster's name for them, such as TPU.
        address: Address of the cluster; "" is RAY_ADDRESS, or else a new local cluster.
        grace: Seconds that workers have to stop before they are killed.
    """

    workers: int = 2
    cpus: float = 1
    gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    address: str = ""
    grace: float = 60.0

    def __call__(self, work: Work, notify: Callable[[str], None]) -> list[ScoringReport | str]:
        """Returns each worker's report, or a message that explains its early end."""
        import ray

        work.check()
        is_ours = not ray.is_initialized()  # a cluster that the caller joined stays connected
        if is_ours:
            _connect(self.address)
        run = ray.remote(
            num_cpus=self.cpus, num_gpus=self.gpus, resources=dict(self.resources), max_retries=3
        )(_run)
        self._warn_of_missing_resources(notify)
        work.logs.mkdir(parents=True, exist_ok=True)
        notify(
            f"{self.workers} tasks for the cluster at {ray.get_runtime_context().gcs_address}; "
            f"their output is in {work.logs}"
        )
        tasks = []
        for number in range(self.workers):
            log = work.logs / f"worker-{number}.log"
            tasks.append(run.remote(work, os.getcwd(), log))
        try:
            return [_wait(number, task) for number, task in enumerate(tasks)]
        finally:
            # Only running tasks: Ray 2.60 aborts this process if it cancels a finished task that
            # is still on its list.
            _, running = ray.wait(tasks, num_returns=len(tasks), timeout=0)  # does not wait
            for task in running:
                ray.cancel(task, force=False)  # an interruption, so that claims are released
            ray.wait(tasks, num_returns=len(tasks), timeout=self.grace)
            if is_ours:
                ray.shutdown()

    def _warn_of_missing_resources(self, notify: Callable[[str], None]) -> None:
        import ray

        needed = {"CPU": self.cpus, "GPU": self.gpus, **self.resources}
        for node in ray.nodes():  # type: ignore[no-untyped-call]
            free = node["Resources"] if node["Alive"] else {}
            # One node must have all resources, because a task cannot span two nodes.
            if all(free.get(name, 0) >= amount for name, amount in needed.items()):
                return
        amounts = ", ".join(f"{amount:g} {name}" for name, amount in needed.items() if amount)
        notify(
            f"no node of the cluster has {amounts}: waiting for one; if none will be added, stop "
            "this and request less"
        )


def _connect(address: str) -> None:
    """Joins a cluster, or starts one; restores the signal handlers afterwards."""
    import ray

    # `ray.init` replaces the signal handlers.
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    host, _, port = address.rpartition(":")
    remedy = "give the address that `ray start --head` printed, or leave it out"
    kinds = (OSError, RuntimeError, ValueError)
    with answering(kinds, f"--address={address}", "a Ray cluster to join", remedy):
        # Ray itself resolves addresses such as auto or ray://HOST:PORT.
        if port.isdecimal() and "/" not in host:
            # Ray would try for minutes to connect to an address without a cluster.
            socket.create_connection((host, int(port)), timeout=10).close()
        # Without "local", Ray would also join a cluster that another user's `ray start` started.
        cluster = address or os.environ.get("RAY_ADDRESS") or "local"
        ray.init(cluster, include_dashboard=False, log_to_driver=False)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _run(work: Work, folder: str, log: Path) -> ScoringReport | str:
    """Runs one worker in the folder to which relative paths of the settings refer."""
    os.chdir(folder)
    keep_programs()
    with log.open("a") as file:
        try:
            return work(partial(print, file=file, flush=True))
        except InputError as error:
            return str(error)
        finally:
            # The process waits for more tasks until Ray kills it, so programs are shared now.
            share_programs()


def _wait(number: int, task: "ray.ObjectRef[ScoringReport | str]") -> ScoringReport | str:
    """Waits for a worker; returns its report, or a message that explains its early end."""
    import ray

    try:
        return ray.get(task)
    except ray.exceptions.RayError as error:
        # The last line names the cause.
        return ended_early(f"worker {number}", str(error).strip().splitlines()[-1])

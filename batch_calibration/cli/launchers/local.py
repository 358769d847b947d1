"""Starts workers as processes of this machine."""

import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from batch_calibration.cli import guard
from batch_calibration.cli.launchers import ended_early
from batch_calibration.cli.machine import keep_programs, use_few_arenas
from batch_calibration.errors import InputError
from batch_calibration.studies.scoring import ScoringReport
from batch_calibration.studies.workers import Work

# A forked process would inherit locks held by JAX's threads, as the launcher has loaded JAX.
SPAWN = get_context("spawn")


@dataclass(frozen=True)
class Local:
    """A launcher of workers as processes of this machine, which share its cores or its GPUs.

    If the launcher is killed, the workers finish the sweep; if it is interrupted, they stop too.

    Attributes:
        workers: Number of workers.
        gpus: GPUs for each process of a worker; 0 divides the CPU cores among the processes.
        processes: Processes of each worker, joined by `jax.distributed`; more than 1 need
            `config.mesh`.
        grace: Seconds that workers have to stop before they are killed.
    """

    workers: int = 2
    gpus: int = 0
    processes: int = 1
    grace: float = 60.0

    def __call__(self, work: Work, notify: Callable[[str], None]) -> list[ScoringReport | str]:
        """Returns each worker's report, or a message that explains its early end."""
        work.logs.mkdir(parents=True, exist_ok=True)
        started = list[Worker]()
        try:
            for number in range(self.workers):
                started.append(self._start(work, number))
            notify(f"{self.workers} workers; their output is in {work.logs}")
            return [worker.wait() for worker in started]
        finally:
            # An interruption ends here, too: no worker may continue in the background.
            _stop(list(chain.from_iterable(worker.processes for worker in started)), self.grace)

    def _start(self, work: Work, number: int) -> "Worker":
        receiver, sender = SPAWN.Pipe(duplex=False)
        log = work.logs / f"worker-{number}.log"
        # A worker with a single process needs no coordinator.
        coordinator = f"localhost:{_free_port()}" if self.processes > 1 else ""
        processes = list[BaseProcess]()
        for rank in range(self.processes):
            place = number * self.processes + rank  # among all processes
            own_log = log if rank == 0 else work.logs / f"worker-{number}-{rank}.log"
            cores, gpus = self._cores(place), self._gpus(place)
            seat = Seat(own_log, cores, gpus, coordinator, self.processes, rank)
            # Only the first process holds the pipe, which closes when that process ends.
            process = SPAWN.Process(target=_run, args=(work, None if rank else sender, seat))
            process.start()
            processes.append(process)
        sender.close()  # else this process's copy would keep the pipe open, and `wait` would hang
        return Worker(number, processes, receiver, log)

    def _cores(self, number: int) -> list[int]:
        """Returns the cores of a process; sharing all cores would make processes wait."""
        if self.gpus or not hasattr(os, "sched_getaffinity"):
            return []
        # With fewer cores than processes, some lists are empty; the system then places them.
        return sorted(os.sched_getaffinity(0))[number :: self.workers * self.processes]

    def _gpus(self, number: int) -> list[str]:
        """Returns the GPUs of a process among the GPUs visible to the launcher."""
        needed = self.gpus * self.workers * self.processes
        numbers = ",".join(map(str, range(needed)))
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", numbers).split(",")
        if needed > len(devices):
            expected, got = f"{needed} GPUs in CUDA_VISIBLE_DEVICES", len(devices)
            raise InputError.at(f"--gpus={self.gpus}", expected, got, "use fewer --workers")
        return devices[number * self.gpus : (number + 1) * self.gpus]


class Seat(NamedTuple):
    """The log, cores and GPUs of a process, and its number within its worker."""

    log: Path
    cores: list[int]
    gpus: list[str]
    coordinator: str
    processes: int
    rank: int


class Worker(NamedTuple):
    """A started worker."""

    number: int
    processes: list[BaseProcess]
    answer: Connection
    log: Path

    def wait(self) -> ScoringReport | str:
        """Waits for the worker; returns its report, or a message that explains its early end."""
        try:
            answer: ScoringReport | str = self.answer.recv()
        # The worker ended without an answer; its exit code is known after it is joined.
        except EOFError:
            self.processes[0].join()
            reason = f"exit code {self.processes[0].exitcode}"
            answer = ended_early(f"worker {self.number}", reason, self.log)
        for process in self.processes:
            process.join()
        return answer


def _run(work: Work, answer: Connection | None, seat: Seat) -> None:
    """Runs one process of a worker."""
    # In a new session, the terminal does not interrupt the process; the launcher forwards the
    # interruption once.
    os.setsid()
    with seat.log.open("a") as log:
        for stream in (1, 2):  # file descriptors, because C++ bypasses sys.stdout
            os.dup2(log.fileno(), stream)
    guard.set_up_process()
    if seat.cores:
        # JAX starts one thread per available core when it is imported.
        os.sched_setaffinity(0, seat.cores)
    if seat.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(seat.gpus)
    guard.guard(lambda: _answer(work, answer, seat), destination=str(work.workdir))


def _answer(work: Work, answer: Connection | None, seat: Seat) -> None:
    use_few_arenas()
    import jax

    keep_programs()
    if seat.coordinator:
        jax.distributed.initialize(seat.coordinator, seat.processes, seat.rank)
    try:
        report: ScoringReport | str = work(print)
    except InputError as error:
        report = str(error)
        print(report, file=sys.stderr)
    if answer:  # only the first process of a worker has the pipe
        # The launcher may have been killed.
        with suppress(BrokenPipeError):
            answer.send(report)


def _stop(processes: list[BaseProcess], grace: float) -> None:
    """Asks processes to stop and kills them after the grace period; finished work is kept."""
    for process in processes:
        if process.is_alive():
            process.terminate()
    end = time.monotonic() + grace  # one deadline for all processes
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
        process.kill()  # has no effect on a process that has ended


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))  # 0: the system picks a free port
        port: int = listener.getsockname()[1]
        return port

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

# A forked process would share the threads' locks of JAX, which the launcher has loaded.
SPAWN = get_context("spawn")


@dataclass(frozen=True)
class Local:
    """Workers as processes of this machine, which share its cores or its GPUs.

    They outlive a launcher that is killed, and finish the sweep; one that is stopped stops them.

    Attributes:
        workers: how many.
        gpus: for each process of a worker; with 0 each has its own part of the processor's cores.
        processes: of each worker, joined by `jax.distributed`; more than 1 need `config.mesh`.
        grace: seconds that workers have to stop before they are killed.
    """

    workers: int = 2
    gpus: int = 0
    processes: int = 1
    grace: float = 60.0

    def __call__(self, work: Work, notify: Callable[[str], None]) -> list[ScoringReport | str]:
        """The report of each worker, or a sentence on its end."""
        work.logs.mkdir(parents=True, exist_ok=True)
        started = list[Worker]()
        try:
            for number in range(self.workers):
                started.append(self._start(work, number))
            notify(f"{self.workers} workers; what they say is in {work.logs}")
            return [worker.wait() for worker in started]
        finally:
            # Reached by an interruption, too: no worker may go on unseen.
            _stop(list(chain.from_iterable(worker.processes for worker in started)), self.grace)

    def _start(self, work: Work, number: int) -> "Worker":
        receiver, sender = SPAWN.Pipe(duplex=False)
        log = work.logs / f"worker-{number}.log"
        # A worker of one process joins nobody.
        coordinator = f"localhost:{_free_port()}" if self.processes > 1 else ""
        processes = list[BaseProcess]()
        for rank in range(self.processes):
            place = number * self.processes + rank  # among all processes
            own_log = log if rank == 0 else work.logs / f"worker-{number}-{rank}.log"
            cores, gpus = self._cores(place), self._gpus(place)
            seat = Seat(own_log, cores, gpus, coordinator, self.processes, rank)
            # The pipe ends when the first process does: no other holds it open.
            process = SPAWN.Process(target=_run, args=(work, None if rank else sender, seat))
            process.start()
            processes.append(process)
        sender.close()  # this process's copy, or `wait` would never see the end
        return Worker(number, processes, receiver, log)

    def _cores(self, number: int) -> list[int]:
        """The cores of a process: where all take all, they wait for each other."""
        if self.gpus or not hasattr(os, "sched_getaffinity"):
            return []
        # Empty where there are fewer cores than processes: then the system places them.
        return sorted(os.sched_getaffinity(0))[number :: self.workers * self.processes]

    def _gpus(self, number: int) -> list[str]:
        """The GPUs of a process, from the GPUs that this one sees."""
        needed = self.gpus * self.workers * self.processes
        numbers = ",".join(map(str, range(needed)))
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", numbers).split(",")
        if needed > len(devices):
            raise InputError(
                f"--gpus={self.gpus}: the workers need {needed} GPUs, but CUDA_VISIBLE_DEVICES "
                f"names {len(devices)}; give fewer --workers, or more devices."
            )
        return devices[number * self.gpus : (number + 1) * self.gpus]


class Seat(NamedTuple):
    """Where a process works: its log, cores and GPUs, and its number within its worker."""

    log: Path
    cores: list[int]
    gpus: list[str]
    coordinator: str
    processes: int
    rank: int


class Worker(NamedTuple):
    """A worker that was started."""

    number: int
    processes: list[BaseProcess]
    answer: Connection
    log: Path

    def wait(self) -> ScoringReport | str:
        """Wait for the worker: its report, or a sentence on how it ended."""
        try:
            answer: ScoringReport | str = self.answer.recv()
        # The worker ended without an answer; it has an exit code only once it is joined.
        except EOFError:
            self.processes[0].join()
            reason = f"exit code {self.processes[0].exitcode}"
            answer = ended_early(f"worker {self.number}", reason, self.log)
        for process in self.processes:
            process.join()
        return answer


def _run(work: Work, answer: Connection | None, seat: Seat) -> None:
    """One process of a worker."""
    # A group of its own: an interruption at the terminal reaches the launcher, and from it, once,
    # the worker.
    os.setsid()
    with seat.log.open("a") as log:
        for stream in (1, 2):  # descriptors, as C++ writes past sys.stdout
            os.dup2(log.fileno(), stream)
    guard.set_up_process()
    if seat.cores:
        # Before JAX is imported, whose threads are as many as these cores.
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
    if answer:  # the first process of a worker alone answers
        # A launcher that is gone hears nothing.
        with suppress(BrokenPipeError):
            answer.send(report)


def _stop(processes: list[BaseProcess], grace: float) -> None:
    """Have processes stop: each keeps what it finished, and gives back what it claimed."""
    for process in processes:
        if process.is_alive():
            process.terminate()
    end = time.monotonic() + grace  # one deadline for all together
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
        process.kill()  # nothing to one that has ended


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))  # 0: the system picks a free one
        port: int = listener.getsockname()[1]
        return port

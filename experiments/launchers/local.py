"""Starts workers as processes of this machine."""

import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from batch_calibration.cli import guard
from batch_calibration.errors import InputError
from batch_calibration.study.scoring import ScoringReport
from batch_calibration.study.workers import Work
from experiments.allocator import one_arena
from experiments.compilation_cache import keep_programs


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
        """What each worker reports, or how it ended."""
        work.logs.mkdir(parents=True, exist_ok=True)
        started = list[Worker]()
        try:
            for number in range(self.workers):
                started.append(self._start(work, number))
            notify(f"{self.workers} workers; what they say is in {work.logs}")
            return [one.end() for one in started]
        finally:
            _stop([process for one in started for process in one.processes], self.grace)

    def _start(self, work: Work, number: int) -> "Worker":
        ours, theirs = _SPAWN.Pipe(duplex=False)
        log = work.logs / f"worker-{number}.log"
        hosts = f"localhost:{_free_port()}" if self.processes > 1 else ""
        processes = list[BaseProcess]()
        for rank in range(self.processes):
            place = Place(
                log if rank == 0 else work.logs / f"worker-{number}-{rank}.log",
                self._cores(number * self.processes + rank),
                self._gpus(number * self.processes + rank),
                hosts, self.processes, rank,
            )  # fmt: skip
            # The pipe ends when the first process does: no other holds it open.
            answer = None if rank else theirs
            process = _SPAWN.Process(target=_run, args=(work, answer, place))
            process.start()
            processes.append(process)
        theirs.close()
        return Worker(number, processes, ours, log)

    def _cores(self, number: int) -> list[int]:
        """The cores of a process: where all take all, they wait for each other."""
        if self.gpus or not hasattr(os, "sched_getaffinity"):
            return []
        return sorted(os.sched_getaffinity(0))[number :: self.workers * self.processes]

    def _gpus(self, number: int) -> list[str]:
        """The GPUs of a process, of those that this one sees."""
        every = self.gpus * self.workers * self.processes
        seen = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(every)))).split(",")
        if every > len(seen):
            raise InputError(
                f"--gpus={self.gpus}: the workers need {every} GPUs, but CUDA_VISIBLE_DEVICES "
                f"names {len(seen)}; give fewer --workers, or more devices."
            )
        return seen[number * self.gpus : (number + 1) * self.gpus]


class Place(NamedTuple):
    """Where a process works: its log, cores and GPUs, and its number among those of its worker."""

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

    def end(self) -> ScoringReport | str:
        """Wait for the worker: its report, or a sentence on how it ended."""
        try:
            ended: ScoringReport | str = self.answer.recv()
        except EOFError:
            self.processes[0].join()
            code = self.processes[0].exitcode
            ended = (
                f"worker {self.number} ended early (exit code {code}); {self.log} says more. What "
                "was finished is kept: give the same command again for the rest."
            )
        for process in self.processes:
            process.join()
        return ended


_SPAWN = get_context("spawn")


def _run(work: Work, answer: Connection | None, place: Place) -> None:
    """One process of a worker."""
    # A group of its own: an interruption at the terminal reaches the launcher, and from it, once,
    # the worker.
    os.setsid()
    with place.log.open("a") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    guard.catch_stops()
    if place.cores:
        os.sched_setaffinity(0, place.cores)
    if place.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(place.gpus)
    guard.guard(lambda: _answer(work, answer, place), place=str(work.workdir))


def _answer(work: Work, answer: Connection | None, place: Place) -> None:
    one_arena()
    import jax

    keep_programs()
    if place.coordinator:
        jax.distributed.initialize(place.coordinator, place.processes, place.rank)
    try:
        ended: ScoringReport | str = work(print)
    except InputError as error:
        ended = str(error)
        print(ended, file=sys.stderr)
    if answer:
        # A launcher that is gone hears nothing.
        with suppress(BrokenPipeError):
            answer.send(ended)


def _stop(processes: list[BaseProcess], grace: float) -> None:
    """Have processes stop: each keeps what it finished, and gives back what it claimed."""
    for process in processes:
        if process.is_alive():
            process.terminate()
    end = time.monotonic() + grace
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
        process.kill()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port: int = free.getsockname()[1]
        return port

"""Runs a measured program as its own process: a job a line on stdin, an answer on stdout."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # both sides share one accelerator
}


class Worker:
    """`python -m MODULE` on the first `threads` cores, its caches in `folder` alone.

    The first `ask` waits until it has loaded.
    """

    def __init__(self, module: str, folder: Path, threads: int, *arguments: str | Path):
        folder.mkdir(exist_ok=True)
        self.module, self.log = module, folder / f"{module}.log"
        # Each worker starts without compiled programs.
        environment = dict(os.environ)
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment
                | SETTINGS
                | {"XDG_CACHE_HOME": str(folder), "OMP_NUM_THREADS": str(threads)},
            )

    def ask(self, **job: Any) -> dict[str, Any]:
        """The answer to one job; the run ends with a sentence where the worker did."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(json.dumps(job), file=self.process.stdin, flush=True)
            return dict(json.loads(self.process.stdout.readline()))
        except (BrokenPipeError, json.JSONDecodeError):
            # An empty log: nothing was raised.
            lines = self.log.read_text().strip().splitlines() or ["it was ended from outside"]
            sys.exit(f"error: {self.module} broke off at {job!s:.200}: {lines[-1]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def pin() -> int:
    """Keep this process and its threads to as many cores as it was given; says how many."""
    threads = int(os.environ["OMP_NUM_THREADS"])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    return threads


def serve(answer: Callable[..., dict[str, Any]]) -> None:
    """Answer the jobs of `Worker.ask`; what libraries print goes to the log."""
    answers = os.fdopen(os.dup(1), "w")  # answers alone go to the old stdout
    os.dup2(2, 1)  # what libraries print goes to stderr, the log
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), file=answers, flush=True)


def peak_memory() -> int:
    """Most bytes this process has held in memory; the high-water mark is this program's own."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def take(case: dict[str, Any], start: int, stop: int) -> list[str]:
    """Texts of rows `start` to `stop` of a case."""
    assert stop <= len(case["texts"]), f"{stop} rows of {len(case['texts'])}"
    return list(case["texts"][start:stop])

"""Runs a measured program as a separate process with JSON jobs on stdin and answers on stdout."""

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
    """A process `python -m MODULE` on the first `threads` cores, with its caches in `folder`.

    The first `ask` waits until the process has loaded.
    """

    def __init__(self, module: str, folder: Path, threads: int, *arguments: str | Path):
        folder.mkdir(exist_ok=True)
        self.module, self.log = module, folder / f"{module}.log"
        # Each worker starts with an empty compilation cache.
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
        """Returns the answer to one job; exits with a message if the worker has ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(json.dumps(job), file=self.process.stdin, flush=True)
            return dict(json.loads(self.process.stdout.readline()))
        except (BrokenPipeError, json.JSONDecodeError):
            # If the log is empty, the worker did not raise an error.
            lines = self.log.read_text().strip().splitlines() or ["it was killed"]
            sys.exit(f"error: {self.module} ended during the job {job!s:.200}: {lines[-1]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def pin() -> int:
    """Pins this process to the cores in OMP_NUM_THREADS; returns their number."""
    threads = int(os.environ["OMP_NUM_THREADS"])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    return threads


def serve(answer: Callable[..., dict[str, Any]]) -> None:
    """Answers the jobs of `Worker.ask`; all other output goes to the log."""
    answers = os.fdopen(os.dup(1), "w")  # the original stdout is only for answers
    os.dup2(2, 1)  # libraries print to stderr, which is the log
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), file=answers, flush=True)


def peak_memory() -> int:
    """Returns the peak memory of this process in bytes, without that of its parent."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def take(case: dict[str, Any], start: int, stop: int) -> list[str]:
    """Returns the texts of rows `start` to `stop` of a case."""
    assert stop <= len(case["texts"]), f"{stop} rows of {len(case['texts'])}"
    return list(case["texts"][start:stop])

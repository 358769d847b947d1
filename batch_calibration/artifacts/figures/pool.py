"""Draws figures in processes of their own while the caller computes what others show."""

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from subprocess import PIPE, Popen
from traceback import format_exc

from batch_calibration.artifacts.figures.chart import Chart

MAX_PROCESSES = 4
# Chart, path without the ending -> the paths of its PNG and PDF.
Draw = Callable[[Chart, Path], list[Path]]


def draw_now(chart: Chart, path: Path) -> list[Path]:
    """Draws in this process."""
    from batch_calibration.artifacts.figures import render, style

    return style.save(render.draw(chart), path)


@contextmanager
def drawing_processes() -> Iterator[Draw]:
    """As many processes as there are processors, four at most; they load no JAX.

    All files are there at the end of the block, which raises what drawing a figure raised, with a
    note that names the figure.
    """
    count = min(MAX_PROCESSES, os.cpu_count() or 1)
    # Not multiprocessing, whose processes run the main module of the caller once more.
    command = [sys.executable, "-P", "-m", __name__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes: list[Popen[bytes]] = []
    idle = SimpleQueue[Popen[bytes]]()
    threads, drawings = ThreadPoolExecutor(count), list[Future[None]]()

    def draw(chart: Chart, path: Path) -> list[Path]:
        drawings.append(threads.submit(_draw_elsewhere, idle, chart, path))
        return [path.with_name(f"{path.name}.{ending}") for ending in ("png", "pdf")]

    try:
        for _ in range(count):
            # In a session of its own: Control-C is answered by the caller alone.
            processes.append(
                Popen(command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True)
            )
            idle.put(processes[-1])
        yield draw
        for drawing in drawings:
            drawing.result()
    finally:
        # Where the block ended early, some still draw.
        for process in processes:
            process.kill()
        threads.shutdown(cancel_futures=True)
        for process in processes:
            process.communicate()  # closes its pipes


def _draw_elsewhere(idle: "SimpleQueue[Popen[bytes]]", chart: Chart, path: Path) -> None:
    process = idle.get()
    assert process.stdin is not None and process.stdout is not None  # pipes
    try:
        pickle.dump((chart, path), process.stdin)
        process.stdin.flush()
        error = pickle.load(process.stdout)
    except (BrokenPipeError, EOFError):
        raise RuntimeError(f"The process that drew {path} ended early.") from None
    finally:
        idle.put(process)
    if error is not None:
        raise error


def _serve() -> None:
    """Draw each chart that comes, until the caller is gone; an error or None is the answer."""
    with suppress(ImportError):  # which is the answer to each chart
        from batch_calibration.artifacts.figures import render  # noqa: F401 (before charts come)
    with suppress(EOFError, BrokenPipeError):
        while True:
            chart, path = pickle.load(sys.stdin.buffer)
            answer = None
            try:
                draw_now(chart, path)
            except Exception as error:
                error.add_note(f"Raised while {path} was drawn:\n{format_exc()}")
                answer = error
            pickle.dump(answer, sys.stdout.buffer)
            sys.stdout.flush()


if __name__ == "__main__":
    _serve()

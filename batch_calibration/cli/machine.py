"""Prepares a process that computes: its memory, its compiled programs, the others it joins."""

import ctypes
import os
import sys
from pathlib import Path

from batch_calibration.cli.compilation_cache import keep_programs
from batch_calibration.errors import InputError

FLAGS = {
    "coordinator": (
        str, "work as one of several processes: HOST:PORT of process 0, the same for all, or auto "
        "under SLURM and on TPU pods, which find each other"
    ),
    "processes": (int, "how many processes there are"),
    "process": (int, "number of this one, from 0"),
}  # fmt: skip
"""Flags of a program that may be one of several processes: their kind, and what they mean."""
M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
"""glibc's numbers of the options, from its malloc.h."""


def use_one_arena() -> None:
    """Have all threads share one arena from now on; to be called before JAX starts its threads.

    glibc gives each thread an arena of its own, and each keeps what was freed in it: memory grows
    with the rows, though none of it is in use. Large arrays lie in the arena, too: else each batch
    would give them back to the system and fetch them again, page by page. The environment's
    `MALLOC_ARENA_MAX` goes first, and with another C library nothing is done.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        # The symbols of this process, glibc's among them.
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(M_ARENA_MAX, 1)
            mallopt(M_MMAP_MAX, 0)
            mallopt(M_TRIM_THRESHOLD, -1)  # never


def set_up(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Keep compiled programs, and join the other processes, if there are any.

    Args:
        coordinator: HOST:PORT of process 0, "auto" where processes find each other; None for one
            process alone.
        processes: how many there are.
        process: number of this one, from 0.

    Raises:
        InputError: flags that do not go together; processes that do not find each other.
    """
    use_one_arena()  # before JAX is imported, which starts threads
    import jax

    keep_programs()
    if coordinator is None:
        # Without an address they would be ignored, and each process would do all the work.
        if processes is not None or process is not None:
            raise InputError("--processes and --process need --coordinator=HOST:PORT or auto.")
        return
    if coordinator != "auto" and (processes is None or process is None):
        raise InputError.at(
            "--coordinator=HOST:PORT",
            "--processes and --process with it",
            remedy="give both, or --coordinator=auto under SLURM or on a TPU pod",
        )
    # With "auto" the cluster's environment tells JAX all three.
    address = () if coordinator == "auto" else (coordinator, processes, process)
    try:
        jax.distributed.initialize(*address)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"--coordinator={coordinator}: the processes did not find each other "
            f"({str(error).splitlines()[0]}); start all of them, with one address."
        ) from error
    if jax.process_index():
        # The first process speaks for all.
        # Open until the process ends.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115

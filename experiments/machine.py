"""Joins the processes that score together, as the flags say."""

import os
import sys
from pathlib import Path

from absl import flags

from batch_calibration.errors import InputError
from experiments.allocator import one_arena
from experiments.compilation_cache import keep_programs

# They are flags of the program that imports this module.
flags.disclaim_key_flags()


def define_flags() -> None:
    """The flags of a program that may be one of several processes."""
    flags.DEFINE_string(
        "coordinator",
        None,
        "work as one of several processes: HOST:PORT of process 0, the same for all, or auto under "
        "SLURM and on TPU pods, which find each other",
    )
    flags.DEFINE_integer("processes", None, "how many processes there are", lower_bound=1)
    flags.DEFINE_integer("process", None, "number of this one, from 0", lower_bound=0)


def set_up() -> None:
    """Keep compiled programs, and join the other processes, if there are any."""
    one_arena()
    import jax

    keep_programs()
    coordinator, processes, process = (
        flags.FLAGS[name].value for name in ("coordinator", "processes", "process")
    )
    if coordinator is None:
        if processes is not None or process is not None:
            raise InputError("--processes and --process need --coordinator=HOST:PORT or auto.")
        return
    given = processes is not None and process is not None
    if coordinator != "auto" and not given:
        raise InputError(
            where="--coordinator=HOST:PORT",
            expected="--processes and --process with it",
            remedy="give both, or --coordinator=auto under SLURM or on a TPU pod",
        )
    try:
        if coordinator == "auto":
            jax.distributed.initialize()
        else:
            jax.distributed.initialize(coordinator, processes, process)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"--coordinator={coordinator}: the processes did not find each other "
            f"({str(error).splitlines()[0]}); start all of them, with one address."
        ) from error
    if jax.process_index():
        # The first process speaks for all.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115

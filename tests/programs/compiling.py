"""Compiles small programs, whose cache `keep_programs` keeps, in processes that tests stop.

python compiling.py FIRST LAST          prints how many of these programs were compiled
python compiling.py FIRST LAST killed   is killed while it writes the last of them to the cache
python compiling.py FIRST LAST full     has room for half a program only
python compiling.py FIRST LAST linkless has a file system without links
"""

import os
import resource
import signal
import sys

import jax
import numpy as np

from batch_calibration.cli import machine


def main(first: int, last: int, how: str = "") -> None:
    """Prints how many of the programs were compiled."""
    missed = list[str]()
    if how == "linkless":
        os.link = refuse
    machine.keep_programs()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.monitoring.register_event_listener(
        lambda event, **_: missed.append(event) if event.endswith("cache_misses") else None
    )
    if how == "full":
        leave_room()
    for number in range(first, last):
        if how == "killed" and number == last - 1:
            # The kernel does it at once, where Python would go on with an error.
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            leave_room()
        program = jax.jit(lambda argument, number=number: argument * 2 + number)
        assert float(program(np.float32(1))) == 2 + number
    print(len(missed))


def refuse(path: str, target: str) -> None:
    raise PermissionError(path, target)


def leave_room() -> None:
    """For 100 bytes in each file, and for none of what a process leaves that is killed."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])

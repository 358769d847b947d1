"""Has glibc serve all threads from one arena, so that memory does not grow with the rows."""

import ctypes
import os
import sys

M_ARENA_MAX = -8
"""glibc's number of the option, from its malloc.h."""


def one_arena() -> None:
    """From now on threads share one arena; to be called before JAX starts its threads.

    glibc gives each thread an arena of its own, and each keeps what was freed in it: memory grows
    with the rows, though none of it is in use. The environment's `MALLOC_ARENA_MAX` goes first, and
    with another C library nothing is done.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(M_ARENA_MAX, 1)

"""Names of processes, by which others on their machine know whether they have ended."""

import os
import socket
import uuid
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path


def process_name() -> str:
    """The name of this process: its machine, its number there, and when it began.

    >>> ended(process_name()), process_name().count("-")
    (False, 2)
    """
    return f"{_machine()}-{os.getpid()}-{_began(os.getpid())}"


def ended(name: str) -> bool:
    """Whether the process of that name, which more may follow after a `-`, is known to have ended.

    False of processes on other machines, of which nothing is known here.
    """
    machine, number, began, *_ = [*name.split("-"), "", "", ""]  # what is no such name, too
    if machine != _machine() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)  # sends nothing
    except ProcessLookupError:
        return True
    except OSError:  # it runs, as another user
        return False
    return _began(int(number)) != began  # the number is another process's by now


@cache
def _machine() -> str:
    """A name for the running system, another one after it was started anew or in a container."""
    system = f"{socket.gethostname()} {uuid.getnode()}"
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        # Another text after a restart, and in each container.
        system = f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return sha256(system.encode()).hexdigest()[:12]


def _began(number: int) -> str:
    """When a process began, in the kernel's ticks; empty where it ended or nothing tells."""
    with suppress(OSError):
        # The name of the program, in parentheses, may hold spaces.
        fields = Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()
        has_ended = fields[0] in (b"Z", b"X")  # a zombie, or dead
        return "" if has_ended else fields[19].decode()  # starttime, 22nd field of proc(5)
    return ""

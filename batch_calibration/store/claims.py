"""Claims on contexts: of the workers of one workdir, one alone scores a context at a time.

The claim on a context is a folder with one file, named after the worker and rewritten at each
heartbeat. It takes three operations that are atomic on any shared file system, and no lock:

* take: a folder that holds the file is renamed to the claim's name, which fails where one is;
* take over: the file of a worker that has died is renamed, which one worker alone can do;
* give back: the file is removed, and the empty folder.

A worker is dead where its process has ended on this machine, or where its file has not changed
while another waited for the length of a lease by its own clock: clocks are never compared.
"""

import errno
import json
import os
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from batch_calibration.files import PARTIAL, WrongJson, ended, parse_json, process_name, read_as

LEASE = 60.0
"""Seconds without a heartbeat after which a worker on another machine counts as dead."""
BEATS = 6
"""Heartbeats in a lease."""


@dataclass(frozen=True)
class Heartbeat:
    """What a worker says of the context that it scores.

    Attributes:
        context: the context in words.
        worker: its machine and process, for people.
        since: when it began, by its own clock.
        rows: how many of the context's rows have scores.
        of: how many there are.
        seconds: how long it works on them.
        beat: number of the heartbeat.
    """

    context: str
    worker: str
    since: str
    rows: int = 0
    of: int = 0
    seconds: float = 0.0
    beat: int = 0


class ClaimLost(Exception):
    """Another worker took this one for dead, and scores the context now."""


class _Held(NamedTuple):
    """The file of a claim and what is in it."""

    path: Path
    data: bytes


class Claim:
    """A context that this worker holds; a thread sends heartbeats inside `with claim:`.

    Attributes:
        rows: how many rows have scores so far, which the heartbeats say.
    """

    def __init__(self, path: Path, context: str, of: int, every: float):
        self.rows = 0
        self._path, self._every, self._began = path, every, time.monotonic()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        worker = f"{socket.gethostname()}, process {os.getpid()}"
        self._about = Heartbeat(context, worker, since, of=of)
        self._beats = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_on, daemon=True)

    def check(self) -> None:
        """Go on where the claim still stands.

        Raises:
            ClaimLost: another worker took it over.
        """
        if not self._path.exists():
            raise ClaimLost

    def __enter__(self) -> Self:
        self._beat()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stop.set()
        self._thread.join()
        with suppress(OSError):
            self._path.unlink()
            self._path.parent.rmdir()

    def _keep_on(self) -> None:
        while not self._stop.wait(self._every):
            self._beat()

    def _beat(self) -> None:
        self._beats += 1
        about = asdict(self._about) | {
            "rows": self.rows, "seconds": time.monotonic() - self._began, "beat": self._beats,
        }  # fmt: skip
        # Never made anew: a file that is gone was taken over. One that cannot be written now, on a
        # full disk for instance, may be at the next beat.
        with suppress(OSError), self._path.open("r+b", buffering=0) as file:
            file.truncate(file.write(json.dumps(about).encode()))


class Claims:
    """The claims of a workdir, as one worker sees them.

    Args:
        folder: where they lie.
        lease: seconds without a heartbeat after which a worker counts as dead.
        clock: seconds that pass for this worker.

    Attributes:
        pause: seconds to wait before a claim is tried again.
    """

    def __init__(
        self, folder: Path, lease: float = LEASE, clock: Callable[[], float] = time.monotonic
    ):
        self._folder, self._lease, self._clock = folder, lease, clock
        self.pause = min(1.0, lease / BEATS)
        self._seen: dict[str, tuple[_Held, float]] = {}

    def take(self, name: str, context: str = "", of: int = 0) -> Claim | None:
        """The claim on a context, to be held by `with`; None while another worker holds it.

        Args:
            name: the context's id.
            context: the context in words, for people.
            of: how many rows it has.
        """
        place = self._folder / name
        mine = place / f"{process_name()}-{secrets.token_hex(4)}.json"
        while True:
            held = _holder(place)
            if held is None and self._put(place, mine.name):
                break
            if held is not None:
                if not self._dead(name, held):
                    return None
                with suppress(FileNotFoundError):
                    held.path.rename(mine)
                    break
        self._seen.pop(name, None)
        return Claim(mine, context, of, self._lease / BEATS)

    def held(self) -> dict[str, Heartbeat]:
        """The last heartbeat on each context that is claimed, by the context's id."""
        found = {}
        for place in sorted(self._folder.glob("[!.]*")):
            with suppress(ValueError, WrongJson):
                if (held := _holder(place)) and not ended(held.path.stem):
                    text = held.data.decode()
                    found[place.name] = read_as(Heartbeat, parse_json(text), "heartbeat")
        return found

    def _put(self, place: Path, file: str) -> bool:
        """Whether a claim could be laid where there is none, whole or not at all."""
        made = self._folder / f".{place.name}.{Path(file).stem}{PARTIAL}"
        made.mkdir(parents=True)
        try:
            (made / file).touch()
            made.rename(place)
        except OSError as error:
            shutil.rmtree(made)
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            return False
        return True

    def _dead(self, name: str, held: _Held) -> bool:
        if ended(held.path.stem):
            return True
        before, when = self._seen.get(name, (None, 0.0))
        if before != held:
            self._seen[name] = (held, self._clock())
            return False
        return self._clock() - when > self._lease


def _holder(place: Path) -> _Held | None:
    """Who holds a claim; None where it is free."""
    with suppress(FileNotFoundError):
        for path in place.iterdir():
            return _Held(path, path.read_bytes())
    return None

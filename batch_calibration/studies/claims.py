"""Claims on contexts: at most one worker of a workdir scores a context at a time.

The claim on a context is a folder with one file. The file is named after the worker, which rewrites
it at each heartbeat. Claims need no lock, only three operations that are atomic on every shared
file system:

* take: a worker renames a folder that holds its file to the claim's name; this fails if the claim
  exists;
* take over: a worker renames the file of a dead worker; only one worker can succeed;
* give back: a worker removes its file and then the empty folder.

A worker counts as dead if its process on this machine has ended, or if its file has not changed
while another worker waited for the length of a lease. The waiting worker measures the lease with
its own clock, so clocks of different machines are never compared.
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
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

from batch_calibration import files
from batch_calibration.errors import InputError
from batch_calibration.files import process_name

LEASE = 60.0
"""Seconds without a heartbeat after which a worker on another machine counts as dead."""
BEATS = 6
"""The number of heartbeats in a lease."""


@dataclass(frozen=True)
class Heartbeat:
    """A worker's report on the context that it scores.

    Attributes:
        context: readable name of the context.
        worker: readable name of the worker: its machine and process.
        since: time at which the worker began, by its own clock.
        rows: number of the context's rows with scores.
        of: number of all rows of the context.
        seconds: time spent on the context so far.
        beat: index of the heartbeat.
    """

    context: str
    worker: str
    since: str
    rows: int = 0
    of: int = 0
    seconds: float = 0.0
    beat: int = 0


class ClaimLost(Exception):
    """The loss of a claim: another worker considered this one dead and took the context over."""


class _Holder(NamedTuple):
    """The file of a claim and its content."""

    path: Path
    content: bytes


class Claim:
    """A claim that this worker holds; inside `with claim:` a thread writes heartbeats.

    Attributes:
        rows: number of rows with scores so far, for the heartbeats.
    """

    def __init__(self, path: Path, context: str, of: int, period: float):
        self.rows = 0
        self._path, self._period, self._began = path, period, time.monotonic()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        worker = f"{socket.gethostname()}, process {os.getpid()}"
        self._first_beat = Heartbeat(context, worker, since, of=of)
        self._beats = 0  # written at each heartbeat, so that a live worker's file changes
        self._stop = threading.Event()
        # A daemon thread lets a program end that raises an error.
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)

    def check(self) -> None:
        """Checks that this worker still holds the claim.

        Raises:
            ClaimLost: another worker took the claim over.
        """
        try:
            files.retry(self._path.stat)
        except FileNotFoundError as error:
            raise ClaimLost from error

    def __enter__(self) -> Self:
        self._beat()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        # If another worker took the claim over, there is nothing to remove.
        with suppress(OSError):
            files.remove(self._path)
            files.retry(self._path.parent.rmdir)

    def _keep_beating(self) -> None:
        while not self._stop.wait(self._period):
            self._beat()

    def _beat(self) -> None:
        self._beats += 1
        seconds = time.monotonic() - self._began
        beat = replace(self._first_beat, rows=self.rows, seconds=seconds, beat=self._beats)
        # The file is never created anew: if it is gone, another worker took the claim over. If it
        # cannot be written now, for instance on a full disk, the next heartbeat tries again.
        with suppress(OSError), self._path.open("r+b", buffering=0) as file:
            file.truncate(file.write(json.dumps(asdict(beat)).encode()))


class Claims:
    """The claims of a workdir, as one worker sees them.

    Args:
        folder: the folder of the claims.
        lease: seconds without a heartbeat after which a worker counts as dead.
        clock: returns this worker's time in seconds.

    Attributes:
        pause: seconds to wait before the next try to take a claim.
    """

    def __init__(
        self, folder: Path, lease: float = LEASE, clock: Callable[[], float] = time.monotonic
    ):
        self._folder, self._lease, self._clock = folder, lease, clock
        self.pause = min(1.0, lease / BEATS)
        # Context id -> the holder last seen and the time of its last change, by this worker's clock
        self._last_change: dict[str, tuple[_Holder, float]] = {}

    def take(self, context_id: str, context: str = "", of: int = 0) -> Claim | None:
        """Takes the claim on a context, for use in `with`; returns None while another holds it.

        Raises:
            InputError: the claim's path holds something other than a readable claim.
        """
        folder = self._folder / context_id
        own_file = folder / f"{process_name()}-{secrets.token_hex(4)}.json"
        while True:
            holder = _read_holder(folder)
            if holder is None and self._put(folder, own_file.name):
                break
            # If there was no holder but `_put` failed, another worker was faster: look again.
            if holder is not None:
                if not self._is_dead(context_id, holder):
                    return None
                # Of several workers that take over, only one finds the file; the others look again.
                with suppress(FileNotFoundError):
                    files.rename(holder.path, own_file)
                    break
        self._last_change.pop(context_id, None)
        return Claim(own_file, context, of, self._lease / BEATS)

    def heartbeats(self) -> dict[str, Heartbeat]:
        """Maps the id of each claimed context to the last heartbeat, except for ended processes."""
        beats = {}
        for folder in sorted(self._folder.glob("[!.]*")):  # skips claims that are being created
            # Another worker may be writing the heartbeat right now.
            with suppress(ValueError):
                if (holder := _read_holder(folder)) and not files.ended(holder.path.stem):
                    fields = files.parse_json(holder.content.decode())
                    beats[folder.name] = files.read_as(Heartbeat, fields, "heartbeat")
        return beats

    def broken(self) -> list[InputError]:
        """Returns an error for each unreadable claim; no worker can score these contexts."""
        errors = []
        for path in sorted(self._folder.glob("[!.]*")):
            try:
                _read_holder(path)
            except InputError as error:
                errors.append(error)
        return errors

    def remove_ended(self) -> None:
        """Removes all claims of processes that have ended on this machine."""
        for folder in self._folder.glob("[!.]*"):
            # If another worker is taking the claim over, this does nothing.
            with suppress(InputError, OSError):
                holder = _read_holder(folder)
                if holder and files.ended(holder.path.stem):
                    holder.path.unlink()
                    folder.rmdir()

    def _put(self, folder: Path, name: str) -> bool:
        """Tries to create a claim atomically; returns False if one exists."""
        partial = self._folder / f".{folder.name}.{Path(name).stem}{files.PARTIAL}"
        files.retry(lambda: partial.mkdir(parents=True, exist_ok=True))
        try:
            files.retry((partial / name).touch)
            # The folder already holds the file, so that no worker sees an empty, free claim.
            files.rename(partial, folder)
        except OSError as error:
            shutil.rmtree(partial)
            if error.errno == errno.ENOTDIR:
                raise _broken(folder, "something other than a folder") from error
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            return False
        return True

    def _is_dead(self, context_id: str, holder: _Holder) -> bool:
        # The kernel knows the processes of this machine; for other machines, only time decides.
        if files.ended(holder.path.stem):
            return True
        last_holder, changed_at = self._last_change.get(context_id, (None, 0.0))
        if last_holder != holder:
            self._last_change[context_id] = (holder, self._clock())
            return False
        return self._clock() - changed_at > self._lease


def _read_holder(folder: Path) -> _Holder | None:
    """Returns the holder of a claim, or None for a free claim."""
    path = folder
    try:
        for path in files.retry(lambda: list(folder.iterdir())):
            return _Holder(path, files.retry(path.read_bytes))
    except FileNotFoundError as error:
        # The holder gave the claim back in between, unless the path is a broken link.
        if path.is_symlink():
            raise _broken(path, "a broken link") from error
    except OSError as error:
        raise _broken(path, f"an unreadable file ({error.strerror})") from error
    return None


def _broken(path: Path, content: str) -> InputError:
    expected = "a worker's claim (a folder with one file)"
    remedy = "remove it while no worker runs, and start again: finished rows are kept"
    return InputError.at(path, expected, content, remedy)

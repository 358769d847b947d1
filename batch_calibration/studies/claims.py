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
"""Heartbeats in a lease."""


@dataclass(frozen=True)
class Heartbeat:
    """The report of a worker on the context that it scores.

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


class _Holder(NamedTuple):
    """The file of a claim, and what is in it."""

    path: Path
    content: bytes


class Claim:
    """A context that this worker holds; a thread sends heartbeats inside `with claim:`.

    Attributes:
        rows: how many rows have scores so far, which the heartbeats say.
    """

    def __init__(self, path: Path, context: str, of: int, period: float):
        self.rows = 0
        self._path, self._period, self._began = path, period, time.monotonic()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        worker = f"{socket.gethostname()}, process {os.getpid()}"
        self._first_beat = Heartbeat(context, worker, since, of=of)
        self._beats = 0  # in every file: one whose content changes is alive
        self._stop = threading.Event()
        # A daemon: a program that ends in an error must not wait for it.
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)

    def check(self) -> None:
        """Check that the claim is still held.

        Raises:
            ClaimLost: another worker took it over.
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
        # It may have been taken over meanwhile: then there is nothing to give back.
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
        # Never made anew: a file that is gone was taken over. One that cannot be written now, on a
        # full disk for instance, may be at the next beat.
        with suppress(OSError), self._path.open("r+b", buffering=0) as file:
            file.truncate(file.write(json.dumps(asdict(beat)).encode()))


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
        # When each claim was last seen to change, by this worker's own clock.
        self._last_change: dict[str, tuple[_Holder, float]] = {}

    def take(self, context_id: str, context: str = "", of: int = 0) -> Claim | None:
        """The claim on a context, to be held by `with`; None while another worker holds it.

        Raises:
            InputError: what lies in the place of a claim is none, and cannot be read.
        """
        folder = self._folder / context_id
        own_file = folder / f"{process_name()}-{secrets.token_hex(4)}.json"
        while True:
            holder = _read_holder(folder)
            if holder is None and self._put(folder, own_file.name):
                break
            # With no holder another was quicker by a moment: look again.
            if holder is not None:
                if not self._is_dead(context_id, holder):
                    return None
                # Of several that take over one alone finds the file; the others look again.
                with suppress(FileNotFoundError):
                    files.rename(holder.path, own_file)
                    break
        self._last_change.pop(context_id, None)
        return Claim(own_file, context, of, self._lease / BEATS)

    def heartbeats(self) -> dict[str, Heartbeat]:
        """The last heartbeat on each context that is claimed, by the context's id."""
        beats = {}
        for folder in sorted(self._folder.glob("[!.]*")):  # not claims that are being laid
            # A heartbeat may be half written at the moment.
            with suppress(ValueError):
                if (holder := _read_holder(folder)) and not files.ended(holder.path.stem):
                    fields = files.parse_json(holder.content.decode())
                    beats[folder.name] = files.read_as(Heartbeat, fields, "heartbeat")
        return beats

    def broken(self) -> list[InputError]:
        """Why what lies in the place of a claim cannot be read: nobody can take those contexts."""
        errors = []
        for path in sorted(self._folder.glob("[!.]*")):
            try:
                _read_holder(path)
            except InputError as error:
                errors.append(error)
        return errors

    def remove_ended(self) -> None:
        """Remove the claims of workers whose process has ended here, on any context."""
        for folder in self._folder.glob("[!.]*"):
            # Another worker may take it over at the moment: then this does nothing.
            with suppress(InputError, OSError):
                holder = _read_holder(folder)
                if holder and files.ended(holder.path.stem):
                    holder.path.unlink()
                    folder.rmdir()

    def _put(self, folder: Path, name: str) -> bool:
        """Try to lay a claim, whole or not at all; True where none was there."""
        partial = self._folder / f".{folder.name}.{Path(name).stem}{files.PARTIAL}"
        files.retry(lambda: partial.mkdir(parents=True, exist_ok=True))
        try:
            files.retry((partial / name).touch)
            # With the file in it, so that no claim is ever seen empty and taken for free.
            files.rename(partial, folder)
        except OSError as error:
            shutil.rmtree(partial)
            if error.errno == errno.ENOTDIR:
                raise _broken(folder, "something else than a folder") from error
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            return False
        return True

    def _is_dead(self, context_id: str, holder: _Holder) -> bool:
        # On this machine the kernel knows; elsewhere time alone tells.
        if files.ended(holder.path.stem):
            return True
        last_holder, changed_at = self._last_change.get(context_id, (None, 0.0))
        if last_holder != holder:
            self._last_change[context_id] = (holder, self._clock())
            return False
        return self._clock() - changed_at > self._lease


def _read_holder(folder: Path) -> _Holder | None:
    """Who holds a claim; None where it is free."""
    path = folder
    try:
        for path in files.retry(lambda: list(folder.iterdir())):
            return _Holder(path, files.retry(path.read_bytes))
    except FileNotFoundError as error:
        # What was there a moment ago was given back; a link that leads nowhere stays.
        if path.is_symlink():
            raise _broken(path, "a link that leads nowhere") from error
    except OSError as error:
        raise _broken(path, f"what cannot be read ({error.strerror})") from error
    return None


def _broken(path: Path, content: str) -> InputError:
    expected = "a worker's claim (a folder with one file)"
    remedy = "remove it while no worker runs, and start again: finished rows are kept"
    return InputError.at(path, expected, content, remedy)

"""Runs a program: what a user can correct becomes one sentence with exit code 2, a stop another."""

import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from batch_calibration.errors import InputError


def stop(number: int = signal.SIGINT, *_: object) -> NoReturn:
    """Answer an interruption with a sentence and the exit code that shells give it: 130 or 143."""
    sys.stdout.flush()
    sentence = "stopped; what was finished is kept: give the same command again for the rest."
    print(f"error: {sentence}", file=sys.stderr, flush=True)
    os._exit(128 + number)


def _interrupt(number: int, _: object) -> NoReturn:
    """Raise where the program stands, so that what it holds open is closed."""
    raise KeyboardInterrupt(number)


class _WhileRead(io.FileIO):
    """Output whose reader may go, as `head` does: what is written then goes nowhere."""

    failed = False

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not self.failed and not isinstance(error, BrokenPipeError):
                self.failed = True
                error.filename = "the program's output"
                raise
            return len(data)


def output() -> io.TextIOWrapper:
    """Standard output that stops no program: closed, without a reader, or lacking letters."""
    if sys.stdout is None:
        return open(os.devnull, "w", encoding="utf-8")
    raw = _WhileRead(sys.stdout.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        sys.stdout.encoding,
        "backslashreplace",
        line_buffering=sys.stdout.isatty(),
    )


def fail(sentence: str) -> NoReturn:
    """Print the sentence as an error and exit with 2."""
    print(f"error: {sentence}", file=sys.stderr)
    sys.stdout.flush()
    sys.exit(2)


def catch_stops() -> None:
    """Answer interruptions from the first import on, and let no output stop the program."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    sys.stdout = output()


def guard(main: Callable[[], None], loads: Sequence[str] = (), place: str = "a file") -> None:
    """Run `main`, and turn what a user can correct into one sentence.

    Args:
        main: the program.
        loads: modules that are imported before it, such as jax, whose half-imported C++ may abort
            or go on where an interruption raises an exception: one that comes then ends at once.
        place: what cannot be written where the system does not say which file.
    """

    def program() -> None:
        for name in loads:
            importlib.import_module(name)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)
        sys.unraisablehook = _unraisable
        main()

    answer(program, place)


def answer(main: Callable[[], None], place: str = "a file") -> None:
    """Run `main`; an error of a user is a sentence and exit code 2, a stop 130 or 143."""
    try:
        main()
        sys.stdout.flush()
    except InputError as error:
        fail(str(error))
    except KeyboardInterrupt as error:
        stop(*error.args)
    except OSError as error:
        if error.errno is None:
            raise
        if error.filename is not None:
            fail(f"{error.filename}: {error.strerror}; give a path that can be read and written.")
        # A full disk: the write fails long after the file was opened, and names none.
        fail(f"{place}: cannot be written ({error.strerror}); make room or use another folder.")


def _unraisable(what: Any) -> None:
    """An interruption that falls into one of JAX's garbage collection hooks would be lost there."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        stop(*what.exc_value.args)
    sys.__unraisablehook__(what)

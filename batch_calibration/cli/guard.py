"""Runs a program: what a user can correct becomes one sentence with exit code 2, a stop another."""

import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from batch_calibration.errors import InputError, Spelling, escape_controls

STOPS = (signal.SIGINT, signal.SIGTERM)
EXTRA = "flax huggingface_hub matplotlib optax PIL platformdirs pyarrow rich tokenizers"
"""Packages of the extra "experiments", without which some commands cannot run."""


def stop(number: int = signal.SIGINT, *_: object) -> NoReturn:
    """Answer an interruption with a sentence and the exit code that shells give it: 130 or 143."""
    sys.stdout.flush()  # what was printed before comes first
    sentence = "stopped; what was finished is kept: give the same command again for the rest."
    print(f"error: {sentence}", file=sys.stderr, flush=True)
    # Not sys.exit: JAX's threads may wait for something that comes no more.
    os._exit(128 + number)


def _interrupt(number: int, _: object) -> NoReturn:
    """Raise where the program stands, so that what it holds open is closed."""
    raise KeyboardInterrupt(number)


class _LenientOutput(io.FileIO):
    """Output whose reader may go, as `head` does: what is written then goes nowhere."""

    has_failed = False

    def write(self, buffer: Any) -> int:
        try:
            return super().write(buffer)
        except OSError as error:
            # Once: what is flushed at the end would fail again.
            if not self.has_failed and not isinstance(error, BrokenPipeError):
                self.has_failed = True
                error.filename = "the program's output"
                raise
            return len(buffer)


def lenient_output() -> io.TextIOWrapper:
    """Standard output that stops no program: closed, without a reader, or lacking letters."""
    if sys.stdout is None:
        return open(os.devnull, "w", encoding="utf-8")
    # Letters that the output's encoding lacks are escaped; in a terminal each line shows at once.
    raw = io.BufferedWriter(_LenientOutput(sys.stdout.fileno(), "w", closefd=False))
    encoding, is_terminal = sys.stdout.encoding, sys.stdout.isatty()
    return io.TextIOWrapper(raw, encoding, "backslashreplace", line_buffering=is_terminal)


def fail(sentence: str) -> NoReturn:
    """Print the sentence as an error and exit with 2."""
    # Names of files and flags in it may hold any sign.
    print(f"error: {escape_controls(sentence)}", file=sys.stderr)
    sys.stdout.flush()
    sys.exit(2)


def set_up_process() -> None:
    """Answer interruptions from the first import on, and let no output stop the program."""
    # Imports and tracing make many objects that stay: Python would look for garbage among them.
    gc.set_threshold(10_000, 20, 20)
    for number in STOPS:
        signal.signal(number, stop)
    sys.stdout = lenient_output()


def guard(main: Callable[[], None], loads: Sequence[str] = (), destination: str = "a file") -> None:
    """Run `main`, and turn what a user can correct into one sentence.

    Args:
        main: the program.
        loads: modules that are imported before it, such as jax, whose half-imported C++ may abort
            or go on where an interruption raises an exception: one that comes then ends at once.
        destination: what cannot be written where the system does not say which file.
    """

    def run() -> None:
        for name in loads:
            importlib.import_module(name)
        for number in STOPS:
            signal.signal(number, _interrupt)
        sys.unraisablehook = _stop_in_hook
        main()

    answer(run, destination)


def answer(main: Callable[[], None], destination: str = "a file") -> None:
    """Run `main`; an error of a user is a sentence and exit code 2, a stop 130 or 143."""
    try:
        main()
        sys.stdout.flush()  # here, so that a full disk is answered below
    except InputError as error:
        fail(str(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        # A package that every installation has is missing by our own mistake: show the traceback.
        if package not in EXTRA.split():
            raise
        fail(f"{package} is not installed: pip install 'batch-calibration[experiments]'.")
    except KeyboardInterrupt as error:
        stop(*error.args)
    except OSError as error:
        # Raised by a library, not by the system: it has no path to correct.
        if error.errno is None:
            raise
        if error.filename is not None:
            fail(f"{error.filename}: {error.strerror}; give a path that can be read and written.")
        # A full disk: the write fails long after the file was opened, and names none.
        reason = f"cannot be written ({error.strerror})"
        fail(f"{destination}: {reason}; make room or use another folder.")


def _stop_in_hook(unraisable: Any) -> None:
    """An interruption that falls into one of JAX's garbage collection hooks would be lost there."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        stop(*unraisable.exc_value.args)
    sys.__unraisablehook__(unraisable)


SPELLED = {"from_probs": "from-probs", "target_prior": "prior"}


def flag(key: str, setting: object = None) -> str:
    """A key as a flag, of a bool with or without `no`, of several names with commas.

    >>> flag("gold", "label"), flag("labels", ("no", "yes")), flag("from_probs", False)
    ('--gold=label', '--labels=no,yes', '--no-from-probs')
    """
    name = SPELLED.get(key, key)
    if isinstance(setting, bool):
        return f"--{name}" if setting else f"--no-{name}"
    text = ",".join(map(str, setting)) if isinstance(setting, tuple) else setting
    return f"--{name}" if text is None else f"--{name}={text}"


def _whole_command(step: str, source: str, keys: Mapping[str, object]) -> str:
    """A whole command.

    >>> _whole_command("calibrate", "scores", {"method": "bc"})
    'batch-calibration calibrate FILE --method=bc'
    """
    files = source.replace("scores", "FILE").replace("contexts", "FILES")
    return " ".join(["batch-calibration", step, files, *map(flag, keys, keys.values())])


CONSOLE = Spelling(flag, "run batch-calibration {}".format, _whole_command)
"""Of the console program `batch-calibration`."""

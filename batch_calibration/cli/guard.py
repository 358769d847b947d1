"""Runs a program; turns user errors into one message with exit code 2, and handles signals."""

import gc
import importlib
import io
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from batch_calibration.errors import InputError, Spelling, escape_controls
from batch_calibration.settings import keys

STOPS = (signal.SIGINT, signal.SIGTERM)
EXTRA = "flax huggingface_hub matplotlib optax PIL platformdirs pyarrow tokenizers"
"""Packages of the extra "experiments", which some commands need."""


def stop(number: int = signal.SIGINT, *_: object) -> NoReturn:
    """Prints a message about the interruption and exits like a shell, with code 130 or 143."""
    sys.stdout.flush()  # so that earlier output comes first
    sentence = "error: stopped; finished work is kept: run the same command again to do the rest."
    print(sentence, file=sys.stderr, flush=True)
    # Not sys.exit, which would wait for JAX's threads, possibly forever.
    os._exit(128 + number)


def _interrupt(number: int, _: object) -> NoReturn:
    """Raises `KeyboardInterrupt` in the running code, so that open resources are closed."""
    raise KeyboardInterrupt(number)


class _LenientOutput(io.FileIO):
    """Output that discards further data after its reader has closed it, as `head` does."""

    has_failed = False

    def write(self, buffer: Any) -> int:
        try:
            return super().write(buffer)
        except OSError as error:
            # Reported once, because the final flush would fail again.
            if not self.has_failed and not isinstance(error, BrokenPipeError):
                self.has_failed = True
                error.filename = "the program's output"
                raise
            return len(buffer)


def lenient_output() -> io.TextIOWrapper:
    """Returns standard output without errors if it is closed or cannot encode a character."""
    if sys.stdout is None:
        return open(os.devnull, "w", encoding="utf-8")
    # Characters missing from the encoding are escaped; a terminal shows each line immediately.
    raw = io.BufferedWriter(_LenientOutput(sys.stdout.fileno(), "w", closefd=False))
    encoding, is_terminal = sys.stdout.encoding, sys.stdout.isatty()
    return io.TextIOWrapper(raw, encoding, "backslashreplace", line_buffering=is_terminal)


def fail(sentence: str) -> NoReturn:
    """Prints the sentence as an error and exits with code 2."""
    # File names and flags in the sentence may contain control characters.
    print(f"error: {escape_controls(sentence)}", file=sys.stderr)
    sys.stdout.flush()
    sys.exit(2)


def set_up_process() -> None:
    """Installs signal handlers, and a standard output that never fails."""
    # Imports and tracing create many long-lived objects; collecting garbage less often saves time.
    gc.set_threshold(10_000, 20, 20)
    for number in STOPS:
        signal.signal(number, stop)
    sys.stdout = lenient_output()


def guard(main: Callable[[], None], loads: Sequence[str] = (), destination: str = "a file") -> None:
    """Runs `main` and turns user errors into one message.

    Args:
        main: The program.
        loads: Modules to import before `main`, such as jax. An interruption during these imports
            exits at once, because an exception inside half-imported C++ code may abort the process
            or be ignored.
        destination: The output to name in the message if a write fails without a file name.
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
    """Runs `main`; exits with code 2 for user errors, and with 130 or 143 for interruptions."""
    try:
        main()
        sys.stdout.flush()  # so that a full disk is reported below
    except InputError as error:
        fail(str(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        # A missing required package is a packaging error of ours, so the traceback is shown.
        if package not in EXTRA.split():
            raise
        fail(f"{package} is not installed: pip install 'batch-calibration[experiments]'.")
    except KeyboardInterrupt as error:
        stop(*error.args)
    except OSError as error:
        # A library raised it without an error number, so there is no path to correct.
        if error.errno is None:
            raise
        if error.filename is not None:
            fail(f"{error.filename}: {error.strerror}; use a path that can be read and written.")
        # On a full disk, a write fails long after the file was opened, without a file name.
        reason = f"cannot be written ({error.strerror})"
        fail(f"{destination}: {reason}; make room or use another folder.")


def _stop_in_hook(unraisable: Any) -> None:
    """Handles an interruption inside JAX's garbage collection hooks, where Python would drop it."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        stop(*unraisable.exc_value.args)
    sys.__unraisablehook__(unraisable)


def flag(key: str, setting: object = None) -> str:
    """Returns a key as a flag: bools become --KEY or --no-KEY, tuples comma-separated lists.

    >>> flag("gold", "label"), flag("labels", ("no", "yes")), flag("from_probs", False)
    ('--gold=label', '--labels=no,yes', '--no-from-probs')
    """
    if key == "share_error":
        points = 100 * float(str(setting))
        return "--prior=balanced" + f":{points:g}" * bool(points)
    # Keys of the settings keep their underscores, as in config files.
    name = key if key in keys() else key.replace("_", "-")
    name = "prior" if key == "target_prior" else name
    if setting == "counts":
        return f"--{setting}"
    if setting is None or isinstance(setting, bool):
        return f"--no-{name}" if setting is False else f"--{name}"
    return f"--{name}={','.join(map(str, setting)) if isinstance(setting, tuple) else setting}"


def _whole_command(step: str, source: str, keys: Mapping[str, object]) -> str:
    """Returns the complete console command for a step on some scores.

    >>> _whole_command("calibrate", "scores", {"method": "bc"})
    'batch-calibration calibrate FILE --method=bc'
    """
    files = {"scores": "FILE", "contexts": "FILES"}.get(source, source)
    return " ".join(["batch-calibration", step, files, *map(flag, keys, keys.values())])


def _quoted_flag(key: str, setting: object = None) -> str:
    """Returns a key as a flag that a shell reads as one word."""
    text = flag(key, setting)
    return shlex.quote(text) if " " in text else text


CONSOLE = Spelling(_quoted_flag, "run batch-calibration {}".format, _whole_command)
"""The spelling of the console program `batch-calibration`."""

"""Counts the package's types that a report of one log makes.

    python -m benchmarks.log_types          # or: python -m benchmarks.log_types LOG

The report is made twice in this process, and the second one counts, because the first one fills
caches. A type counts if a function of the package returns one of its objects, alone or in a list,
tuple or dict, or if its object is constructed. Calls are calls of the package's functions.
"""

import inspect
import io
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType

import batch_calibration
from batch_calibration import cli
from benchmarks.journeys import PACKAGE, write_log

CONSTRUCTORS = ("__init__", "__new__")
NAMED_TUPLE = "_cls"
"""The first argument of the constructor of a NamedTuple, which is a lambda in no file."""


class Profile:
    """The types that the package's functions make, and the number of their calls.

    Attributes:
        types: classes of the package.
        calls: number of calls of functions in the package's files.
    """

    def __init__(self) -> None:
        self.types: set[type] = set()
        self.calls = 0

    def of(self, action: Callable[[], object]) -> "Profile":
        """Runs an action and notes its calls, in the threads that it starts, too."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            action()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
        return self

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        # Bodies of modules and classes do not have this flag.
        is_ours = code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(PACKAGE)
        if event == "call":
            self.calls += bool(is_ours)
            first = code.co_varnames[0] if code.co_argcount else ""
            if first and (code.co_name in CONSTRUCTORS or first == NAMED_TUPLE):
                made = frame.f_locals[first]
                self._add([made if isinstance(made, type) else type(made)])
        elif event == "return" and is_ours:
            self._add([type(argument)])
            if isinstance(argument, dict):
                argument = list(argument.values())
            if isinstance(argument, list | tuple):
                self._add(map(type, argument))

    def _add(self, types: Iterable[type]) -> None:
        # Modules of the standard library have a name, but classes made by `type` may have none.
        name = batch_calibration.__name__
        for made in types:
            if str(made.__module__).partition(".")[0] == name:
                self.types.add(made)


def count(log: Path, page: Path) -> Profile:
    """Makes the report of a log twice, and returns the profile of the second one."""
    arguments = ["report", str(log), f"--output={page}", "--quiet"]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        cli.run(arguments)
        return Profile().of(lambda: cli.run(arguments))


def main() -> None:
    """Prints the types in alphabetical order, and the numbers of types and calls."""
    with tempfile.TemporaryDirectory() as folder:
        log, page = Path(folder, "samples_task.jsonl"), Path(folder, "page.html")
        if len(sys.argv) > 1:
            log = Path(sys.argv[1])
        else:
            write_log(log)
        profile = count(log, page)
    for name in sorted(f"{made.__module__}.{made.__qualname__}" for made in profile.types):
        print(name.removeprefix(f"{batch_calibration.__name__}."))
    print(f"{len(profile.types)} types, {profile.calls:,} calls")


if __name__ == "__main__":
    main()

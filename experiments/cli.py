"""The one door of the programs: flag, config and input errors become sentences with exit code 2."""

import difflib
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from absl import app, flags, logging

from batch_calibration.errors import InputError
from experiments import stop, study

REQUIRED = re.compile(r"Flag --(\w+) must have a value other than None")
GIVE = {"config": "configs/mini.py"}
"""What to give for a flag that is missing, where it is not a folder."""


def enter(main: Callable[[], None]) -> NoReturn:
    """Parse the flags, run `main`, and turn what a user can mend into one sentence."""
    app.run(lambda _: _guard(main), flags_parser=_parse)
    raise AssertionError("app.run returned")


def _stop(sentence: str) -> NoReturn:
    print(f"error: {sentence}", file=sys.stderr)
    sys.stdout.flush()
    sys.exit(2)


def _guard(main: Callable[[], None]) -> None:
    # absl shows every library's chatter; a program speaks through print and error sentences.
    logging.set_verbosity(logging.WARNING)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = _unraisable
        main()
    except InputError as error:
        _stop(str(error))
    except KeyboardInterrupt:
        stop()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno is None:
            raise
        if error.filename is not None:
            _stop(f"{error.filename}: {error.strerror}; give a path that can be read and written.")
        # A full disk: the write fails long after the file was opened, and names none.
        workdir = flags.FLAGS["workdir"].value if "workdir" in flags.FLAGS else None
        where = f"workdir {workdir}" if workdir else "a file"
        _stop(f"{where}: cannot be written ({error.strerror}); make room or use another folder.")


def _unraisable(what: Any) -> None:
    """A Ctrl-C that falls into one of JAX's garbage collection hooks would be swallowed there."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        stop()
    sys.__unraisablehook__(what)


def _parse(argv: Sequence[str]) -> list[str]:
    keys: list[str] = []
    # Words without a flag are refused below: they must not end the flags.
    flags.FLAGS.set_gnu_getopt(True)
    try:
        if "config" in flags.FLAGS:
            keys = _config_keys(argv)
        words = flags.FLAGS(list(argv))
        _check(words[1:])
        return words
    except InputError as error:
        _stop(str(error))
    except flags.UnrecognizedFlagError as error:
        name = error.flagname
        if name.startswith("config.") and "config" in flags.FLAGS:
            _stop(_missing(["config"]))
        _stop(f"no flag is called --{name}; {_near(name, list(flags.FLAGS))}")
    except flags.Error as error:
        if names := REQUIRED.findall(str(error)):
            _stop(_missing(names))
        reason = str(error).strip().splitlines()[-1]
        _stop(f"{reason}; --help lists the flags.")
    except (AttributeError, KeyError) as error:
        _stop(_unknown_key(argv, keys, error))
    except (ValueError, TypeError) as error:
        _stop(f'a flag cannot be read: {str(error).splitlines()[0]}; tuples are \'("a","b")\'.')


def _config_keys(argv: Sequence[str]) -> list[str]:
    """The keys of the config that will be parsed; they are named in the help of `--config`."""
    first = flags.FlagValues()
    first.set_gnu_getopt(True)
    flags.DEFINE_string("config", None, "", flag_values=first)
    first(list(argv), known_only=True)
    flag: Any = flags.FLAGS["config"]
    path = first["config"].value
    if path is None and flag.default is None:
        keys = list(study.settings(str(study.SAMPLE)).keys())
    else:
        keys = list(study.settings(path).keys()) if path is not None else list(flag.value.keys())
    flag.help += f"; --config.KEY=VALUE sets one of its keys: {', '.join(keys)}"
    return keys


def _check(words: Sequence[str]) -> None:
    """Refuse words without a flag, flags without a value, and tuples written as one text."""
    if words:
        raise InputError(
            f"{' '.join(words)}: expected flags alone; write --NAME=VALUE, --help lists the names."
        )
    for name in flags.FLAGS:
        flag = flags.FLAGS[name]
        if flag.present and flag.value == "" and not name.startswith("config."):
            raise InputError(f"--{name}: expected a value, got nothing; write --{name}=VALUE.")
        # A task card's path may hold a comma.
        if name.startswith("config.") and isinstance(flag.default, tuple | list):
            for one in flag.value or ():
                if isinstance(one, str) and "," in one and not Path(one).exists():
                    parts = ",".join(f'"{part.strip()}"' for part in one.strip("()[]").split(","))
                    raise InputError(
                        f"{name}: expected a tuple, got one text {one!r}; write "
                        f"--{name}='({parts})'."
                    )


def _missing(names: Sequence[str]) -> str:
    given = " ".join(f"--{name}={GIVE.get(name, 'DIR')}" for name in names)
    return f"{', '.join(f'--{name}' for name in names)}: expected a value, none came; give {given}."


def _unknown_key(argv: Sequence[str], keys: list[str], error: Exception) -> str:
    for argument in argv[1:]:
        name = argument.lstrip("-").split("=")[0]
        if name.startswith("config.") and name.removeprefix("config.") not in keys:
            key = name.removeprefix("config.")
            return f"the config has no key {key!r}; {_near(key, keys)}"
    return f"the config cannot be read: {error}; a colon is followed by a preset's name only."


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + (
        f"There are: {', '.join(sorted(known))}." if 0 < len(known) <= 40 else "See --help."
    )

"""The one door of the programs: flag, config and input errors become sentences with exit code 2."""

import difflib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import app, flags, logging

from batch_calibration.typing import InputError
from experiments import study


def enter(main: Callable[[], None]) -> NoReturn:
    """Parse the flags, run `main`, and turn what a user can mend into one sentence."""
    app.run(lambda _: _guard(main), flags_parser=_parse)
    raise AssertionError("app.run returned")


def _stop(sentence: str, code: int = 2) -> NoReturn:
    print(f"error: {sentence}", file=sys.stderr)
    sys.stdout.flush()
    sys.exit(code)


def _guard(main: Callable[[], None]) -> None:
    # absl shows every library's chatter; a program speaks through print and error sentences.
    logging.set_verbosity(logging.WARNING)
    try:
        main()
    except InputError as error:
        _stop(str(error))
    except KeyboardInterrupt:
        _stop("stopped; what was finished is kept: the same command goes on from there.", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.filename is None:
            raise
        _stop(f"{error.filename}: {error.strerror}; give a path that can be read and written.")


def _parse(argv: Sequence[str]) -> list[str]:
    try:
        return flags.FLAGS(list(argv))
    except flags.UnrecognizedFlagError as error:
        _stop(f"no flag is called --{error.flagname}; {_near(error.flagname, list(flags.FLAGS))}")
    except flags.Error as error:
        # A config that raises arrives here with its traceback inside; its last line is the reason.
        reason = str(error).strip().splitlines()[-1].removeprefix("ValueError: ")
        _stop(f"{reason}; --help lists the flags.")
    except (AttributeError, KeyError) as error:
        _stop(_unknown_key(argv, error))
    except FileNotFoundError as error:
        _stop(f"{error.filename or error}: no such config; the shipped ones are in configs/.")
    except (ValueError, TypeError, SyntaxError, ImportError) as error:
        _stop(f'a flag cannot be read: {str(error).splitlines()[0]}; tuples are \'("a","b")\'.')


def _unknown_key(argv: Sequence[str], error: Exception) -> str:
    path = next((a.split("=", 1)[1] for a in argv if a.startswith("--config=")), "")
    keys = study.keys(path) if path else []
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

"""Runs a program's `main`: flag, config and input errors become sentences with exit code 2.

A program's module imports little at its top, and the rest inside `main`, so that flags are read
before JAX is loaded.
"""

import difflib
import gc
import re
import runpy
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from absl import app, flags, logging
from ml_collections import config_flags

from batch_calibration.cli.guard import answer, catch_stops, fail, guard
from batch_calibration.errors import InputError
from batch_calibration.settings import Settings, Study, keys
from experiments import config_files, grid_flags

# The flags that the functions below define are those of the program that calls them.
flags.disclaim_key_flags()

REQUIRED = re.compile(r"Flag --(\w+) must have a value other than None")
WRONG_VALUE = re.compile(r"flag --config\.(\w+)=(.*?): ", re.S)
GIVE: dict[str, str] = {}
"""What to give for a flag that is missing, where it is not a folder."""
WORDS = {
    "methods": "methods to apply, comma-separated; all by default",
    "method_options": "options of methods: METHOD.OPTION=VALUE, comma-separated",
    "probe_sizes": "also let BC and PC learn from so many rows alone, such as 2,5,10",
    "draws": "draws of rows for each probe size",
    "stream_orders": "orders in which rows come, for accuracy by rows seen; 0 is none",
}
"""What is said of a flag that is a key of a part, where a program has such."""
OPTIONAL = set[str]()
"""Flags with keys of their own that a program runs without."""
GRIDS = dict[str, list[object]]()
"""Keys of `--config` that were given several values, in a program that takes such."""
IN_PROCESS = list[str]()
"""Programs that run in this process without being its own; see `run_in_process`."""


def config_flag(
    help_text: str, example: str = "configs/mini.py", *, required: bool = True
) -> flags.FlagHolder[Any]:
    """The flag `--config` of a program; `example` is what the sentence offers."""
    holder = config_flags.DEFINE_config_file("config", None, help_text, lock_config=True)
    GIVE["config"] = example
    if required:
        flags.mark_flag_as_required("config")
    else:
        OPTIONAL.add("config")
    return holder


def folder_flag(help_text: str, name: str = "workdir") -> flags.FlagHolder[Any]:
    """A required flag that names a folder."""
    return flags.DEFINE_string(name, None, help_text, required=True)


def configured_studies() -> list[Study]:
    """The studies of `--config`, whose keys may have several values: one for each model."""
    path = config_flags.get_config_filename(flags.FLAGS["config"])
    return config_files.read_studies(path, flags.FLAGS["config"].value, GRIDS)


def configured_study() -> Study:
    """The settings and cells of `--config`, overrides included."""
    path = config_flags.get_config_filename(flags.FLAGS["config"])
    return config_files.read_study(path, flags.FLAGS["config"].value)


def key_flags(part: str) -> None:
    """A flag for each key of a part of the settings, which goes before that of `--config`."""
    for name, key in keys().items():
        if key.part == part:
            define = flags.DEFINE_integer if key.kind is int else flags.DEFINE_string
            define(name, None, WORDS[name])


def configured_settings() -> Settings:
    """The settings of `--config`, overrides and flags of keys included; else the defaults."""
    config = flags.FLAGS["config"].value
    found = Settings() if config is None else Settings.of(**config.to_dict())
    given = {name: flags.FLAGS[name].value for name in keys() if name in flags.FLAGS}
    return found.replace(**{name: value for name, value in given.items() if value is not None})


def enter(main: Callable[[], None], loads: Sequence[str] = (), *, grids: bool = False) -> NoReturn:
    """Parse the flags, run `main`, and turn what a user can correct into one sentence.

    Args:
        main: the program.
        grids: whether keys of `--config` may have several values.
        loads: modules that are imported before it, such as jax, whose half-imported C++ may abort
            or go on where an interruption raises an exception: one that comes then ends at once.
    """
    if not IN_PROCESS:
        # Imports and tracing make many objects that stay: Python would look for garbage among them.
        gc.set_threshold(10_000, 20, 20)
        catch_stops()
    app.run(lambda _: _guarded(main, loads), flags_parser=partial(_parse, grids=grids))
    raise AssertionError("app.run returned")


def run_in_process(name: str, *arguments: str) -> int:
    """Run a program of this folder in this process, as `python -m experiments.NAME ARGUMENTS` does.

    Signals, the collector of garbage and standard output stay as they are; the working directory is
    the caller's, and names in configs/ are read from it.

    Args:
        name: the program's module, such as "score".
        arguments: its flags.

    Returns:
        The exit code.
    """
    before, modules = set(flags.FLAGS), set(sys.modules)
    GRIDS.clear()
    OPTIONAL.clear()
    config_files.load.cache_clear()
    IN_PROCESS.append(name)
    # ml_collections and the list of a workdir's runs read the arguments from sys.argv.
    program = str(Path(__file__).with_name(f"{name}.py"))
    try:
        with patch.object(sys, "argv", [program, *arguments]), warnings.catch_warnings():
            # A program of its own would not show it; it is of how ml_collections reads a file.
            warnings.filterwarnings("ignore", "the load_module", DeprecationWarning)
            runpy.run_module(f"experiments.{name}", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    finally:
        IN_PROCESS.pop()
        # The next program defines flags of the same names; a library that was imported now defined
        # its own once and for all.
        for flag in set(flags.FLAGS) - before:
            definer = flags.FLAGS.find_module_defining_flag(flag)
            if definer in modules or definer not in sys.modules:
                flags.FLAGS.remove_flag_values([flag])
        flags.FLAGS.unparse_flags()
    return 0


def _guarded(main: Callable[[], None], loads: Sequence[str]) -> None:
    # absl shows what every library logs; a program says what it has to by print and sentences.
    logging.set_verbosity(logging.WARNING)
    workdir = flags.FLAGS["workdir"].value if "workdir" in flags.FLAGS else None
    place = f"workdir {workdir}" if workdir else "a file"
    if IN_PROCESS:
        answer(main, place)
    else:
        guard(main, loads, place)


def _parse(argv: Sequence[str], *, grids: bool = False) -> list[str]:
    known: list[str] = []
    # Words without a flag are refused below: they must not end the flags.
    flags.FLAGS.set_gnu_getopt(True)
    try:
        if grids:
            argv, several = grid_flags.take(argv)
            GRIDS.update(several)
        if "config" in flags.FLAGS:
            known = _config_keys(argv)
        words = flags.FLAGS(list(argv))
        _check(words[1:])
        return words
    except SystemExit:
        # After --help: absl ends with the code of an error.
        sys.exit()
    except InputError as error:
        fail(str(error))
    except flags.UnrecognizedFlagError as error:
        name = error.flagname
        if name.startswith("config.") and "config" in flags.FLAGS:
            fail(_missing(["config"]))
        fail(f"no flag is called --{name}; {_near(name, list(flags.FLAGS))}")
    except flags.Error as error:
        if names := REQUIRED.findall(str(error)):
            fail(_missing(names))
        fail(_wrong_value(str(error).strip()))
    except (AttributeError, KeyError) as error:
        fail(_unknown_key(argv, known, error))
    except (ValueError, TypeError) as error:
        fail(f'a flag cannot be read: {str(error).splitlines()[0]}; tuples are \'("a","b")\'.')


def _config_keys(argv: Sequence[str]) -> list[str]:
    """The keys of the config that will be parsed; they are named in the help of `--config`."""
    first = flags.FlagValues()
    first.set_gnu_getopt(True)
    flags.DEFINE_string("config", None, "", flag_values=first)
    first(list(argv), known_only=True)
    path = first["config"].value
    if not path and "config" in OPTIONAL:
        return []
    known = list(config_files.read_config(path or GIVE["config"]).keys())
    flag: Any = flags.FLAGS["config"]
    flag.help += f"; --config.KEY=VALUE sets one of its keys: {', '.join(known)}"
    return known


def _check(words: Sequence[str]) -> None:
    """Refuse words without a flag, and flags without a value."""
    if words:
        raise InputError(
            where=f"{' '.join(words)}",
            expected="flags alone",
            remedy="write --NAME=VALUE, --help lists the names",
        )
    for name in flags.FLAGS:
        flag = flags.FLAGS[name]
        if flag.present and flag.value == "" and not name.startswith("config."):
            raise InputError(
                where=f"--{name}", expected="a value", got="nothing", remedy=f"write --{name}=VALUE"
            )


def _missing(names: Sequence[str]) -> str:
    given = " ".join(f"--{name}={GIVE.get(name, 'DIR')}" for name in names)
    return f"{', '.join(f'--{name}' for name in names)}: expected a value, none came; give {given}."


def _wrong_value(reason: str) -> str:
    """The sentence for a value that its flag cannot take; a key of a study knows its own."""
    found = WRONG_VALUE.match(reason)
    if found and found[1] in keys():
        try:
            keys()[found[1]].check(found[2])
        except InputError as error:
            return str(error)
    return f"{reason.splitlines()[-1]}; --help lists the flags."


def _unknown_key(argv: Sequence[str], known: list[str], error: Exception) -> str:
    for argument in argv[1:]:
        name = argument.lstrip("-").split("=")[0]
        if name.startswith("config.") and name.removeprefix("config.") not in known:
            key = name.removeprefix("config.")
            return f"the config has no key {key!r}; {_near(key, known)}"
    return f"the config cannot be read: {error}; a colon is followed by a preset's name only."


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + (
        f"There are: {', '.join(sorted(known))}." if 0 < len(known) <= 40 else "See --help."
    )

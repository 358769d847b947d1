"""Turns mistakes in flags and configs, and other user errors, into one-sentence messages."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags, logging

from batch_calibration.cli import guard, launchers, machine
from batch_calibration.cli.study_options import read_config, read_study, read_values
from batch_calibration.errors import InputError, doors_spelling
from batch_calibration.settings import (
    CalibrationSettings,
    Settings,
    Study,
    combinations,
    gather,
    keys,
)

# absl counts the flags defined below as flags of the calling program, not of this module.
flags.disclaim_key_flags()

CONFIG = re.compile(r"--?config(?:=(.*))?")
OVERRIDE = re.compile(r"--?config\.(\w+)(?:=.*)?", re.S)


def parse_flags(arguments: Sequence[str]) -> list[str]:
    """Parses flags for `app.run`; on a mistake prints one sentence and exits with code 2."""
    guard.set_up_process()
    # GNU parsing also reads flags that follow a word without a flag. That word is refused below.
    flags.FLAGS.set_gnu_getopt(True)
    try:
        if "config" in flags.FLAGS:
            with doors_spelling(PROGRAMS):
                _check_config(arguments)
        words = flags.FLAGS(list(arguments))
        if words[1:]:  # [0] is the program's name
            remedy = "write --NAME=VALUE, --help lists the names"
            raise InputError.at(" ".join(words[1:]), "only flags", remedy=remedy)
        # Path("") would be the current folder.
        if "workdir" in flags.FLAGS and flags.FLAGS["workdir"].value == "":
            raise InputError.at("--workdir", "a folder", "nothing")
        return words
    except SystemExit:
        sys.exit(0)  # absl exits with an error code after --help
    except InputError as error:
        guard.fail(str(error))
    except flags.Error as error:
        guard.fail(f"{str(error).strip().splitlines()[-1]}; --help lists the flags.")


def _check_config(arguments: Sequence[str]) -> None:
    """Checks that the config file can be read and has the keys that are overridden.

    Raises:
        InputError: `read_config` fails, or an override names an unknown key. The message suggests
            the nearest known key.
    """
    path, overrides = None, []
    for argument, next_one in zip(arguments, [*arguments[1:], ""], strict=True):
        if match := CONFIG.fullmatch(argument):
            path = next_one if match[1] is None else match[1]
        if match := OVERRIDE.fullmatch(argument):
            overrides.append(match[1])
    if path is not None:
        known = read_config(path)
        for key in overrides:
            if key not in known:
                raise InputError.unknown("config key", key, known)


def guarded(main: Callable[[], None], loads: Sequence[str] = ("jax",)) -> Callable[[Any], None]:
    """Wraps a program's `main` for `app.run`; user errors become one-sentence messages."""

    def run(_: Any) -> None:
        # absl shows the log lines of every library. The programs themselves use print.
        logging.set_verbosity(logging.WARNING)
        workdir = flags.FLAGS["workdir"].value if "workdir" in flags.FLAGS else None
        with doors_spelling(PROGRAMS):
            guard.guard(main, loads, f"workdir {workdir}" if workdir else "a file")

    return run


def _flag(key: str, setting: object = None) -> str:
    """Spells a key as a program's flag, or as a key of its config if the program has no flag."""
    if key in flags.FLAGS or key not in keys():
        # absl's flags keep the underscores of their names.
        return guard.flag(key, setting).replace(key.replace("_", "-"), key)
    # With a value, the result is an argument for the command line and starts with dashes.
    return f"config.{key}" if setting is None else f"--config.{guard.flag(key, setting)[2:]}"


PROGRAMS = guard.CONSOLE._replace(key=_flag)
"""The spelling of the library's keys and steps as flags of the programs in this folder."""


def config_study() -> Study:
    """Returns the study of `--config`, with its overrides."""
    (study,) = config_studies([])
    return study


def config_studies(varied: Sequence[str]) -> list[Study]:
    """Returns one study for each model, over every combination of the values KEY=A,B,C."""
    flag: Any = flags.FLAGS["config"]
    path, config = flag.config_filename, flag.value.to_dict()
    pairs = [text.partition("=")[::2] for text in varied]  # [::2] drops the "="
    for key, _ in pairs:
        if key not in keys():
            raise InputError.unknown("config key", key, keys())
    choices = {key: read_values(key, text) for key, text in pairs}
    return gather(read_study(path, config | chosen) for chosen in combinations(choices))


def calibration_flags() -> None:
    """Defines a flag for each calibration key; the flag takes precedence over `--config`."""
    for name, key in keys().items():
        if key.part == "calibration":
            flags.DEFINE_string(name, None, key.help)


def calibration_settings() -> CalibrationSettings:
    """Returns the calibration settings of `--config` (optional) and of `calibration_flags`."""
    config = flags.FLAGS["config"].value
    chosen = {} if config is None else config.to_dict()
    for name, key in keys().items():
        text = flags.FLAGS[name].value if key.part == "calibration" else None
        if text is not None:
            chosen[name] = key.parse(text)
    return Settings.of(**chosen).calibration


def launcher_flags() -> None:
    """Defines the flags of all launchers; each launcher refuses flags that it does not have."""
    _define_flags(launchers.FLAGS)


def machine_flags() -> None:
    """Defines the flags of a program that may be one of several processes."""
    _define_flags(machine.FLAGS)


def _define_flags(table: Mapping[str, tuple[type, str]]) -> None:
    for name, (kind, text) in table.items():
        (flags.DEFINE_integer if kind is int else flags.DEFINE_string)(name, None, text)


def make_launcher(name: str, workers: int) -> Any:
    """Makes the named launcher from the flags; raises as `launchers.make_launcher` does."""
    given = {flag: flags.FLAGS[flag].value for flag in launchers.FLAGS}
    return launchers.make_launcher(name, workers, given)


def set_up_machine() -> None:
    """Turns on the compilation cache, and joins the processes that the flags name."""
    machine.set_up(**{name: flags.FLAGS[name].value for name in machine.FLAGS})

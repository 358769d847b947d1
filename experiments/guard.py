"""Answers mistakes in flags and configs, and all else that a user can correct, in a sentence."""

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

# The flags that the functions below define are those of the program that calls them.
flags.disclaim_key_flags()

CONFIG = re.compile(r"--?config(?:=(.*))?")
OVERRIDE = re.compile(r"--?config\.(\w+)(?:=.*)?", re.S)


def parse_flags(arguments: Sequence[str]) -> list[str]:
    """The parser of flags for `app.run`; a mistake is one sentence and exit code 2."""
    guard.set_up_process()
    # A word without a flag is refused below: it must not end the flags.
    flags.FLAGS.set_gnu_getopt(True)
    try:
        if "config" in flags.FLAGS:
            with doors_spelling(PROGRAMS):
                _check_config(arguments)
        words = flags.FLAGS(list(arguments))
        if words[1:]:  # [0] is the program's name
            remedy = "write --NAME=VALUE, --help lists the names"
            raise InputError.at(" ".join(words[1:]), "flags alone", remedy=remedy)
        # Path("") would be the folder that the program was started in.
        if "workdir" in flags.FLAGS and flags.FLAGS["workdir"].value == "":
            raise InputError.at("--workdir", "a folder", "nothing")
        return words
    except SystemExit:
        sys.exit(0)  # after --help: absl ends with the code of an error
    except InputError as error:
        guard.fail(str(error))
    except flags.Error as error:
        guard.fail(f"{str(error).strip().splitlines()[-1]}; --help lists the flags.")


def _check_config(arguments: Sequence[str]) -> None:
    """Refuse a config file that cannot be read, and keys that it does not have.

    Raises:
        InputError: what `read_config` raises; a misspelt key, with the nearest right one.
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
    """A program's `main` for `app.run`, whose errors of a user become sentences."""

    def run(_: Any) -> None:
        # absl shows what every library logs; a program says what it has to by print.
        logging.set_verbosity(logging.WARNING)
        workdir = flags.FLAGS["workdir"].value if "workdir" in flags.FLAGS else None
        with doors_spelling(PROGRAMS):
            guard.guard(main, loads, f"workdir {workdir}" if workdir else "a file")

    return run


def _flag(key: str, setting: object = None) -> str:
    """A key as a program's flag, or else as a key of its config."""
    if key in flags.FLAGS or key not in keys():
        return guard.flag(key, setting)
    # Alone it is spoken of; with a value it is something to write.
    return f"config.{key}" if setting is None else guard.flag(f"config.{key}", setting)


PROGRAMS = guard.CONSOLE._replace(key=_flag)
"""How the programs of this folder spell the library's keys and steps."""


def config_study() -> Study:
    """The settings and cells of `--config`, overrides included."""
    (study,) = config_studies([])
    return study


def config_studies(varied: Sequence[str]) -> list[Study]:
    """The studies of `--config`, a model each, for every combination of values KEY=A,B,C."""
    flag: Any = flags.FLAGS["config"]
    path, config = flag.config_filename, flag.value.to_dict()
    pairs = [text.partition("=")[::2] for text in varied]  # without the "="
    for key, _ in pairs:
        if key not in keys():
            raise InputError.unknown("config key", key, keys())
    choices = {key: read_values(key, text) for key, text in pairs}
    return gather(read_study(path, config | chosen) for chosen in combinations(choices))


def calibration_flags() -> None:
    """Define a flag for each key of what is done with scores; it goes before that of `--config`."""
    for name, key in keys().items():
        if key.part == "calibration":
            flags.DEFINE_string(name, None, key.help)


def calibration_settings() -> CalibrationSettings:
    """What `--config`, if it is given, and the flags of `calibration_flags` say."""
    config = flags.FLAGS["config"].value
    chosen = {} if config is None else config.to_dict()
    for name, key in keys().items():
        text = flags.FLAGS[name].value if key.part == "calibration" else None
        if text is not None:
            chosen[name] = key.parse(text)
    return Settings.of(**chosen).calibration


def launcher_flags() -> None:
    """Define the flags of all launchers; each launcher refuses those that it does not have."""
    _define_flags(launchers.FLAGS)


def machine_flags() -> None:
    """Define the flags of a program that may be one of several processes."""
    _define_flags(machine.FLAGS)


def _define_flags(table: Mapping[str, tuple[type, str]]) -> None:
    for name, (kind, text) in table.items():
        (flags.DEFINE_integer if kind is int else flags.DEFINE_string)(name, None, text)


def make_launcher(name: str, workers: int) -> Any:
    """The launcher of a name, as the flags say; errors as in `launchers.make_launcher`."""
    given = {flag: flags.FLAGS[flag].value for flag in launchers.FLAGS}
    return launchers.make_launcher(name, workers, given)


def set_up_machine() -> None:
    """Keep compiled programs, and join the processes that the flags name."""
    machine.set_up(**{name: flags.FLAGS[name].value for name in machine.FLAGS})

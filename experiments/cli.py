"""The door of the programs: reads flags and configs, runs `main`, answers mistakes in a sentence.

A program's module imports little at its top, and the rest inside `main`, so that flags are read
before JAX is loaded.
"""

import re
import runpy
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from absl import app, flags, logging

from batch_calibration.cli import launchers, machine, spelling
from batch_calibration.cli.guard import answer, fail, guard, set_up_process
from batch_calibration.errors import InputError, Spelling, doors_spelling
from batch_calibration.settings import Settings, Study, keys
from experiments import config_files
from experiments.config_files import suggest

# The flags that the functions below define are those of the program that calls them.
flags.disclaim_key_flags()

EXAMPLE = "configs/mini.py"
MISSING_FLAG = re.compile(r"Flag --(\w+) must have a value other than None")
OVERRIDE = re.compile(r"--?config\.(\w+)(?:=(.*))?", re.S)


class _State:
    """What is known of the program that runs; `run_in_process` begins anew.

    Attributes:
        example: what the sentence offers where --config is missing.
        path: what --config named, with its preset.
        grid: keys of the config that were given several values, in a program that takes such.
        is_guest: whether it runs in a process that is not its own.
    """

    def __init__(self, *, is_guest: bool = False):
        self.example, self.path, self.is_guest = EXAMPLE, "", is_guest
        self.grid = dict[str, Sequence[object]]()


STATE = _State()


def config_flag(
    help_text: str, example: str = EXAMPLE, *, required: bool = True
) -> flags.FlagHolder[Any]:
    """The flag `--config` of a program, whose value is the config with what was set in it."""
    STATE.example = example
    text = f"{help_text}; --config.KEY=VALUE sets one of its keys"
    return flags.DEFINE_string("config", None, text, required=required)


def folder_flag(help_text: str, name: str = "workdir") -> flags.FlagHolder[Any]:
    """A required flag that names a folder."""
    return flags.DEFINE_string(name, None, help_text, required=True)


def key_flags(part: str) -> None:
    """A flag for each key of a part of the settings, which goes before that of `--config`."""
    for name, key in keys().items():
        if key.part == part:
            flags.DEFINE_string(name, None, key.help)


def machine_flags() -> None:
    """The flags of a program that may be one of several processes; see `set_up_machine`."""
    for name, (kind, text) in machine.FLAGS.items():
        (flags.DEFINE_integer if kind is int else flags.DEFINE_string)(name, None, text)


def set_up_machine() -> None:
    """Keep compiled programs, and join the other processes that `machine_flags` name."""
    machine.set_up(**_values(machine.FLAGS))


def launcher_flags() -> None:
    """The flags of a program that starts workers; see `read_launcher`."""
    text = "what starts workers: processes of this machine, Slurm, or a Ray cluster"
    flags.DEFINE_enum("launcher", "local", launchers.NAMES, text)
    flags.DEFINE_integer("workers", 2, "how many share the sweep")
    for name, flag in launchers.FLAGS.items():
        (flags.DEFINE_integer if flag.text_kind is int else flags.DEFINE_string)(
            name, None, flag.help
        )


def read_launcher() -> Any:
    """The launcher that the flags name; errors as in `make_launcher`."""
    options = _values(launchers.FLAGS)
    return launchers.make_launcher(flags.FLAGS.launcher, flags.FLAGS.workers, options)


def _values(names: Iterable[str]) -> dict[str, Any]:
    """What flags of some names were given."""
    return {name: flags.FLAGS[name].value for name in names}


def configured_settings() -> Settings:
    """The settings of `--config`, overrides and flags of keys included; else the defaults."""
    config = flags.FLAGS["config"].value
    settings = Settings() if config is None else Settings.of(**config.to_dict())
    parsed = {}
    for name, key in keys().items():
        # A program has flags for some parts alone, and None where one was left out.
        text = flags.FLAGS[name].value if name in flags.FLAGS else None
        if text is not None:
            parsed[name] = key.parse(text)
    return settings.replace(**parsed)


def configured_study() -> Study:
    """The settings and cells of `--config`, overrides included."""
    return config_files.read_study(STATE.path, flags.FLAGS["config"].value)


def configured_studies() -> list[Study]:
    """The studies of `--config`, whose keys may have several values: one for each model."""
    return config_files.read_studies(STATE.path, flags.FLAGS["config"].value, STATE.grid)


def enter(main: Callable[[], None], loads: Sequence[str] = (), *, grids: bool = False) -> NoReturn:
    """Parse the flags, run `main`, and turn what a user can correct into one sentence.

    `loads` are imported before it, see `guard`; with `grids` keys of `--config` may have several
    values.
    """
    if not STATE.is_guest:  # the host's signals and output stay its own
        set_up_process()
    with doors_spelling(PROGRAMS):
        app.run(lambda _: _run(main, loads), flags_parser=lambda argv: _parse(argv, grids))
    raise AssertionError("app.run returned")  # it ends by sys.exit


def run_in_process(name: str, *arguments: str) -> int:
    """Run a program of this folder in this process, as `python -m experiments.NAME ARGUMENTS` does.

    Signals, garbage collection and standard output stay as they are; the working directory is the
    caller's, and names in configs/ are read from it.

    Args:
        name: the program's module, such as "score".
        arguments: its flags.

    Returns:
        The exit code.
    """
    global STATE
    # The first is put back in the end; the others tell which flags are new by then.
    host, defined, modules = STATE, set(flags.FLAGS), set(sys.modules)
    STATE = _State(is_guest=True)
    config_files.load.cache_clear()  # a config file may have been written anew since
    # The list of a workdir's runs reads the arguments from sys.argv.
    program = str(Path(__file__).with_name(f"{name}.py"))
    try:
        with patch.object(sys, "argv", [program, *arguments]):
            runpy.run_module(f"experiments.{name}", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0  # None after a good end
    finally:
        STATE = host
        # The next program defines flags of the same names; a library that was imported now defined
        # its own once and for all.
        for name in set(flags.FLAGS) - defined:
            definer = flags.FLAGS.find_module_defining_flag(name)
            if definer in modules or definer not in sys.modules:
                flags.FLAGS.remove_flag_values([name])
        flags.FLAGS.unparse_flags()
    return 0


def _run(main: Callable[[], None], loads: Sequence[str]) -> None:
    # absl shows what every library logs; a program says what it has to by print and sentences.
    logging.set_verbosity(logging.WARNING)
    workdir = flags.FLAGS["workdir"].value if "workdir" in flags.FLAGS else None
    destination = f"workdir {workdir}" if workdir else "a file"
    run = answer if STATE.is_guest else partial(guard, loads=loads)
    run(main, destination=destination)


def _parse(argv: Sequence[str], grids: bool) -> list[str]:
    # Words without a flag are refused below: they must not end the flags.
    flags.FLAGS.set_gnu_getopt(True)
    try:
        arguments, overrides = _split_overrides(argv)
        takes_config = "config" in flags.FLAGS
        if takes_config and {"-help", "--help", "--helpfull"} & set(arguments):
            # absl prints help while it parses: the keys of the config must be in its text by then.
            path = _find_config(arguments) or STATE.example
            flags.FLAGS["config"].help += f": {', '.join(config_files.read_config(path))}"
        arguments = flags.FLAGS(arguments)
        _check(arguments[1:])  # [0] is the program's name
        if takes_config and flags.FLAGS.config is not None:
            STATE.path = flags.FLAGS.config
            config: Any = config_files.read_config(STATE.path)
            STATE.grid = config_files.override(config, overrides, grids=grids)
            # From here on the flag holds the config itself, no longer its path.
            flags.FLAGS["config"].value = config
        elif overrides:
            # A key is set, and the config that it belongs to is not named.
            fail(_say_missing(["config"]))
        return arguments
    except SystemExit as end:
        # After --help: absl ends with the code of an error.
        sys.exit(end.code if end.code == 2 else 0)
    except InputError as error:
        fail(str(error))
    except flags.UnrecognizedFlagError as error:
        name = error.flagname
        fail(f"no flag is called --{name}; {suggest(name, list(flags.FLAGS))}")
    except flags.Error as error:
        if names := MISSING_FLAG.findall(str(error)):
            fail(_say_missing(names))
        fail(f"{str(error).strip().splitlines()[-1]}; --help lists the flags.")


def _flag(key: str, setting: object = None) -> str:
    """A key as a program's flag, or else as a key of its config."""
    if key in flags.FLAGS or key not in keys():
        return spelling.flag(key, setting)
    # Alone it is spoken of; with a value it is something to write.
    return f"config.{key}" if setting is None else spelling.flag(f"config.{key}", setting)


def _program(step_name: str) -> str:
    return f"run experiments.{step_name}"


PROGRAMS = Spelling(_flag, _program)
"""How the programs of this folder spell the library's keys and steps."""


def _find_config(arguments: Sequence[str]) -> str:
    """What `--config` says where the other flags are not parsed."""
    # Apart from the program's own flags, which are not to be parsed yet.
    alone = flags.FlagValues()
    alone.set_gnu_getopt(True)
    holder = flags.DEFINE_string("config", "", "", flag_values=alone)
    alone(list(arguments), known_only=True)
    return holder.value or ""


def _split_overrides(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The arguments without those that set keys of the config, and these keys with their texts."""
    arguments, overrides = list[str](), dict[str, str]()
    remaining = iter(argv)
    for argument in remaining:
        setting = OVERRIDE.fullmatch(argument)
        if setting and "config" in flags.FLAGS:
            key, text = setting.groups()
            # What is not behind "=" is the next word.
            overrides[key] = next(remaining, "") if text is None else text
        else:
            arguments.append(argument)
    return arguments, overrides


def _check(arguments: Sequence[str]) -> None:
    """Refuse words without a flag, and flags without a value."""
    if arguments:
        remedy = "write --NAME=VALUE, --help lists the names"
        raise InputError(where=" ".join(arguments), expected="flags alone", remedy=remedy)
    for name in flags.FLAGS:
        flag = flags.FLAGS[name]
        if flag.present and flag.value == "" and name != "config":
            remedy = f"write --{name}=VALUE"
            raise InputError(where=f"--{name}", expected="a value", got="nothing", remedy=remedy)


def _say_missing(names: Sequence[str]) -> str:
    examples = {"config": STATE.example}
    flags_given = " ".join(f"--{name}={examples.get(name, 'DIR')}" for name in names)
    listed = ", ".join(f"--{name}" for name in names)
    return f"{listed}: expected a value, none came; give {flags_given}."

"""Studies from flags, one for each key of `Settings`, and from config files."""

import ast
import importlib.util
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace, _ArgumentGroup
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from batch_calibration.cli import launchers, machine
from batch_calibration.errors import InputError, spell
from batch_calibration.settings import Settings, Study, combinations, gather, keys, varied
from batch_calibration.settings.key import Value

COMMANDS = {
    "score": "ask a model for label scores, context by context, and keep them in a workdir",
    "sweep": "score with several workers: processes, jobs of Slurm, or tasks of Ray",
    "show": "show what a model will be asked, where its labels begin and what that costs",
    "status": "how far the runs on a workdir are: done, running, failed and left",
    "tables": "tables of a workdir: in the terminal, as Markdown, LaTeX and CSV",
    "figures": "figures of a workdir, as PNG and PDF",
    "merge": "bring the scores of several workdirs into one, each block kept; nothing is scored",
    "data": "show a task's rows, where they come from, and whether the paper has as many",
    "prepare_data": "turn files of rows into folders that TensorFlow Datasets opens",
}
"""Commands on studies alone; `calibrate` and `report` are on files of scores, too."""
SCORING = ("", "data", "prompt", "model", "api")
"""Parts of the settings that decide what is scored."""
PARTS = {"score": SCORING, "sweep": SCORING, "show": SCORING, "calibrate": ("calibration",)}
"""Command -> the parts of the settings whose keys are its flags."""
WITH_CONFIG = (*PARTS, "status")
"""Commands that take a config file."""
EXAMPLE = "configs/mini.py"
WITHOUT_WORKDIR = ("show", "data", "prepare_data")
METAVARS: dict[object, str] = {int: "N", float: "X", str: "TEXT", bool: "{True,False}"}


class Flag(NamedTuple):
    """A flag of a command.

    Attributes:
        name: without its dashes.
        metavar: what help has in place of its value, None for the name; "" of a switch.
        help: what it means; the default is added where it does not say it.
        default: its value where it is left out; a list collects the values of a flag that is
            repeated, and a switch whose default is None can be given as --no-NAME too.
        kind: its type.
        of: the commands that have it, where others of its table do not.
        is_required: whether it must be given.
    """

    name: str
    metavar: str | None
    help: str
    default: object = ""
    kind: type = str
    of: str = ""
    is_required: bool = False


OF_MACHINE = tuple(Flag(n, METAVARS[k], text, None, k) for n, (k, text) in machine.FLAGS.items())
OF_LAUNCHERS = []
for _name, _flag in launchers.FLAGS.items():
    _kind = _flag.text_kind
    OF_LAUNCHERS.append(Flag(_name, METAVARS[_kind], _flag.help, None, _kind))
FLAGS: dict[str, tuple[Flag, ...]] = {
    "score": OF_MACHINE,
    "sweep": (
        Flag("launcher", "TEXT", launchers.HELP, "local"),
        Flag("workers", "N", "how many share the sweep", 2, int),
        Flag("dry_run", "", "print contexts, tokens and time; score nothing"),
        *OF_LAUNCHERS,
    ),
    "show": (
        Flag("rows", "N", "rows of each block to show", 3, int),
        Flag("nocost", "", "do not count the tokens of the whole sweep"),
    ),
    "calibrate": (
        Flag("floor", "X", "raise scores below it, -inf too, to this many nats", None, float),
        Flag("tasks", "TEXT", "calibrate scores of these tasks alone", None),
        Flag("shots", "N", "calibrate scores of so many shots alone", None, int),
        *OF_MACHINE,
    ),
    "tables": (Flag("quiet", "", "write the files and print no table"),),
    "figures": (Flag("boundary_tasks", "N", "tasks in the figure of boundaries", 2, int),),
    "merge": (
        Flag("from", "TEXT", "workdirs to read, comma-separated", None, is_required=True),
        Flag("tolerance", "X", "nats by which two scores of one label may differ", 1e-3, float),
    ),
    "data": (
        Flag("task", "TEXT", "a task's name, or the path of a task file"),
        Flag("all", "", "every task that the package has"),
        Flag("data_dir", "TEXT", "folder of rows, or 'mini'"),
    ),
    "prepare_data": (
        Flag(
            "source",
            "TEXT",
            "folder of rows: one for each task, with a file for each split",
            None,
            is_required=True,
        ),
        Flag("data_dir", "TEXT", "folder for the TFDS folders", None, is_required=True),
        Flag(
            "rename",
            "TEXT",
            "task/file=split for rows with another official name; ANLI's pools, MNLI's matched "
            "split, AG News and TREC have theirs",
            None,
        ),
    ),
}
"""Command -> its flags that are no keys."""


def flags_of(command: str) -> list[Flag]:
    """The flags of a command on studies."""
    flags = list[Flag]()
    if command not in WITHOUT_WORKDIR:
        # calibrate and report may have files in its place
        is_required = command in COMMANDS
        flags.append(Flag("workdir", "DIR", "folder of the study", is_required=is_required))
    if command in WITH_CONFIG:
        text = "a config file; other flags go before its keys, as --config.KEY or --KEY"
        flags.append(Flag("config", "FILE[:PRESET]", text, None))
    return [*flags, *FLAGS.get(command, ()), *flags_of_keys(PARTS.get(command, ()))]


def flags_of_keys(part_names: Collection[str], without: Collection[str] = ()) -> list[Flag]:
    """A flag for each key of some parts of the settings."""
    flags = []
    for name, key in keys().items():
        if key.part in part_names and name not in without:
            default = f" (default: {key.default})" if key.default not in ("", ()) else ""
            choices = "{" + ",".join(key.choices) + "}" if key.choices else ""
            metavar = choices or ("A,B" if key.is_tuple else METAVARS[key.kind])
            # argparse would read "%" as a place for something.
            text = (key.help.rstrip(".") + default).replace("%", "%%")
            flags.append(Flag(name, metavar, text, None))
    return flags


def add_flags(group: ArgumentParser | _ArgumentGroup, flags: Iterable[Flag]) -> None:
    """Add flags to a parser or a group of one."""
    for flag in flags:
        name, text = f"--{flag.name}", flag.help
        if flag.metavar == "":
            switch = BooleanOptionalAction if flag.default is None else "store_true"
            group.add_argument(name, action=switch, help=text)
            continue
        if flag.default not in (None, "", []) and "(default: " not in text:
            text += f" (default: {flag.default})"
        group.add_argument(
            name, action="append" if flag.default == [] else "store", type=flag.kind, help=text,
            default=flag.default, metavar=flag.metavar, required=flag.is_required,
        )  # fmt: skip


def read_value(name: str, text: str) -> Value:
    """The value of a key from a text; tuples may be written as in Python.

    Raises:
        InputError: a value that the key cannot have.

    >>> read_value("tasks", "sst2,rte"), read_value("demonstrations", "1,2")
    (('sst2', 'rte'), (1, 2))
    """
    key = keys()[name]
    if key.is_tuple:
        with suppress(ValueError, SyntaxError):  # names need no quotes
            members = ast.literal_eval(text)
            # "1" is a tuple of one.
            return key.check(members if isinstance(members, list | tuple) else (members,))
    return key.parse(text)


def read_values(name: str, text: str) -> list[Value]:
    """The values of a key that a text names; a template's own text and a path are one value.

    Raises:
        InputError: a value that the key cannot have.

    >>> read_values("shots", "1,2,4"), read_values("template", '("a, {label}", "b {label}")')
    ([1, 2, 4], ['a, {label}', 'b {label}'])
    """
    key = keys()[name]
    if key.is_tuple or name not in varied():
        return [read_value(name, text)]
    if text[:1] not in ("(", "["):  # not a Python list
        is_one = "{" in text or Path(text).exists()  # its commas separate nothing
        return [key.parse(member.strip()) for member in ([text] if is_one else text.split(","))]
    try:
        values = ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        expected = 'several values such as \'("a","b")\''
        raise InputError(key=name, expected=expected, got=repr(text)) from error
    if not isinstance(values, list | tuple):  # "(a)" is a text in parentheses
        return [key.parse(text)]
    return [key.parse(value) if isinstance(value, str) else key.check(value) for value in values]


def given_keys(args: Namespace, part_names: Collection[str]) -> dict[str, str]:
    """The keys of some parts of the settings that were given, and what was given for each."""
    names = [name for name, key in keys().items() if key.part in part_names]
    # None: left out.
    return {name: text for name in names if (text := getattr(args, name, None)) is not None}


def chosen_settings(args: Namespace) -> Settings:
    """The settings of the config file and the flags of keys, which go before it."""
    texts = given_keys(args, PARTS[args.command])
    config = read_config(args.config) if args.config is not None else {}
    return Settings.of(**config | {name: read_value(name, text) for name, text in texts.items()})


def chosen_studies(args: Namespace) -> list[Study]:
    """A study for each model that the config file and the flags name; a flag may have several.

    Raises:
        InputError: several values where the command takes one study.
    """
    read = read_values if args.command == "sweep" else _read_one
    texts = given_keys(args, PARTS.get(args.command, ()))
    choices = {name: read(name, text) for name, text in texts.items()}
    several = {name: values for name, values in choices.items() if len(values) > 1}
    config: dict[str, object] = read_config(args.config) if args.config is not None else {}
    config |= {name: values[0] for name, values in choices.items()}
    studies = []
    for combination in combinations(several):
        if args.config is not None:
            studies.append(read_study(args.config, config | combination))
        else:
            settings = Settings.of(**config | combination)
            studies.append(Study(settings, tuple(settings.grid())))
    return gather(studies)


def _read_one(name: str, text: str) -> list[Value]:
    return [read_value(name, text)]


def load_module(path: str, key: str) -> ModuleType:
    """A Python file of the user's as a module; `key` is the flag that names it.

    Raises:
        InputError: the file is missing, or cannot be run.
    """
    file = Path(path)
    if not file.is_file() or file.suffix != ".py":
        raise InputError.at(
            spell(key, path), "a Python file", "none", f"name one, such as {EXAMPLE} of a checkout"
        )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    # A console script has neither the working directory nor a checkout on its path.
    folder, path_before = file.resolve().parent, list(sys.path)
    sys.path += [str(Path.cwd()), str(folder), str(folder.parent)]
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a person's own file may raise anything
        raise InputError(f"{file}: cannot be run ({error!r}); correct it.") from error
    finally:
        sys.path[:] = path_before
    return module


def load_config(path: str) -> ModuleType:
    """The config file as a module; what follows a colon in `path` is a preset's name.

    Raises:
        InputError: what `load_module` raises, or a file without `get_config`.
    """
    file = path.partition(":")[0]
    module = load_module(file, "config")
    if not hasattr(module, "get_config"):
        remedy = f"see {EXAMPLE}"
        raise InputError.at(file, "a function get_config", "none", remedy)
    return module


def read_config(path: str) -> dict[str, object]:
    """The keys of the config that `path`, with or without a preset, names.

    Raises:
        InputError: what `load_config` raises, no such preset, or a `get_config` that fails.
    """
    get_config = load_config(path).get_config
    try:
        config = get_config(*path.split(":", 1)[1:])  # no preset, no argument
    except Exception as error:  # a person's own file may raise anything
        reason = error if isinstance(error, ValueError) else f"get_config fails with {error!r}"
        raise InputError(f"{reason}.", where=spell("config", path)) from error
    # A ConfigDict, or a dict where ml_collections is not installed.
    values = config.to_dict() if hasattr(config, "to_dict") else config
    if not isinstance(values, Mapping):
        raise InputError.at(
            spell("config", path), "a dict from get_config", type(config).__name__, f"see {EXAMPLE}"
        )
    return dict(values)


def read_study(path: str, config: Mapping[str, object]) -> Study:
    """The study of a config file: the settings, and the contexts of its `sweep`.

    Args:
        path: the file; without a function `sweep` it has the usual contexts of `Settings.grid`.
        config: its keys and their values, overrides included.

    Raises:
        InputError: what `load_config` raises, a wrong cell in the sweep, a wrong setting.
    """
    settings, module = Settings.of(**config), load_config(path)
    if not hasattr(module, "sweep"):
        return Study(settings, tuple(settings.grid()))
    from ml_collections import ConfigDict

    # With defaults for keys that the config leaves out.
    cells = list(module.sweep(ConfigDict(settings.flat())))
    for cell in cells:
        if not isinstance(cell, Mapping) or "task" not in cell:
            raise InputError.at(
                spell("config", path), "dicts as of configs/base.py from sweep", repr(cell)
            )
    return Study(settings, tuple(settings.cell(**cell) for cell in cells))

"""Builds studies from flags, one for each key of `Settings`, and from config files."""

import ast
import importlib.util
import sys
from argparse import Namespace
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from batch_calibration.errors import InputError, answering, spell
from batch_calibration.settings import Settings, Study, Value, combinations, gather, keys, varied

SCORING = ("", "data", "prompt", "model", "api")
"""Parts of the settings that affect the scores."""
PARTS: dict[str, tuple[str, ...]] = {"calibrate": ("calibration",)}
PARTS |= dict.fromkeys(("score", "requests", "sweep", "show"), SCORING)
"""Command -> the parts of the settings with its flags."""
EXAMPLE = "configs/mini.py"


def read_value(name: str, text: str) -> Value:
    """Reads the value of a key from a text; tuples may be written as in Python.

    Raises:
        InputError: The value is invalid for the key.

    >>> read_value("tasks", "sst2,rte"), read_value("demonstrations", "1,2")
    (('sst2', 'rte'), (1, 2))
    """
    key = keys()[name]
    if key.is_tuple:
        with suppress(ValueError, SyntaxError):  # names need no quotes
            members = ast.literal_eval(text)
            # "1" is a tuple with one member.
            return key.check(members if isinstance(members, list | tuple) else (members,))
    return key.parse(text)


def read_values(name: str, text: str) -> list[Value]:
    """Reads the values of a key from a text; a template's own text or a path is a single value.

    Raises:
        InputError: A value is invalid for the key.

    >>> read_values("shots", "1,2,4"), read_values("template", '("a, {label}", "b {label}")')
    ([1, 2, 4], ['a, {label}', 'b {label}'])
    """
    key = keys()[name]
    if key.is_tuple or name not in varied():
        return [read_value(name, text)]
    if text[:1] not in ("(", "["):  # not a Python list
        is_one = "{" in text or Path(text).exists()  # its commas are part of the value
        return [key.parse(member.strip()) for member in ([text] if is_one else text.split(","))]
    expected = 'several values such as \'("a","b")\''
    with answering((ValueError, SyntaxError), spell(name, text), expected, key=name):
        values = ast.literal_eval(text)
    if not isinstance(values, list | tuple):  # "(a)" is a text in parentheses
        return [key.parse(text)]
    return [key.parse(value) if isinstance(value, str) else key.check(value) for value in values]


def given_keys(args: Namespace, part_names: Collection[str]) -> dict[str, str]:
    """Returns the given keys of some parts of the settings, with their texts."""
    names = [name for name, key in keys().items() if key.part in part_names]
    # None: the flag is left out.
    return {name: text for name in names if (text := getattr(args, name, None)) is not None}


def chosen_settings(args: Namespace) -> Settings:
    """Returns the settings of the config file, overridden by the flags of keys."""
    texts = given_keys(args, PARTS[args.command])
    config = read_config(args.config) if args.config is not None else {}
    return Settings.of(**config | {name: read_value(name, text) for name, text in texts.items()})


def chosen_studies(args: Namespace) -> list[Study]:
    """Returns a study for each model in the config file and the flags; a sweep may have several.

    Raises:
        InputError: A flag is invalid, such as several values for a command that takes one.
    """
    choices = dict[str, list[Value]]()
    for name, text in given_keys(args, PARTS.get(args.command, ())).items():
        is_sweep = args.command == "sweep"
        choices[name] = read_values(name, text) if is_sweep else [read_value(name, text)]
    several = {name: values for name, values in choices.items() if len(values) > 1}
    config: dict[str, object] = read_config(args.config) if args.config is not None else {}
    config |= {name: values[0] for name, values in choices.items()}
    studies = list[Study]()
    for combination in combinations(several):
        studies.append(read_study(args.config, config | combination))
    return gather(studies)


def load_module(path: str, key: str) -> ModuleType:
    """Runs a user's Python file as a module; `key` is the flag with its path.

    Raises:
        InputError: The file is missing, or it raises an exception.
    """
    file = Path(path)
    if not file.is_file() or file.suffix != ".py":
        example = "examples/own_method.py" if key == "plugin" else EXAMPLE
        remedy = f"use one, such as {example} of a checkout"
        raise InputError.at(spell(key, path), "a Python file", "none", remedy)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    # The path of a console script includes neither the working directory nor a checkout.
    folder, path_before = file.resolve().parent, list(sys.path)
    sys.path += [str(Path.cwd()), str(folder), str(folder.parent)]
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a user's file may raise anything
        raise InputError(f"{file}: cannot be run ({error!r}); correct it.") from error
    finally:
        sys.path[:] = path_before
    return module


def load_config(path: str) -> ModuleType:
    """Runs the config file as a module; `path` may end with a colon and a preset's name.

    Raises:
        InputError: `load_module` fails, or the file has no `get_config`.
    """
    file = path.partition(":")[0]
    module = load_module(file, "config")
    if not hasattr(module, "get_config"):
        remedy = f"see {EXAMPLE}"
        raise InputError.at(file, "a function get_config", "none", remedy)
    return module


def read_config(path: str) -> dict[str, object]:
    """Reads the config at `path` into a dict; a preset may follow, as in `config.py:smoke`.

    Raises:
        InputError: `load_config` fails, the preset does not exist, or `get_config` fails.
    """
    get_config = load_config(path).get_config
    try:
        config = get_config(*path.split(":", 1)[1:])  # no argument if there is no preset
    except Exception as error:  # a user's file may raise anything
        reason = error if isinstance(error, ValueError) else f"get_config fails with {error!r}"
        raise InputError(f"{reason}.", where=spell("config", path)) from error
    # A ConfigDict, or a dict if ml_collections is not installed.
    values = config.to_dict() if hasattr(config, "to_dict") else config
    if not isinstance(values, Mapping):
        got = type(config).__name__
        raise InputError.at(spell("config", path), "a dict from get_config", got, f"see {EXAMPLE}")
    return dict(values)


def read_study(path: str | None, config: Mapping[str, object]) -> Study:
    """Returns the study of a config file: the settings, and the contexts of its `sweep`.

    Args:
        path: The file; without it or its function `sweep`, `Settings.grid` gives the contexts.
        config: Keys and their values, including overrides.

    Raises:
        InputError: `load_config` fails, or a cell of the sweep or a setting is invalid.
    """
    settings, module = Settings.of(**config), None if path is None else load_config(path)
    if (sweep := getattr(module, "sweep", None)) is None:
        return Study(settings, tuple(settings.grid()))
    from ml_collections import ConfigDict

    # `flat` adds defaults for keys that the config leaves out.
    cells = list(sweep(ConfigDict(settings.flat())))
    for cell in cells:
        if not isinstance(cell, Mapping) or "task" not in cell:
            expected = "dicts from sweep, as in configs/base.py"
            raise InputError.at(spell("config", path), expected, repr(cell))
    return Study(settings, tuple(settings.cell(**cell) for cell in cells))

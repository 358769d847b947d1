"""Reads a config file as a study: its settings, what is set in it, and the cells of its sweep."""

import ast
import difflib
import importlib.util
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType

from ml_collections import ConfigDict

from batch_calibration.cli.study_options import read_value, read_values
from batch_calibration.errors import InputError
from batch_calibration.settings import Settings, Study, combinations, gather, keys

EXAMPLE = "configs/mini.py"


@cache
def load(path: str) -> ModuleType:  # run once, though its config and its sweep are read apart
    """The config file as a module; what stands after a colon in `path` is a preset's name.

    Raises:
        InputError: no such Python file, one that cannot be run, or one without `get_config`.
    """
    file = Path(path.partition(":")[0])
    if not file.is_file() or file.suffix != ".py":
        raise InputError(
            where=f"--config={path}", expected="a Python file", got="none",
            remedy=f"the shipped ones are in configs/, such as --config={EXAMPLE}",
        )  # fmt: skip
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a person's own file may raise anything
        raise InputError(f"{file}: cannot be run ({error!r}); correct it.") from error
    if not hasattr(module, "get_config"):
        remedy = f"write it as in {EXAMPLE}"
        raise InputError(where=file, expected="a function get_config", got="none", remedy=remedy)
    return module


def read_config(path: str) -> ConfigDict:
    """The config that `path`, with or without a preset, names, before any override.

    Raises:
        InputError: what `load` raises, no such preset, or a `get_config` that fails.
    """
    get_config = load(path).get_config
    try:
        config = get_config(*path.split(":", 1)[1:])  # no preset, no argument
    except Exception as error:  # a person's own file may raise anything
        reason = error if isinstance(error, ValueError) else f"get_config fails with {error!r}"
        raise InputError(f"--config={path}: {reason}.") from error
    if not isinstance(config, ConfigDict):
        raise InputError(
            where=f"--config={path}", expected="a ConfigDict from get_config",
            got=type(config).__name__, remedy=f"write it as in {EXAMPLE}",
        )  # fmt: skip
    return config


def read_study(path: str, config: ConfigDict) -> Study:
    """The settings of a config, whose keys may be overridden, and the cells of its file's `sweep`.

    Raises:
        InputError: what `load` raises, no `sweep` or a wrong cell in it, a wrong setting.
    """
    module, where = load(path), f"--config={path}"
    if not hasattr(module, "sweep"):
        remedy = f"give one such as --config={EXAMPLE}"
        raise InputError(where=where, expected="a study with a function sweep", remedy=remedy)
    settings = Settings.of(**config.to_dict())
    # With defaults for keys that the config leaves out.
    cells = list(module.sweep(ConfigDict(settings.flat())))
    for cell in cells:
        if not isinstance(cell, Mapping) or "task" not in cell:
            raise InputError(
                where=where, expected="a dict with a task from sweep", got=repr(cell),
                remedy="write the sweep as in configs/base.py",
            )  # fmt: skip
    return Study(settings, tuple(settings.cell(**cell) for cell in cells))


def read_studies(
    path: str, config: ConfigDict, several: Mapping[str, Sequence[object]]
) -> list[Study]:
    """The study of a config for every combination of values of its keys; one for each model.

    Raises:
        InputError: as in `read_study`.
    """
    # A copy, as `override` changes configs in place.
    changed = (ConfigDict(config.to_dict() | chosen) for chosen in combinations(several))
    return gather(read_study(path, copy) for copy in changed)


def override(
    config: ConfigDict, texts: Mapping[str, str], *, grids: bool = False
) -> dict[str, Sequence[object]]:
    """Set keys of a config to what texts say; returns those that are given several values.

    Args:
        config: it is changed.
        texts: key -> what was written at the command line.
        grids: whether keys may have several values: `1,2,4`, or `("a","b")` where they may hold
            commas. The config has the first of them.

    Raises:
        InputError: a key that the config does not have, or a value that the key cannot have.
    """
    several = dict[str, Sequence[object]]()
    for name, text in texts.items():
        if name not in config:  # else a misspelt key would be set and never read
            raise InputError(f"the config has no key {name!r}; {suggest(name, list(config))}")
        # Keys of the settings know what they may hold; others, as of training, keep their type.
        if name in keys():
            choices = read_values(name, text) if grids else [read_value(name, text)]
            if len(choices) > 1:
                several[name] = choices
            config[name] = choices[0]
            continue
        setting: object = text
        with suppress(ValueError, SyntaxError):  # a text need not be quoted
            setting = ast.literal_eval(text)
        # "a,b" at the command line.
        if isinstance(config[name], tuple) and not isinstance(setting, tuple):
            setting = tuple(text.split(","))
        try:
            config[name] = setting
        except TypeError as error:
            kind = type(config[name]).__name__
            raise InputError(key=name, expected=kind, got=repr(text)) from error
    return several


def suggest(name: str, names: list[str]) -> str:
    """The nearest of some names, and all of them where they are few."""
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    is_short = 0 < len(names) <= 40  # more would fill the screen
    return hint + (f"There are: {', '.join(sorted(names))}." if is_short else "See --help.")

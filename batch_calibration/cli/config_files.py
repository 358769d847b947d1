"""Reads a config file as a study: its settings, what is set in it, and the cells of its sweep."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from batch_calibration.errors import InputError, spell
from batch_calibration.settings import Settings, Study

EXAMPLE = "configs/mini.py"


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

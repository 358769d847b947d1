"""Reads a config file as a study: its settings, and the cells of its sweep."""

import importlib.util
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

from ml_collections import ConfigDict

from batch_calibration.errors import InputError
from batch_calibration.settings import Settings, Study, combinations, gather


@cache
def load(path: str) -> ModuleType:
    """The config file as a module; what stands after a colon in `path` is a preset's name.

    Raises:
        InputError: no such Python file, one that cannot be run, or one without `get_config`.
    """
    file = Path(path.partition(":")[0])
    if not file.is_file() or file.suffix != ".py":
        raise InputError(
            where=f"--config={path}",
            expected="a Python file",
            got="none",
            remedy="the shipped ones are in configs/, such as --config=configs/mini.py",
        )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a person's own file may raise anything
        raise InputError(f"{file}: cannot be run ({error!r}); correct it.") from error
    if not hasattr(module, "get_config"):
        raise InputError(
            where=file,
            expected="a function get_config",
            got="none",
            remedy="write it as in configs/mini.py",
        )
    return module


def read_config(path: str) -> ConfigDict:
    """The config that `path`, with or without a preset, names, before any override.

    Raises:
        InputError: what `load` raises, no such preset, or a `get_config` that fails.
    """
    get_config = load(path).get_config
    try:
        config = get_config(*path.split(":", 1)[1:])
    except Exception as error:  # a person's own file may raise anything
        reason = error if isinstance(error, ValueError) else f"get_config fails with {error!r}"
        raise InputError(f"--config={path}: {reason}.") from error
    if not isinstance(config, ConfigDict):
        raise InputError(
            where=f"--config={path}",
            expected="a ConfigDict from get_config",
            got=f"{type(config).__name__}",
            remedy="write it as in configs/mini.py",
        )
    return config


def read_study(path: str, config: ConfigDict) -> Study:
    """The settings of a config, whose keys may be overridden, and the cells of its file's `sweep`.

    Raises:
        InputError: what `load` raises, no `sweep` or a wrong cell in it, a wrong setting.
    """
    module = load(path)
    if not hasattr(module, "sweep"):
        raise InputError(
            where=f"--config={path}",
            expected="a study with a function sweep",
            got="none",
            remedy="give one such as --config=configs/mini.py",
        )
    settings = Settings.of(**config.to_dict())
    cells = list(module.sweep(ConfigDict(settings.flat())))
    for cell in cells:
        if not isinstance(cell, Mapping) or "task" not in cell:
            raise InputError(
                where=f"--config={path}",
                expected="a dict with a task from sweep",
                got=f"{cell!r}",
                remedy="write the sweep as in configs/base.py",
            )
    return Study(settings, tuple(settings.cell(**cell) for cell in cells))


def read_studies(
    path: str, config: ConfigDict, values: Mapping[str, Sequence[object]]
) -> list[Study]:
    """The study of a config for every combination of values of its keys; one for each model.

    Raises:
        InputError: as in `read_study`.
    """
    changed = (ConfigDict(config.to_dict() | one) for one in combinations(values))
    return gather(read_study(path, one) for one in changed)

"""A config file as a study: its config and its sweep, read from the path a person typed."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

from batch_calibration.errors import InputError

NEEDS = {"dual_encoder": ("scale", "max_tokens")}
"""Keys that a scorer reads beside the usual ones."""
SAMPLE = Path(__file__).resolve().parents[1] / "configs" / "mini.py"


@cache
def load(path: str) -> ModuleType:
    """The config file as a module; what stands after a colon in `path` is a preset's name.

    Raises:
        InputError: no such Python file, one that cannot be run, or one without `get_config`.
    """
    file = Path(path.partition(":")[0])
    if not file.is_file() or file.suffix != ".py":
        raise InputError(
            f"--config={path}: expected a Python file, found none; the shipped ones are in "
            "configs/, such as --config=configs/mini.py."
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
            f"{file}: expected a function get_config, found none; write it as in configs/mini.py."
        )
    return module


def settings(path: str) -> ConfigDict:
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
            f"--config={path}: expected a ConfigDict from get_config, got "
            f"{type(config).__name__}; write it as in configs/mini.py."
        )
    return config


def cells(path: str, config: ConfigDict) -> list[dict[str, Any]]:
    """The cells of the file's own `sweep`, each joined with the config.

    Raises:
        InputError: what `load` raises, no `sweep` or one that yields nothing, or missing keys.
    """
    module = load(path)
    if not hasattr(module, "sweep"):
        raise InputError(
            f"--config={path}: expected a study with a function sweep, found none; "
            "give one such as --config=configs/mini.py."
        )
    usual = {*settings(str(SAMPLE)).keys(), *NEEDS.get(config.get("scorer"), ())}
    if lacking := sorted(usual - set(config.keys())):
        raise InputError(
            f"--config={path}: the config has no {', '.join(lacking)}; add what is missing, as in "
            "configs/mini.py, or for a dual_encoder in configs/zero_shot_text.py."
        )
    found = [{**config.to_dict(), **cell} for cell in module.sweep(config)]
    if not found:
        raise InputError(
            f"--config={path}: the sweep has no context; give at least one task in config.tasks "
            "and config.seeds of 1 or more."
        )
    if not all({"task", "seed"} <= cell.keys() for cell in found):
        raise InputError(
            f"--config={path}: expected task and seed in each dict of the sweep; add them."
        )
    return found

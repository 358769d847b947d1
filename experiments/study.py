"""A config file as a study: its config and its sweep, read from the path a person typed."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict


def load(path: str) -> ModuleType:
    """The config file as a module; what stands after a colon in `path` is a preset's name."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path.split(":")[0])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keys(path: str) -> list[str]:
    """The keys of the config that `path`, with or without a preset, names."""
    return list(load(path).get_config(path.partition(":")[2]).keys())


def cells(path: str, config: ConfigDict) -> list[dict[str, Any]]:
    """The cells of the file's own `sweep`, each joined with the config."""
    return [{**config.to_dict(), **cell} for cell in load(path).sweep(config)]

"""Grids: a study for each combination of several values of its keys."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.settings.sections import Cell, Settings, keys

ONE_VALUE = {"batch_size", "mesh"}
"""Keys of the model that decide no number; commas of a mesh are its own."""


class Study(NamedTuple):
    """Contexts that one model is asked about.

    Attributes:
        settings: what all contexts share, and the model.
        cells: the contexts.
    """

    settings: Settings
    cells: tuple[Cell, ...]


def grid(settings: Settings, **values: Sequence[object]) -> list[Study]:
    """The usual sweep of the settings for every combination of values; a study for each model.

    Args:
        settings: of the keys that are not varied.
        **values: several values each of keys of the data, the prompt and the model.

    Raises:
        InputError: a key that a sweep has one value of; a value that the key cannot have.

    >>> settings = Settings.of(tasks=("sst2", "rte"), model="mini")
    >>> [len(study.cells) for study in grid(settings, shots=(1, 2, 4), template=("", "1"))]
    [12]
    """
    changed = (settings.replace(**one) for one in combinations(values))
    return gather(Study(one, tuple(one.grid())) for one in changed)


def combinations(values: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    """One value of each key; the last key varies fastest.

    Raises:
        InputError: a key that a sweep has one value of, or no values.
    """
    for name, several in values.items():
        if name not in varied():
            raise InputError.unknown("key that may have several values", name, varied())
        if isinstance(several, str) or not several:
            raise InputError(
                where=name, expected="several values such as (1, 2)", got=f"{several!r}"
            )
    for chosen in product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


def varied() -> list[str]:
    """The keys that may have several values: those that decide scores."""
    return [
        name
        for name, key in keys().items()
        if key.part in ("data", "prompt", "model") and name not in ONE_VALUE
    ]


def gather(studies: Iterable[Study]) -> list[Study]:
    """Studies of one model as one, each context once, in the order they come."""
    found: dict[object, Study] = {}
    for settings, cells in studies:
        model = (settings.model, settings.api)
        known = found.get(model, Study(settings, ()))
        found[model] = Study(known.settings, tuple(dict.fromkeys(known.cells + cells)))
    return list(found.values())

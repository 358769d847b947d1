"""Grids: a study for each combination of several values of its keys."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.settings.study_settings import Cell, Settings, keys

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


def grid(settings: Settings, **choices: Sequence[object]) -> list[Study]:
    """The usual sweep of the settings for every combination of choices; a study for each model.

    Args:
        settings: of the keys that are not varied.
        **choices: several values each of keys of the data, the prompt and the model.

    Raises:
        InputError: a key that a sweep has one value of; a value that the key cannot have.

    >>> settings = Settings.of(tasks=("sst2", "rte"), model="mini")
    >>> [len(study.cells) for study in grid(settings, shots=(1, 2, 4), template=("", "1"))]
    [12]
    """
    changed = [settings.replace(**combination) for combination in combinations(choices)]
    return gather(Study(variant, tuple(variant.grid())) for variant in changed)


def combinations(choices: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    """One choice of each key; the last key varies fastest.

    Raises:
        InputError: a key that a sweep has one value of, or no values.
    """
    for name, several in choices.items():
        if name not in varied():
            raise InputError.unknown("key that may have several values", name, varied())
        # A text is a sequence too, of letters.
        if isinstance(several, str) or not several:
            expected = "several values such as (1, 2)"
            raise InputError(where=name, expected=expected, got=repr(several))
    for combination in product(*choices.values()):
        yield dict(zip(choices, combination, strict=True))


def varied() -> list[str]:
    """The keys that may have several values: those that decide scores."""
    scored = [name for name, key in keys().items() if key.part in ("data", "prompt", "model")]
    return [name for name in scored if name not in ONE_VALUE]


def gather(studies: Iterable[Study]) -> list[Study]:
    """Studies of one model as one, each context once, in the order they come."""
    by_model: dict[object, Study] = {}
    for settings, cells in studies:
        model = (settings.model, settings.api)  # what decides the answers
        earlier = by_model.get(model, Study(settings, ()))
        # A dict keeps the order of first sight, as a set would not.
        by_model[model] = Study(earlier.settings, tuple(dict.fromkeys(earlier.cells + cells)))
    return list(by_model.values())

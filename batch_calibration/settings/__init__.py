"""Typed settings of a study: all keys by name, checked, and the grids of contexts over them."""

from __future__ import annotations

import dataclasses
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any, NamedTuple, Self

from batch_calibration.errors import InputError
from batch_calibration.settings.key import Key, Value, read_help
from batch_calibration.settings.sections import (
    ApiScores,
    ApiSettings,
    CalibrationSettings,
    DataSettings,
    LengthPolicy,
    ModelSettings,
    PromptSettings,
    ScorerKind,
)

__all__ = [
    "PARTS", "ApiScores", "ApiSettings", "CalibrationSettings", "Cell", "DataSettings",
    "LengthPolicy", "ModelSettings", "PromptSettings", "ScorerKind", "Settings", "Study",
    "combinations", "gather", "grid", "keys", "varied",
]  # fmt: skip

PARTS = {
    "data": DataSettings, "prompt": PromptSettings, "model": ModelSettings, "api": ApiSettings,
    "calibration": CalibrationSettings,
}  # fmt: skip
ONE_VALUE = {"batch_size", "mesh"}
"""Keys of the model that decide no number; commas of a mesh are its own."""


@dataclass(frozen=True)
class Settings:
    """Settings of a study: tasks, seeds, and parts, whose keys `of` and the flags take flat.

    Attributes:
        tasks: names of tasks, or paths of task files.
        seeds: how many draws of demonstrations, seeds 0 to `seeds` - 1.
        data: which rows.
        prompt: how rows become prompts.
        model: which model.
        api: how a server is asked, where one is.
        calibration: what is done with the scores.

    >>> Settings.of(tasks="sst2", shots=4).prompt.shots
    4
    """

    tasks: tuple[str, ...] = ()
    seeds: int = 1
    data: DataSettings = field(default_factory=DataSettings)
    prompt: PromptSettings = field(default_factory=PromptSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    api: ApiSettings = field(default_factory=ApiSettings)
    calibration: CalibrationSettings = field(default_factory=CalibrationSettings)

    @classmethod
    def of(cls, **chosen: object) -> Self:
        """Settings with these keys and the defaults of all others.

        Raises:
            InputError: an unknown key, a value of another type or out of range.
        """
        return cls().replace(**chosen)

    def replace(self, **chosen: object) -> Self:
        """The same settings with some keys changed; errors as in `of`."""
        changed: dict[str, Any] = {}
        by_part: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, setting in chosen.items():
            if name not in keys():
                raise InputError.unknown("setting", name, keys())
            key = keys()[name]
            (by_part[key.part] if key.part else changed)[name] = key.check(setting)
        for part_name, changes in by_part.items():  # each part is replaced once
            changed[part_name] = dataclasses.replace(getattr(self, part_name), **changes)
        return dataclasses.replace(self, **changed)

    def flat(self) -> dict[str, Value]:
        """Every key and its value."""
        flat = {}
        for name, key in keys().items():
            flat[name] = getattr(getattr(self, key.part) if key.part else self, name)
        return flat

    def cell(self, task: str, seed: int = 0, **chosen: object) -> Cell:
        """One context of a study: a task, a seed, and what else differs from these settings.

        Raises:
            InputError: as in `of`; a key of the model, which all cells of a study share.

        >>> Settings.of(data="mini").cell("sst2", seed=1, shots=2).prompt.shots
        2
        """
        for name in chosen:
            if name in keys() and keys()[name].part not in ("data", "prompt"):
                raise InputError(
                    f"a cell of the sweep sets {name}, which all cells of a study share: set it in "
                    "the study's settings, or score two studies."
                )
        if not isinstance(task, str) or not task:
            expected = "a task's name or a task file's path"
            raise InputError(where="task", expected=expected, got=repr(task))
        if type(seed) is not int or seed < 0:  # True is no seed
            raise InputError(where="seed", expected="a whole number from 0 on", got=repr(seed))
        settings = self.replace(**chosen) if chosen else self
        return Cell(task, seed, settings.data, settings.prompt)

    def grid(self) -> Iterator[Cell]:
        """The usual sweep: each task with each seed, one seed where nothing is drawn."""
        # Of zero-shot prompts every seed would score the same test rows again.
        is_drawn = self.prompt.shots or self.prompt.label_words != "own"
        for task in self.tasks:
            for seed in range(self.seeds if is_drawn else 1):
                yield self.cell(task, seed)


@dataclass(frozen=True)
class Cell:
    """One context of a sweep, before it is rendered.

    Attributes:
        task: a task's name, or the path of a task file.
        seed: decides the demonstrations, drawn label words, the labeled set and dc's texts.
        data: which rows.
        prompt: how rows become prompts.
    """

    task: str
    seed: int = 0
    data: DataSettings = field(default_factory=DataSettings)
    prompt: PromptSettings = field(default_factory=PromptSettings)

    def unfitted(self) -> Cell:
        """The same context, its prompts left as long as they are."""
        return dataclasses.replace(self, prompt=dataclasses.replace(self.prompt, over_long="error"))


@cache
def keys() -> Mapping[str, Key]:
    """Every setting by name, tasks and seeds first: all that a program needs for its flags."""
    by_name, defaults = dict[str, Key](), Settings()
    for part_name, owner in {"": Settings, **PARTS}.items():
        holder = getattr(defaults, part_name) if part_name else defaults
        # Evaluated: in this module annotations are texts.
        types, help_texts = typing.get_type_hints(owner), read_help(owner)
        for setting in dataclasses.fields(owner):
            name, default = setting.name, getattr(holder, setting.name)
            if part_name or name not in PARTS:  # not the parts themselves
                key = Key(name, part_name, types[name], default, help_texts[name])
                by_name[name] = key._replace(**setting.metadata)
    return by_name


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
    """The keys that may have several values: keys that decide scores."""
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

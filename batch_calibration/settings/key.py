"""What a setting may be: its kind, its choices and its least value, checked in one place."""

import typing
from pathlib import Path
from typing import Literal, NamedTuple

from batch_calibration.errors import InputError

Value = str | int | float | bool | tuple[str, ...] | tuple[str | int, ...] | tuple[int, ...]
"""What a setting may be."""


class Key(NamedTuple):
    """What a key may be: the part it belongs to ("" for the whole), its type, its least value."""

    name: str
    part: str
    kind: object
    least: int | None = None
    unit: str = ""

    def check(self, value: object) -> Value:
        """The value in its own kind; what can mean one thing alone is accepted.

        One word stands for a tuple of one, words with commas for a tuple of them, a list for a
        tuple, a whole number for a real one.

        Raises:
            InputError: another kind, an unknown choice, a number below the least.
        """
        if typing.get_origin(self.kind) is Literal:
            choices = typing.get_args(self.kind)
            if value not in choices:
                raise InputError.unknown(f"config.{self.name}", value, choices)
            return str(value)
        if typing.get_origin(self.kind) is tuple:
            return self._tuple(value)
        if self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.kind:
            raise InputError(
                where=f"config.{self.name}", expected=f"{_WORDS[self.kind]}", got=f"{value!r}"
            )
        if self.least is not None and not typing.cast(float, value) >= self.least:
            raise InputError(
                where=f"config.{self.name}", expected=f"{self.least} or more {self.unit}", got=value
            )
        return typing.cast(Value, value)

    def check_one(self, value: object) -> str:
        """One member of a tuple of texts."""
        if not isinstance(value, str) or not value:
            raise InputError(
                where="task", expected="a task's name or a task file's path", got=f"{value!r}"
            )
        return value

    def _tuple(self, value: object) -> tuple[str | int, ...]:
        member = typing.get_args(self.kind)[0]
        kinds = typing.get_args(member) or (member,)
        given = [value] if isinstance(value, str) else value
        if kinds == (int,):
            return self._numbers(value)
        if not isinstance(given, list | tuple) or not all(type(one) in kinds for one in given):
            raise InputError(
                where=f"config.{self.name}",
                expected=f'names such as {self.name}=\'("a","b")\'',
                got=f"{value!r}",
            )
        found: list[str | int] = []
        for one in given:
            # A task file's path may hold a comma.
            if isinstance(one, str) and "," in one and not Path(one).exists():
                words = one.strip("()[]").split(",")
                found += [word.strip(" '\"") for word in words if word.strip(" '\"")]
            else:
                found.append(one)
        return tuple(found)

    def _numbers(self, value: object) -> tuple[int, ...]:
        """Whole numbers from 1 on; at the command line they may come as words."""
        given = value if isinstance(value, list | tuple) else [value]
        words = [word for one in given for word in str(one).strip("()[]").split(",") if word]
        if not all(word.strip().isdigit() and int(word) > 0 for word in words):
            raise InputError(
                where=f"config.{self.name}",
                expected="whole numbers from 1 on, such as 2,5,10",
                got=f"{value!r}",
            )
        return tuple(int(word) for word in words)


_WORDS: dict[object, str] = {int: "a whole number", float: "a number", bool: "True or False",
                             str: "a text"}  # fmt: skip


def whole(name: str, value: object) -> int:
    """A whole number from 0 on, or a sentence."""
    if type(value) is not int or value < 0:
        raise InputError(where=name, expected="a whole number from 0 on", got=f"{value!r}")
    return value

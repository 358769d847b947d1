"""One setting: its type, default, choices and least number, and the check of its values."""

import inspect
import re
import typing
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from batch_calibration.errors import InputError, spell

Value = str | int | float | bool | tuple[str, ...] | tuple[str | int, ...] | tuple[int, ...]
"""Types of settings."""
TYPE_NAMES: dict[object, str] = {
    int: "a whole number", float: "a number", bool: "True or False", str: "a text",
}  # fmt: skip
ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.M)
"""An entry of a docstring's section of attributes, with the lines that continue it."""


class Key(NamedTuple):
    """One setting, as a program needs it to make a flag and to check what is given.

    Attributes:
        name: as in `Settings.of`, and in a config.
        part: the part of `Settings` that it belongs to; "" for tasks and seeds.
        kind: its type: plain, a `Literal` of texts, or a tuple.
        default: its value where none is given.
        help: its description in the docstring of its part.
        minimum: the least number that it may be; None where any will do.
        unit: what that number counts.
    """

    name: str
    part: str
    kind: object
    default: Value
    help: str
    minimum: int | None = None
    unit: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts that it may be; () where it is free."""
        return typing.get_args(self.kind) if typing.get_origin(self.kind) is Literal else ()

    @property
    def is_tuple(self) -> bool:
        """True where it may have several members, with commas between them at the command line."""
        return typing.get_origin(self.kind) is tuple

    def parse(self, text: str) -> Value:
        """The value of a text at the command line; errors as in `check`.

        >>> Key("shots", "prompt", int, 1, "").parse("4")
        4
        """
        if self.is_tuple and not text:
            remedy = "leave it out for the default"
            raise InputError(key=self.name, expected="a value", got="nothing", remedy=remedy)
        setting: object = text
        if self.kind is int or self.kind is float:
            with suppress(ValueError):  # `check` says what is wrong with it
                setting = int(text) if self.kind is int else float(text)
        elif self.kind is bool:
            # Any other text is refused by `check`.
            setting = {"True": True, "False": False}.get(text, text)
        return self.check(setting)

    def check(self, setting: object) -> Value:
        """The setting in its own type.

        What can mean one thing alone is accepted: one word for a tuple of one, words with commas or
        a list for a tuple, a whole number for a real one.

        Raises:
            InputError: another type, an unknown choice, a number below the least.
        """
        if self.choices:
            if setting not in self.choices:
                kind = spell(self.name).rstrip("=")
                raise InputError.unknown(kind, setting, self.choices, key=self.name)
            return str(setting)
        if self.is_tuple:
            return self._check_tuple(setting)
        if self.kind is float and type(setting) is int:  # True has another type
            setting = float(setting)
        # Not isinstance: True would pass for the number 1.
        if type(setting) is not self.kind:
            raise InputError(key=self.name, expected=TYPE_NAMES[self.kind], got=repr(setting))
        # Not `<`: NaN is below no number.
        if self.minimum is not None and not typing.cast(float, setting) >= self.minimum:
            raise InputError(
                key=self.name, expected=f"{self.minimum} or more {self.unit}", got=setting
            )
        return typing.cast(Value, setting)

    def _check_tuple(self, setting: Any) -> tuple[str | int, ...]:
        member_type = typing.get_args(self.kind)[0]
        # Of a union, each of its types.
        member_types = typing.get_args(member_type) or (member_type,)
        if member_types == (int,):
            return _read_counts(setting, self.name)
        members = [setting] if isinstance(setting, str) else setting
        is_list = isinstance(members, list | tuple)
        if not is_list or not all(type(member) in member_types for member in members):
            example = f'{self.name}=\'("a","b")\''
            raise InputError(key=self.name, expected=f"names such as {example}", got=repr(setting))
        names: list[str | int] = []
        for member in members:
            # A task file's path may hold a comma.
            if isinstance(member, str) and "," in member and not Path(member).exists():
                # Python's quotes and brackets are let through
                stripped = (name.strip(" '\"") for name in member.strip("()[]").split(","))
                names += filter(None, stripped)
            else:
                names.append(member)
        return tuple(names)


def _read_counts(setting: object, key: str) -> tuple[int, ...]:
    """Whole numbers from 1 on; at the command line they may come as a text with commas."""
    members = setting if isinstance(setting, list | tuple) else [setting]
    digits: list[str] = []
    for member in members:
        digits += filter(None, str(member).strip("()[]").split(","))
    if not all(number.strip().isdigit() and int(number) > 0 for number in digits):
        expected = "whole numbers from 1 on, such as 2,5,10"
        raise InputError(key=key, expected=expected, got=repr(setting))
    return tuple(map(int, digits))


def read_help(owner: type) -> dict[str, str]:
    """Attribute -> its description in the docstring of a class, in one line."""
    entries = ATTRIBUTE.findall(inspect.getdoc(owner) or "")
    return {name: " ".join(text.split()) for name, text in entries}

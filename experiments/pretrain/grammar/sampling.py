"""Seeded sampling of the suite: labels from their probabilities, word pairs held out for test."""

import random
import zlib
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple


class Example(NamedTuple):
    """A text and the distribution its label is drawn from: the best accuracy to expect is known.

    Attributes:
        row: The text of each field.
        probabilities: Of each label.
        pairs: The word pairs in it, each held out for test or not.
        grade: How hard it is, 1 to 3.
    """

    row: dict[str, str]
    probabilities: tuple[float, ...]
    pairs: tuple[tuple[str, str], ...]
    grade: int


@cache
def _held_out(term: str, options: tuple[str, ...], share: int) -> tuple[str, ...]:
    # Not Python's hash, which differs from run to run.
    ranked = sorted(options, key=lambda option: zlib.crc32(f"{term}|{option}".encode()))
    return tuple(ranked[: len(options) // share])


def allowed(term: str, options: Sequence[str], test: bool, share: int = 2) -> tuple[str, ...]:
    """The `options` whose pair with `term` is allowed in a split: one in `share` is held out.

    Held-out pairs are in the test rows. Which they are is decided by a hash that no run
    changes, how many is the same for every word. So a word tells no more about the label in one
    split than in the other: nothing that is learned in training from which words are paired can be
    wrong in the test rows.
    """
    held_out = _held_out(term, tuple(options), share)
    return held_out if test else tuple(option for option in options if option not in held_out)


def categorical(probabilities: Sequence[float], rng: random.Random) -> int:
    """An index, drawn with these probabilities."""
    return rng.choices(range(len(probabilities)), probabilities)[0]

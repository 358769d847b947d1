"""Draws that every split shares: seeded choice, and which words meet in which split."""

import random
import zlib
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple


class Example(NamedTuple):
    """A text and the distribution its label is drawn from, so the best accuracy is known."""

    row: dict[str, str]
    chances: tuple[float, ...]
    pairs: tuple[tuple[str, str], ...]
    grade: int


@cache
def _held_out(word: str, options: tuple[str, ...], share: int) -> tuple[str, ...]:
    ranked = sorted(options, key=lambda option: zlib.crc32(f"{word}|{option}".encode()))
    return tuple(ranked[: len(options) // share])


def partners(word: str, options: Sequence[str], test: bool, share: int = 2) -> tuple[str, ...]:
    """The `options` that may stand with `word` in a split: one in `share` of them in test.

    Which they are is decided by a hash that no run changes, how many is the same for every word.
    So a word tells no more about the label in one split than in the other: nothing that is learned
    in training from which words meet can be wrong in the test rows.
    """
    out = _held_out(word, tuple(options), share)
    return out if test else tuple(option for option in options if option not in out)


def draw(chances: Sequence[float], rng: random.Random) -> int:
    """An index with these chances."""
    return rng.choices(range(len(chances)), chances)[0]

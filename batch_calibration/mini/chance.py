"""Draws that every split shares: seeded choice, and which word pairs are held out for testing."""

import random
import zlib
from typing import NamedTuple


class Example(NamedTuple):
    """A text and the distribution its label is drawn from, so the best accuracy is known."""

    row: dict[str, str]
    chances: tuple[float, ...]
    pairs: tuple[tuple[str, str], ...]
    grade: int


def held_out(pair: tuple[str, str]) -> bool:
    """One pair in four belongs to the test split, by a hash that no run changes."""
    return zlib.crc32("|".join(pair).encode()) % 4 == 0


def belongs(example: Example, test: bool) -> bool:
    """A test row has held-out pairs only; a training row has none."""
    return all(held_out(pair) == test for pair in example.pairs)


def draw(chances: tuple[float, ...], rng: random.Random) -> int:
    """An index with these chances."""
    return rng.choices(range(len(chances)), chances)[0]

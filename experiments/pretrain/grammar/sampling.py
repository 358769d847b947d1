"""Samples labels from their probabilities, and holds out word pairs for the test split."""

import random
import zlib
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple


class Example(NamedTuple):
    """A text and the distribution of its label, which gives the Bayes-optimal accuracy.

    Attributes:
        row: Field -> text.
        probabilities: Probability of each label.
        pairs: The word pairs of the text; a split allows a pair or holds it out.
        grade: Difficulty from 1 to 3.
    """

    row: dict[str, str]
    probabilities: tuple[float, ...]
    pairs: tuple[tuple[str, str], ...]
    grade: int


@cache
def _held_out(term: str, options: tuple[str, ...], share: int) -> tuple[str, ...]:
    # Python's own hash of a string differs from run to run.
    ranked = sorted(options, key=lambda option: zlib.crc32(f"{term}|{option}".encode()))
    return tuple(ranked[: len(options) // share])


def allowed(term: str, options: Sequence[str], test: bool, share: int = 2) -> tuple[str, ...]:
    """Selects the `options` that a split allows together with `term`.

    One option in `share` is held out for the test rows; training has the others. A fixed hash of
    the pair selects them. Every term has the same number of held-out options, so a single word is
    equally informative about the label in both splits.
    """
    held_out = _held_out(term, tuple(options), share)
    return held_out if test else tuple(option for option in options if option not in held_out)


def categorical(probabilities: Sequence[float], rng: random.Random) -> int:
    """Draws an index with these probabilities (or weights)."""
    return rng.choices(range(len(probabilities)), probabilities)[0]

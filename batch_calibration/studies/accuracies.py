"""What a record holds beside metrics: accuracy along an axis, and which rows a method has right."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

CURVE_POINTS = 101
"""Strengths of a curve: -5 to 5 in steps of 0.1, as `calibration.learned_shift` has them."""


@dataclass(frozen=True)
class Curve:
    """Accuracy at each of the 101 strengths, on the labeled set and on the test rows."""

    labeled: tuple[float, ...]
    test: tuple[float, ...]


@dataclass(frozen=True)
class ProbeSizes:
    """Accuracy on all test rows when a method learns from so many of them.

    Attributes:
        sizes: rows a method learned from.
        accuracy: method -> for each size, a value per draw of rows.
    """

    sizes: tuple[int, ...]
    accuracy: Mapping[str, tuple[tuple[float, ...], ...]]


@dataclass(frozen=True)
class OverStream:
    """Accuracy of the test rows as they come in random orders, each corrected when it comes.

    Attributes:
        rows: rows seen, ascending.
        accuracy: method -> for each of these numbers, a value per order: the share that is right
            among the rows that came after the number before it, up to this one.
    """

    rows: tuple[int, ...]
    accuracy: Mapping[str, tuple[tuple[float, ...], ...]]


def pack(is_right: np.ndarray) -> str:
    """Whether each row is right, [n] -> base64 of its bits: six rows a letter.

    >>> pack(np.array([True, False, True]))
    'oA=='
    """
    return base64.b64encode(np.packbits(is_right).tobytes()).decode()


def unpack(text: str, rows: int) -> np.ndarray:
    """What `pack` was given, as [rows] of bool.

    >>> unpack("oA==", 3).tolist()
    [True, False, True]
    """
    # The last byte is filled up with zeros: `count` leaves them out.
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=rows).astype(bool)


def is_packed(text: str, rows: int) -> bool:
    """Whether the text is that of so many rows.

    >>> is_packed("oA==", 3), is_packed("oA==", 9), is_packed("?", 3)
    (True, False, False)
    """
    try:
        return len(base64.b64decode(text, validate=True)) == -(-rows // 8)  # bytes, rounded up
    except ValueError:
        return False

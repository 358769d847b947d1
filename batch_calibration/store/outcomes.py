"""Which rows a method answers rightly, as text that a record holds: six rows a letter."""

import base64

import numpy as np


def pack(right: np.ndarray) -> str:
    """Whether each row is right, [n] -> base64 of its bits.

    >>> pack(np.array([True, False, True]))
    'oA=='
    """
    return base64.b64encode(np.packbits(right).tobytes()).decode()


def unpack(text: str, rows: int) -> np.ndarray:
    """What `pack` was given, as [rows] of bool.

    >>> unpack("oA==", 3).tolist()
    [True, False, True]
    """
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=rows).astype(bool)


def fits(text: str, rows: int) -> bool:
    """Whether the text is that of so many rows.

    >>> fits("oA==", 3), fits("oA==", 9), fits("?", 3)
    (True, False, False)
    """
    try:
        return len(base64.b64decode(text, validate=True)) == -(-rows // 8)
    except ValueError:
        return False

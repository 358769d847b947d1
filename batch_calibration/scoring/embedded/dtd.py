"""Draws twelve of DTD's textures: an amount of ink, 0 to 1, that blends two colors."""

import numpy as np

from batch_calibration.scoring.embedded.drawing import (
    COLORS,
    PALETTE,
    DrawClass,
    Generator,
    X,
    Y,
    blend,
    by_class,
    per_image,
    random_angle,
    rotated,
    smooth_noise,
    uniform,
)


def stripe_angles(
    n: int, random: Generator, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """Angles across and along stripes of `low` to `high` pixels, `[n 48 48]` in radians."""
    along, across = rotated(random_angle(random, n))
    turn = per_image(2 * np.pi / uniform(random, low, high, n))  # radians a pixel
    return along * turn + per_image(uniform(random, 0, 6, n)), across * turn


def soft_threshold(wave: np.ndarray, width: float = 0.0) -> np.ndarray:
    """Ink where a wave is above `width`, with a soft edge."""
    return np.clip((wave - width) * 4 + 0.5, 0, 1)  # the edge is a quarter of a unit wide


def banded(n: int, random: Generator) -> np.ndarray:
    """Broad, soft bands of changing width."""
    along, _ = stripe_angles(n, random, 18, 30)
    return 0.5 + 0.5 * np.sin(along + 0.8 * np.sin(0.6 * along))


def striped(n: int, random: Generator) -> np.ndarray:
    """Sharp stripes."""
    return soft_threshold(np.sin(stripe_angles(n, random, 7, 14)[0]))


def lined(n: int, random: Generator) -> np.ndarray:
    """Thin lines."""
    return soft_threshold(np.sin(stripe_angles(n, random, 5, 9)[0]), 0.75)


def zigzagged(n: int, random: Generator) -> np.ndarray:
    """Stripes that turn back and forth."""
    along, across = stripe_angles(n, random, 8, 14)
    # The arcsine of a sine is a triangle wave.
    return soft_threshold(np.sin(along + 2.2 * np.arcsin(np.sin(0.6 * across))))


def chequered(n: int, random: Generator) -> np.ndarray:
    """Squares in turns."""
    along, across = stripe_angles(n, random, 11, 22)
    return soft_threshold(np.sin(along) * np.sin(across) * 2)


def grid_texture(n: int, random: Generator) -> np.ndarray:
    """Lines along and across."""
    along, across = stripe_angles(n, random, 7, 13)
    return soft_threshold(np.maximum(np.sin(along), np.sin(across)), 0.8)


def crosshatched(n: int, random: Generator) -> np.ndarray:
    """Fine lines that cross at a slant."""
    along, across = stripe_angles(n, random, 5, 8)
    lines, crossing = np.sin(along + 0.5 * across), np.sin(along - 0.5 * across)
    return soft_threshold(np.maximum(lines, crossing), 0.7)


def polka_dotted(n: int, random: Generator) -> np.ndarray:
    """Large dots in order."""
    along, across = stripe_angles(n, random, 10, 18)
    return soft_threshold(np.cos(along) + np.cos(across), 0.75)


def dotted(n: int, random: Generator) -> np.ndarray:
    """Small dots, not quite in order."""
    along, across = stripe_angles(n, random, 5.5, 8)
    dots = np.cos(along + 1.2 * smooth_noise(random, n, 6))
    return soft_threshold(dots + np.cos(across + 1.2 * smooth_noise(random, n, 6)), 1)


def blotchy(n: int, random: Generator) -> np.ndarray:
    """Spots of any form."""
    return soft_threshold(smooth_noise(random, n, 7) * 2, 0.1)


def marbled(n: int, random: Generator) -> np.ndarray:
    """Veins that waver."""
    along, _ = stripe_angles(n, random, 14, 26)
    # Noise bends the stripes into veins.
    bent = along + 3 * smooth_noise(random, n, 5) + smooth_noise(random, n, 10)
    amount: np.ndarray = 1 - np.abs(np.sin(bent)) ** 0.6
    return amount


def spiralled(n: int, random: Generator) -> np.ndarray:
    """One spiral about the middle."""
    x, y = X - per_image(uniform(random, -5, 5, n)), Y - per_image(uniform(random, -5, 5, n))
    # Turns left or right.
    hand = per_image(np.where(random.random(n) < 0.5, 1, -1).astype(np.float32))
    turn = per_image(2 * np.pi / uniform(random, 7, 13, n))
    return soft_threshold(np.sin(np.hypot(x, y) * turn + hand * np.arctan2(y, x)))


TEXTURES: dict[str, DrawClass] = {
    "banded": banded, "blotchy": blotchy, "chequered": chequered, "crosshatched": crosshatched,
    "dotted": dotted, "grid": grid_texture, "lined": lined, "marbled": marbled,
    "polka-dotted": polka_dotted, "spiralled": spiralled, "striped": striped,
    "zigzagged": zigzagged,
}  # fmt: skip


def textures(classes: np.ndarray, random: Generator) -> tuple[np.ndarray, np.ndarray]:
    """A texture in two colors."""
    n = len(classes)
    # Two colors that differ: the second is 1 to 7 places behind the first.
    first = random.integers(len(COLORS), size=n)
    second = (first + random.integers(1, len(COLORS), size=n)) % len(COLORS)
    amount = by_class(TEXTURES, classes, random) * uniform(random, 0.1, 1, n, 1, 1)
    shade = uniform(random, 0.5, 1.2, 2, n, 1)
    images = blend(amount, PALETTE[first] * shade[0], PALETTE[second] * shade[1])
    return images + 0.06 * smooth_noise(random, n, 5)[..., None], np.stack([first, second], 1)

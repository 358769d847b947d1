"""Draws house numbers in the classes of SVHN, from strokes."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from batch_calibration.scoring.embedded import drawing


def _ellipse(x: float, y: float, a: float, b: float) -> np.ndarray:
    return np.array([(x + a * np.sin(t), y - b * np.cos(t)) for t in np.linspace(0, 2 * np.pi, 17)])


def _line(hundredths: str) -> np.ndarray:
    return np.array(hundredths.replace(",", " ").split(), float).reshape(-1, 2) / 100


SIX = _line("75,3 40,15 18,55 20,85 50,100 80,85 80,60 50,48 20,64")
THREE = _line("15,10 50,0 80,15 75,40 42,48 80,60 83,85 50,100 14,90")
STROKES: tuple[Sequence[np.ndarray], ...] = (
    [_ellipse(0.5, 0.5, 0.36, 0.5)],
    [_line("28,22 55,0 55,100")],
    [_line("15,25 30,4 60,0 83,15 80,38 15,100 87,100")],
    [THREE],
    [_line("66,100 66,0 8,68 92,68")],
    [_line("82,0 25,0 20,45 55,40 84,60 80,88 50,100 14,90")],
    [SIX],
    [_line("10,0 88,0 40,100")],
    [_ellipse(0.5, 0.25, 0.28, 0.25), _ellipse(0.5, 0.75, 0.36, 0.25)],
    [1 - SIX],
)
"""Each digit as lines through points of the unit square, y downward."""
TALL, WIDE, MARGIN = 64, 48, 16  # of a glyph's field, in its own pixels


@cache
def stroke_distances() -> np.ndarray:
    """Distance to the nearest stroke, in glyph heights `[10 96 80]`, a margin around each digit."""
    rows, columns = TALL + 2 * MARGIN, WIDE + 2 * MARGIN
    y, x = np.mgrid[0:rows, 0:columns].astype(np.float32)
    points = np.stack([(x - MARGIN) / TALL, (y - MARGIN) / TALL], -1)
    field = np.full((10, rows, columns), 9, np.float32)
    for digit, lines in enumerate(STROKES):
        for line in lines:
            ends = line.astype(np.float32) * (WIDE / TALL, 1)  # the unit square, made narrower
            for start, end in pairwise(ends):
                along = end - start
                # Where on the stroke the nearest point is, 0 to 1.
                share = np.clip((points - start) @ along / (along @ along), 0, 1)
                gap = np.linalg.norm(points - start - share[..., None] * along, axis=-1)
                field[digit] = np.minimum(field[digit], gap)
    return field


def digits(classes: np.ndarray, random: drawing.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A digit in the middle, on some sides the edge of another, as house numbers are cropped."""
    n = len(classes)
    angle, height = drawing.uniform(random, -0.2, 0.2, n), drawing.uniform(random, 20, 36, n)
    slant, thick = drawing.uniform(random, -0.25, 0.25, n), drawing.uniform(random, 0.045, 0.085, n)
    along, across = drawing.rotated(angle)
    along = along - drawing.uniform(random, -4, 4, n)[:, None, None]
    across = across - drawing.uniform(random, -4, 4, n)[:, None, None]
    scale = (TALL / height)[:, None, None]  # glyph pixels per image pixel
    amount = np.zeros((n, drawing.SIZE, drawing.SIZE), np.float32)
    neighbors = random.integers(10, size=(2, n))
    has_neighbor = random.random((2, n)) < 0.45
    # The digit itself, then its neighbors at the left and at the right where an image has them.
    digits_at = {0: classes, -1: neighbors[0], 1: neighbors[1]}
    shown_at = {0: np.ones(n, bool), -1: has_neighbor[0], 1: has_neighbor[1]}
    for step, shown in digits_at.items():
        chosen = np.flatnonzero(shown_at[step])
        tall = height[chosen, None, None]
        x = along[chosen] + slant[chosen, None, None] * across[chosen] - 0.9 * step * tall
        column = np.rint(x * scale[chosen]).astype(int) + WIDE // 2 + MARGIN
        row = np.rint(across[chosen] * scale[chosen]).astype(int) + TALL // 2 + MARGIN
        field = stroke_distances()
        # Pixels beside the field have no ink; their index is clipped to look anything up at all.
        inside = (row >= 0) & (row < field.shape[1]) & (column >= 0) & (column < field.shape[2])
        row, column = row.clip(0, field.shape[1] - 1), column.clip(0, field.shape[2] - 1)
        gap = field[shown[chosen, None, None], row, column]
        ink = np.clip((thick[chosen, None, None] - gap) * tall + 0.5, 0, 1) * inside
        amount[chosen] = np.maximum(amount[chosen], ink)
    # Bright digits on dark ground or dark ones on bright.
    color, light = random.integers(len(drawing.COLORS), size=n), random.random(n) < 0.5
    ground = drawing.PALETTE[color] * np.where(light, 0.45, 0.8)[:, None].astype(np.float32)
    bright, dark = drawing.uniform(random, 0.75, 1, n, 3), drawing.uniform(random, 0, 0.15, n, 3)
    ink_color = np.where(light[:, None], bright, dark)
    faint = drawing.uniform(random, 0.35, 1, n)[:, None, None]  # some digits are hardly visible
    image = drawing.blend(amount * faint, ground, ink_color.astype(np.float32))
    return image + 0.08 * drawing.smooth_noise(random, n, 4)[..., None], np.stack([color, color], 1)

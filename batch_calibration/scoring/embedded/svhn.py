"""Draws house numbers in the classes of SVHN, from strokes."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from batch_calibration.scoring.embedded import drawing


def _ellipse(x: float, y: float, a: float, b: float) -> list[tuple[float, float]]:
    return [(x + a * np.sin(t), y - b * np.cos(t)) for t in np.linspace(0, 2 * np.pi, 17)]


SIX = [(.75, .03), (.4, .15), (.18, .55), (.2, .85), (.5, 1), (.8, .85), (.8, .6), (.5, .48),
       (.2, .64)]  # fmt: skip
STROKES: tuple[Sequence[Sequence[tuple[float, float]]], ...] = (
    [_ellipse(.5, .5, .36, .5)],
    [[(.28, .22), (.55, 0), (.55, 1)]],
    [[(.15, .25), (.3, .04), (.6, 0), (.83, .15), (.8, .38), (.15, 1), (.87, 1)]],
    [[(.15, .1), (.5, 0), (.8, .15), (.75, .4), (.42, .48), (.8, .6), (.83, .85), (.5, 1),
      (.14, .9)]],
    [[(.66, 1), (.66, 0), (.08, .68), (.92, .68)]],
    [[(.82, 0), (.25, 0), (.2, .45), (.55, .4), (.84, .6), (.8, .88), (.5, 1), (.14, .9)]],
    [SIX],
    [[(.1, 0), (.88, 0), (.4, 1)]],
    [_ellipse(.5, .25, .28, .25), _ellipse(.5, .75, .36, .25)],
    [[(1 - x, 1 - y) for x, y in SIX]],
)  # fmt: skip
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
            ends = np.array(line, np.float32) * (WIDE / TALL, 1)  # the unit square, made narrower
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

"""Pixels by formula: digits of strokes, counted shapes, land from above, textures.

A painter takes class numbers `[n]` and a generator and gives pictures `[n 48 48 3]`, values 0 to 1,
with what captions may say of each. All pictures of a batch are drawn at once.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

SIZE = 48
COLORS = {
    "red": (0.80, 0.16, 0.14), "blue": (0.16, 0.30, 0.80), "green": (0.16, 0.60, 0.24),
    "yellow": (0.92, 0.82, 0.20), "purple": (0.52, 0.22, 0.66), "cyan": (0.20, 0.74, 0.78),
    "brown": (0.48, 0.32, 0.18), "gray": (0.52, 0.52, 0.52),
}  # fmt: skip
PALETTE = np.array(list(COLORS.values()), np.float32)
Generator = np.random.Generator
Painter = Callable[[np.ndarray, Generator], tuple[np.ndarray, np.ndarray]]
"""`(classes [n], generator)` -> pictures `[n 48 48 3]` and indices into `COLORS` `[n, 2]`."""

Y, X = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32) - (SIZE - 1) / 2


def between(random: Generator, low: float, high: float, *shape: int) -> np.ndarray:
    """Uniform numbers, float32."""
    return (low + (high - low) * random.random(shape)).astype(np.float32)


def turned(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates `[n 48 48]` in pixels from the center, along and across each angle `[n]`."""
    c, s = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    return c * X + s * Y, c * Y - s * X


def clouds(random: Generator, n: int, cells: int) -> np.ndarray:
    """Smooth noise `[n 48 48]` about 0: `cells` random numbers a side, joined by straight lines."""
    place = np.linspace(0, cells - 1, SIZE)
    weight = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(cells))).astype(np.float32)
    return weight @ between(random, -1, 1, n, cells, cells) @ weight.T


def inked(amount: np.ndarray, ground: np.ndarray, ink: np.ndarray) -> np.ndarray:
    """Two colors `[n 3]` mixed by an amount of ink `[n 48 48]`."""
    return ground[:, None, None] + amount[..., None] * (ink - ground)[:, None, None]


# --- digits


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
TALL, WIDE, MARGIN = 64, 48, 16


@cache
def glyphs() -> np.ndarray:
    """Distance to the nearest stroke, in glyph heights `[10 96 80]`, a margin around each digit."""
    rows, columns = TALL + 2 * MARGIN, WIDE + 2 * MARGIN
    y, x = np.mgrid[0:rows, 0:columns].astype(np.float32)
    points = np.stack([(x - MARGIN) / TALL, (y - MARGIN) / TALL], -1)
    field = np.full((10, rows, columns), 9, np.float32)
    for digit, lines in enumerate(STROKES):
        for line in lines:
            ends = np.array(line, np.float32) * (WIDE / TALL, 1)
            for start, end in pairwise(ends):
                along = end - start
                part = np.clip((points - start) @ along / (along @ along), 0, 1)
                gap = np.linalg.norm(points - start - part[..., None] * along, axis=-1)
                field[digit] = np.minimum(field[digit], gap)
    return field


def digits(classes: np.ndarray, random: Generator) -> tuple[np.ndarray, np.ndarray]:
    """A digit in the middle, on some sides the edge of another, as house numbers are cropped."""
    n = len(classes)
    angle, height = between(random, -0.2, 0.2, n), between(random, 20, 36, n)
    slant, thick = between(random, -0.25, 0.25, n), between(random, 0.045, 0.085, n)
    along, across = turned(angle)
    along = along - between(random, -4, 4, n)[:, None, None]
    across = across - between(random, -4, 4, n)[:, None, None]
    scale = (TALL / height)[:, None, None]
    amount = np.zeros((n, SIZE, SIZE), np.float32)
    others = random.integers(10, size=(2, n))
    beside = random.random((2, n)) < 0.45
    for step, shown, there in (
        (0, classes, np.ones(n, bool)), (-1, others[0], beside[0]), (1, others[1], beside[1]),
    ):  # fmt: skip
        chosen = np.flatnonzero(there)
        tall = height[chosen, None, None]
        x = along[chosen] + slant[chosen, None, None] * across[chosen] - 0.9 * step * tall
        column = np.rint(x * scale[chosen]).astype(int) + WIDE // 2 + MARGIN
        row = np.rint(across[chosen] * scale[chosen]).astype(int) + TALL // 2 + MARGIN
        field = glyphs()
        inside = (row >= 0) & (row < field.shape[1]) & (column >= 0) & (column < field.shape[2])
        gap = field[
            shown[chosen, None, None],
            np.clip(row, 0, field.shape[1] - 1),
            np.clip(column, 0, field.shape[2] - 1),
        ]
        ink = np.clip((thick[chosen, None, None] - gap) * tall + 0.5, 0, 1) * inside
        amount[chosen] = np.maximum(amount[chosen], ink)
    color, light = random.integers(len(COLORS), size=n), random.random(n) < 0.5
    ground = PALETTE[color] * np.where(light, 0.45, 0.8)[:, None].astype(np.float32)
    ink_color = np.where(
        light[:, None], between(random, 0.75, 1, n, 3), between(random, 0, 0.15, n, 3)
    )
    faint = between(random, 0.35, 1, n)[:, None, None]
    picture = inked(amount * faint, ground, ink_color.astype(np.float32))
    return picture + 0.08 * clouds(random, n, 4)[..., None], np.stack([color, color], 1)


# --- counted shapes

CELLS, CELL = 4, SIZE // 4


def shapes(classes: np.ndarray, random: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three to ten cubes, balls and cylinders on a table, each in a cell of its own."""
    n, places = len(classes), CELLS * CELLS
    order = np.argsort(random.random((n, places)), axis=1)
    there = order < classes[:, None] + 3
    radius = np.where(random.random((n, places)) < 0.4, 2.6, 4.2)
    radius = (radius + between(random, -0.4, 0.6, n, places)).astype(np.float32)[..., None, None]
    free = CELL / 2 - radius
    y, x = np.mgrid[0:CELL, 0:CELL].astype(np.float32) - (CELL - 1) / 2
    x = x - free * between(random, -1, 1, n, places)[..., None, None]
    y = y - free * between(random, -1, 1, n, places)[..., None, None]
    ball = np.hypot(x, y)
    cube = np.maximum(np.abs(x), np.abs(y)) * 1.12
    cylinder = np.maximum(np.abs(x) * 1.5, np.abs(y))
    kind = random.integers(3, size=(n, places))[..., None, None]
    ink = np.clip(radius - np.choose(kind, [ball, cube, cylinder]) + 0.5, 0, 1)
    ink = ink * there[..., None, None]
    # One picture in three has things of one color only.
    color = random.integers(len(COLORS), size=(n, places))
    alike = random.random(n) < 1 / 3
    color = np.where(alike[:, None], color[:, :1], color)
    shown = color[np.arange(n), order.argmin(1)]
    shade = 1 - 0.35 * (x + y) / (2 * radius) + 0.5 * (np.hypot(x + 1.2, y + 1.2) < 1.2)
    cell = ink[..., None] * PALETTE[color][:, :, None, None] * shade[..., None]
    table = between(random, 0.45, 0.8, n)[:, None, None] - Y / SIZE * 0.2
    amount, objects = _joined(ink[..., None])[..., 0], _joined(cell)
    picture = table[..., None] * (1 - amount)[..., None] + objects
    return picture, np.stack([shown, shown], 1)


def _joined(cells: np.ndarray) -> np.ndarray:
    """Cells `[n 16 12 12 c]` as pictures `[n 48 48 c]`."""
    n, _, _, _, channels = cells.shape
    grid = cells.reshape(n, CELLS, CELLS, CELL, CELL, channels).transpose(0, 1, 3, 2, 4, 5)
    return grid.reshape(n, SIZE, SIZE, channels)


def as_bytes(pictures: np.ndarray, random: Generator) -> np.ndarray:
    """Pictures with a camera's noise as `uint8`."""
    grain = between(random, -1, 1, *pictures.shape[:3])[..., None]
    amount = between(random, 0.02, 0.14, len(pictures))[:, None, None, None]
    return (np.clip(pictures + amount * grain, 0, 1) * 255).astype(np.uint8)

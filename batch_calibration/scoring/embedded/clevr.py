"""Draws 3 to 10 objects on a table in the classes of CLEVR, which are their counts."""

import numpy as np

from batch_calibration.scoring.embedded.drawing import COLORS, PALETTE, SIZE, Generator, Y, uniform

CELLS, CELL = 4, SIZE // 4  # cells a side, pixels a cell


def shapes(classes: np.ndarray, random: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three to ten cubes, balls and cylinders on a table, each in a cell of its own."""
    n, cells = len(classes), CELLS * CELLS
    # A random order of the cells: the first 3 to 10 of it hold an object.
    order = np.argsort(random.random((n, cells)), axis=1)
    is_shown = order < classes[:, None] + 3
    radius = np.where(random.random((n, cells)) < 0.4, 2.6, 4.2)  # small or large
    radius = (radius + uniform(random, -0.4, 0.6, n, cells)).astype(np.float32)[..., None, None]
    free = CELL / 2 - radius  # how far an object can move and stay in its cell
    y, x = np.mgrid[0:CELL, 0:CELL].astype(np.float32) - (CELL - 1) / 2
    x = x - free * uniform(random, -1, 1, n, cells)[..., None, None]
    y = y - free * uniform(random, -1, 1, n, cells)[..., None, None]
    # Each form has its own distance from the center: ink is where it is below the radius.
    ball = np.hypot(x, y)
    cube = np.maximum(np.abs(x), np.abs(y)) * 1.12
    cylinder = np.maximum(np.abs(x) * 1.5, np.abs(y))
    kind = random.integers(3, size=(n, cells))[..., None, None]
    # Soft edge of one pixel.
    ink = np.clip(radius - np.choose(kind, [ball, cube, cylinder]) + 0.5, 0, 1)
    ink = ink * is_shown[..., None, None]
    # One image in three has things of one color only.
    color = random.integers(len(COLORS), size=(n, cells))
    is_one_color = random.random(n) < 1 / 3
    color = np.where(is_one_color[:, None], color[:, :1], color)
    shown = color[np.arange(n), order.argmin(1)]  # color of the first object
    # Light from the upper left, and a highlight.
    shade = 1 - 0.35 * (x + y) / (2 * radius) + 0.5 * (np.hypot(x + 1.2, y + 1.2) < 1.2)
    cell = ink[..., None] * PALETTE[color][:, :, None, None] * shade[..., None]
    # Darker toward the viewer.
    table = uniform(random, 0.45, 0.8, n)[:, None, None] - Y / SIZE * 0.2
    amount, objects = _joined(ink[..., None])[..., 0], _joined(cell)
    image = table[..., None] * (1 - amount)[..., None] + objects
    return image, np.stack([shown, shown], 1)


def _joined(cells: np.ndarray) -> np.ndarray:
    """Cells `[n 16 12 12 c]` as images `[n 48 48 c]`."""
    n, _, _, _, channels = cells.shape
    grid = cells.reshape(n, CELLS, CELLS, CELL, CELL, channels).transpose(0, 1, 3, 2, 4, 5)
    return grid.reshape(n, SIZE, SIZE, channels)

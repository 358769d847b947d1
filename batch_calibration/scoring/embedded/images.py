"""Rows of drawn images in the schemas of SVHN, EuroSAT, CLEVR and DTD.

A row refers to its image as `mini:TASK/SPLIT/NUMBER`. This reference seeds the drawing, so the
image is always the same. The classes are equally frequent. The image-caption pairs of the embedded
checkpoint's training are drawn with another generator and less noise: as in the real tasks, the
model has not seen these images in training.
"""

import io
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError, refuse_unknown
from batch_calibration.scoring.embedded import drawing
from batch_calibration.scoring.embedded.drawing import COLORS, PALETTE, SIZE, Generator, Y, uniform


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
TALL, WIDE, MARGIN = 64, 48, 16  # height, width and margin of a glyph, in glyph pixels


@cache
def stroke_distances() -> np.ndarray:
    """Computes the distance of each pixel to the nearest stroke of each digit, `[10 96 80]`.

    The unit is the height of a glyph. A margin surrounds each digit.
    """
    rows, columns = TALL + 2 * MARGIN, WIDE + 2 * MARGIN
    y, x = np.mgrid[0:rows, 0:columns].astype(np.float32)
    points = np.stack([(x - MARGIN) / TALL, (y - MARGIN) / TALL], -1)
    field = np.full((10, rows, columns), 9, np.float32)
    for digit, lines in enumerate(STROKES):
        for line in lines:
            ends = line.astype(np.float32) * (WIDE / TALL, 1)  # scaled to the glyph's aspect ratio
            for start, end in pairwise(ends):
                along = end - start
                # The position of the nearest point along the stroke, 0 to 1.
                share = np.clip((points - start) @ along / (along @ along), 0, 1)
                gap = np.linalg.norm(points - start - share[..., None] * along, axis=-1)
                field[digit] = np.minimum(field[digit], gap)
    return field


def digits(classes: np.ndarray, random: drawing.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws a digit in the center; some images show parts of neighboring digits, as in SVHN."""
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
    # The digit itself, then its left and right neighbors, which some images have.
    digits_at = {0: classes, -1: neighbors[0], 1: neighbors[1]}
    shown_at = {0: np.ones(n, bool), -1: has_neighbor[0], 1: has_neighbor[1]}
    for step, shown in digits_at.items():
        chosen = np.flatnonzero(shown_at[step])
        tall = height[chosen, None, None]
        x = along[chosen] + slant[chosen, None, None] * across[chosen] - 0.9 * step * tall
        column = np.rint(x * scale[chosen]).astype(int) + WIDE // 2 + MARGIN
        row = np.rint(across[chosen] * scale[chosen]).astype(int) + TALL // 2 + MARGIN
        field = stroke_distances()
        # Pixels outside the field have no ink; clipping keeps their indices valid.
        inside = (row >= 0) & (row < field.shape[1]) & (column >= 0) & (column < field.shape[2])
        row, column = row.clip(0, field.shape[1] - 1), column.clip(0, field.shape[2] - 1)
        gap = field[shown[chosen, None, None], row, column]
        ink = np.clip((thick[chosen, None, None] - gap) * tall + 0.5, 0, 1) * inside
        amount[chosen] = np.maximum(amount[chosen], ink)
    # Digits are bright on dark ground, or dark on bright ground.
    color, light = random.integers(len(drawing.COLORS), size=n), random.random(n) < 0.5
    ground = drawing.PALETTE[color] * np.where(light, 0.45, 0.8)[:, None].astype(np.float32)
    bright, dark = drawing.uniform(random, 0.75, 1, n, 3), drawing.uniform(random, 0, 0.15, n, 3)
    ink_color = np.where(light[:, None], bright, dark)
    faint = drawing.uniform(random, 0.35, 1, n)[:, None, None]  # some digits are hardly visible
    image = drawing.blend(amount * faint, ground, ink_color.astype(np.float32))
    return image + 0.08 * drawing.smooth_noise(random, n, 4)[..., None], np.stack([color, color], 1)


CELLS, CELL = 4, SIZE // 4  # cells per side, pixels per side of a cell


def shapes(classes: np.ndarray, random: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws 3 to 10 cubes, balls and cylinders on a table, at most one in each grid cell."""
    n, cells = len(classes), CELLS * CELLS
    # Cells are ranked at random: those ranked first, 3 to 10 of them, hold an object.
    order = np.argsort(random.random((n, cells)), axis=1)
    is_shown = order < classes[:, None] + 3
    radius = np.where(random.random((n, cells)) < 0.4, 2.6, 4.2)  # small or large
    radius = (radius + uniform(random, -0.4, 0.6, n, cells)).astype(np.float32)[..., None, None]
    free = CELL / 2 - radius  # how far an object can move and stay in its cell
    y, x = np.mgrid[0:CELL, 0:CELL].astype(np.float32) - (CELL - 1) / 2
    x = x - free * uniform(random, -1, 1, n, cells)[..., None, None]
    y = y - free * uniform(random, -1, 1, n, cells)[..., None, None]
    # Each form has its own distance function; pixels below the radius have ink.
    ball = np.hypot(x, y)
    cube = np.maximum(np.abs(x), np.abs(y)) * 1.12
    cylinder = np.maximum(np.abs(x) * 1.5, np.abs(y))
    kind = random.integers(3, size=(n, cells))[..., None, None]
    # The edge fades over one pixel.
    ink = np.clip(radius - np.choose(kind, [ball, cube, cylinder]) + 0.5, 0, 1)
    ink = ink * is_shown[..., None, None]
    # In one of three images, all objects have the same color.
    color = random.integers(len(COLORS), size=(n, cells))
    is_one_color = random.random(n) < 1 / 3
    color = np.where(is_one_color[:, None], color[:, :1], color)
    shown = color[np.arange(n), order.argmin(1)]  # color of the first object
    # Light comes from the upper left and leaves a highlight.
    shade = 1 - 0.35 * (x + y) / (2 * radius) + 0.5 * (np.hypot(x + 1.2, y + 1.2) < 1.2)
    cell = ink[..., None] * PALETTE[color][:, :, None, None] * shade[..., None]
    # The table is darker toward the viewer.
    table = uniform(random, 0.45, 0.8, n)[:, None, None] - Y / SIZE * 0.2
    amount, objects = _joined(ink[..., None])[..., 0], _joined(cell)
    image = table[..., None] * (1 - amount)[..., None] + objects
    return image, np.stack([shown, shown], 1)


def _joined(cells: np.ndarray) -> np.ndarray:
    """Assembles cells `[n 16 12 12 c]` into images `[n 48 48 c]`."""
    n, _, _, _, channels = cells.shape
    grid = cells.reshape(n, CELLS, CELLS, CELL, CELL, channels).transpose(0, 1, 3, 2, 4, 5)
    return grid.reshape(n, SIZE, SIZE, channels)


MINI, PREFIX = "mini", "mini:"
SIZES = {"train": 1000, "test": 1000}
NOISE = (0.05, 0.15)  # range of the noise's standard deviation, for values from 0 to 1


class ImageTask(NamedTuple):
    """The class names of an image task, as in the real data set, and the function that draws it."""

    classes: tuple[str, ...]
    draw: drawing.Draw


TASKS = {
    "svhn": ImageTask(tuple("0123456789"), digits),
    "eurosat": ImageTask(tuple(drawing.LAND), drawing.satellite),
    "clevr": ImageTask(tuple(map(str, range(3, 11))), shapes),
    "dtd": ImageTask(tuple(drawing.TEXTURES), drawing.textures),
}
"""The image tasks of the mini suite. The suite has 12 of the 47 classes of DTD."""


def image_rows(task: str, split: str, limit: int = 0) -> list[tuple[str, str]]:
    """Returns references of a split's images and the names of their classes.

    >>> image_rows("svhn", "test")[0][0]
    'mini:svhn/test/0'
    """
    refuse_unknown(f"split of the mini suite's {task}", split, SIZES)
    size = min(limit or SIZES[split], SIZES[split])
    references = [f"{PREFIX}{task}/{split}/{i}" for i in range(size)]
    return [(reference, TASKS[task].classes[_class(reference)[1]]) for reference in references]


def draw_image(reference: str) -> np.ndarray:
    """Draws the image that a reference (suite, task, split, number) names, `uint8 [48 48 3]`.

    >>> draw_image("mini:clevr/train/17").shape
    (48, 48, 3)
    """
    image_task, label, random = _class(reference)
    # One generator draws class, image and noise: changing their order changes every pixel.
    images, _ = image_task.draw(np.array([label]), random)
    noise = random.normal(0, random.uniform(*NOISE), images.shape)
    (image,) = drawing.as_bytes(images + noise, random)
    return np.asarray(image)


def png(reference: str) -> bytes:
    """Returns the image of a reference as the bytes of a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(draw_image(reference)).save(file, "PNG", compress_level=1)
    return file.getvalue()


def _class(reference: str) -> tuple[ImageTask, int, np.random.Generator]:
    """Parses a reference into its task, its class and the generator that draws its image."""
    task, _, split_and_number = reference.removeprefix(PREFIX).partition("/")
    split, _, number = split_and_number.partition("/")
    is_known = task in TASKS and split in SIZES and number.isdecimal()
    if not is_known or int(number) >= SIZES[split]:
        expected = f"{PREFIX}{{{','.join(TASKS)}}}/{{{','.join(SIZES)}}}/NUMBER"
        raise InputError.at(reference, expected)
    # The bytes of the reference are the seed.
    random = np.random.default_rng(list(reference.encode()))
    return TASKS[task], int(random.integers(len(TASKS[task].classes))), random

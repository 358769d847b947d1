"""Draws images by formula: what svhn, clevr, eurosat and dtd share.

A drawing takes class numbers `[n]` and a generator and gives images `[n 48 48 3]`, values 0 to 1,
with the colors that captions may name. All images of a batch are drawn at once.
"""

from collections.abc import Callable, Mapping

import numpy as np

SIZE = 48  # pixels a side
COLORS = {
    "red": (0.80, 0.16, 0.14), "blue": (0.16, 0.30, 0.80), "green": (0.16, 0.60, 0.24),
    "yellow": (0.92, 0.82, 0.20), "purple": (0.52, 0.22, 0.66), "cyan": (0.20, 0.74, 0.78),
    "brown": (0.48, 0.32, 0.18), "gray": (0.52, 0.52, 0.52),
}  # fmt: skip
PALETTE = np.array(list(COLORS.values()), np.float32)
Generator = np.random.Generator
Draw = Callable[[np.ndarray, Generator], tuple[np.ndarray, np.ndarray]]
"""`(classes [n], generator)` -> images `[n 48 48 3]` and indices into `COLORS` `[n, 2]`."""

DrawClass = Callable[[int, Generator], np.ndarray]
"""`(n, generator)` -> `n` images of one class `[n 48 48 3]`, or their parts `[n 48 48]`."""

# Pixels from the center, y downward.
Y, X = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32) - (SIZE - 1) / 2


def uniform(random: Generator, low: float, high: float, *shape: int) -> np.ndarray:
    """Uniform numbers, float32."""
    return (low + (high - low) * random.random(shape)).astype(np.float32)


def rotated(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates `[n 48 48]` in pixels from the center, along and across each angle `[n]`."""
    c, s = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    return c * X + s * Y, c * Y - s * X


def smooth_noise(random: Generator, n: int, cells: int) -> np.ndarray:
    """Smooth noise `[n 48 48]` about 0: `cells` random numbers a side, joined by straight lines."""
    positions = np.linspace(0, cells - 1, SIZE)
    # Hat functions: a matrix `[48 cells]` that interpolates between neighboring cells.
    weight = np.maximum(0, 1 - np.abs(positions[:, None] - np.arange(cells))).astype(np.float32)
    noise: np.ndarray = weight @ uniform(random, -1, 1, n, cells, cells) @ weight.T
    return noise


def blend(amount: np.ndarray, ground: np.ndarray, ink: np.ndarray) -> np.ndarray:
    """Two colors `[n 3]` mixed by an amount of ink `[n 48 48]`."""
    mixed: np.ndarray = ground[:, None, None] + amount[..., None] * (ink - ground)[:, None, None]
    return mixed


def random_angle(random: Generator, n: int) -> np.ndarray:
    """An angle for each image, in radians."""
    return uniform(random, 0, np.pi, n)


def per_image(numbers: np.ndarray) -> np.ndarray:
    """One number a image, `[n]`, ready to meet pixels `[n 48 48]`."""
    return numbers[:, None, None]


def shaded(color: np.ndarray, tone: np.ndarray) -> np.ndarray:
    """A color `[n 3]` made lighter or darker by a tone `[n 48 48]` about 0."""
    shades: np.ndarray = color[:, None, None] * (1 + tone)[..., None]
    return shades


def by_class(draws: Mapping[str, DrawClass], classes: np.ndarray, random: Generator) -> np.ndarray:
    """Images of each class, drawn class by class, in the order of `classes [n]`."""
    drawn = {}
    for i, draw in enumerate(draws.values()):
        if (classes == i).any():
            drawn[i] = draw(int((classes == i).sum()), random)
    images = np.empty((len(classes), *next(iter(drawn.values())).shape[1:]), np.float32)
    for i, drawn_images in drawn.items():
        images[classes == i] = drawn_images
    return images


def as_bytes(images: np.ndarray, random: Generator) -> np.ndarray:
    """Images with a camera's noise as `uint8`."""
    # Grain: one value a pixel, the same for its three colors; its strength is the image's.
    grain = uniform(random, -1, 1, *images.shape[:3])[..., None]
    amount = uniform(random, 0.02, 0.14, len(images))[:, None, None, None]
    pixels: np.ndarray = (np.clip(images + amount * grain, 0, 1) * 255).astype(np.uint8)
    return pixels

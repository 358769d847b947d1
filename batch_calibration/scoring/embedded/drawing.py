"""Draws images by formula: shared drawing functions, textures of DTD, land of EuroSAT.

A drawing function takes class indices `[n]` and a random generator. It returns images
`[n 48 48 3]` with values from 0 to 1, and the colors that a caption may name. It draws all images
of a batch at once.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

SIZE = 48  # pixels per side
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
"""`(n, generator)` -> `n` images of one class `[n 48 48 3]`, or amounts of ink `[n 48 48]`."""

# Pixels from the center, y downward.
Y, X = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32) - (SIZE - 1) / 2


def uniform(random: Generator, low: float, high: float, *shape: int) -> np.ndarray:
    """Draws uniform random numbers, float32."""
    return (low + (high - low) * random.random(shape)).astype(np.float32)


def rotated(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns pixel coordinates `[n 48 48]` along and across the direction of each angle `[n]`.

    Coordinates are in pixels from the center.
    """
    c, s = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    return c * X + s * Y, c * Y - s * X


def smooth_noise(random: Generator, n: int, cells: int) -> np.ndarray:
    """Draws smooth noise `[n 48 48]` around 0: interpolates `cells` x `cells` random numbers."""
    positions = np.linspace(0, cells - 1, SIZE)
    # Hat functions: a matrix `[48 cells]` that interpolates between neighboring cells.
    weight = np.maximum(0, 1 - np.abs(positions[:, None] - np.arange(cells))).astype(np.float32)
    return np.asarray(weight @ uniform(random, -1, 1, n, cells, cells) @ weight.T)


def blend(amount: np.ndarray, ground: np.ndarray, ink: np.ndarray) -> np.ndarray:
    """Mixes two colors `[n 3]` by an amount of ink `[n 48 48]`: 0 is `ground`, 1 is `ink`."""
    return np.asarray(ground[:, None, None] + amount[..., None] * (ink - ground)[:, None, None])


def random_angle(random: Generator, n: int) -> np.ndarray:
    """Draws an angle for each image, in radians."""
    return uniform(random, 0, np.pi, n)


def per_image(numbers: np.ndarray) -> np.ndarray:
    """Reshapes one number per image, `[n]`, to broadcast over pixels `[n 48 48]`."""
    return numbers[:, None, None]


def shaded(color: np.ndarray, tone: np.ndarray) -> np.ndarray:
    """Makes a color `[n 3]` lighter or darker by a tone `[n 48 48]` around 0."""
    return np.asarray(color[:, None, None] * (1 + tone)[..., None])


def by_class(draws: Mapping[str, DrawClass], classes: np.ndarray, random: Generator) -> np.ndarray:
    """Draws the images of each class together and returns them in the order of `classes [n]`."""
    drawn = {}
    for i, draw in enumerate(draws.values()):
        if (classes == i).any():
            drawn[i] = draw(int((classes == i).sum()), random)
    images = np.empty((len(classes), *next(iter(drawn.values())).shape[1:]), np.float32)
    for i, drawn_images in drawn.items():
        images[classes == i] = drawn_images
    return images


def as_bytes(images: np.ndarray, random: Generator) -> np.ndarray:
    """Adds grain, as a camera's sensor does, and converts images to `uint8`."""
    # Grain: one value per pixel, equal for its three colors; each image has its own strength.
    grain = uniform(random, -1, 1, *images.shape[:3])[..., None]
    amount = uniform(random, 0.02, 0.14, len(images))[:, None, None, None]
    return np.asarray((np.clip(images + amount * grain, 0, 1) * 255).astype(np.uint8))


# --- Twelve textures of DTD: each is an amount of ink, 0 to 1, that blends two colors.


def stripe_angles(
    n: int, random: Generator, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns each pixel's phase along and across stripes of a random direction and period.

    The period is `low` to `high` pixels. Phases are `[n 48 48]`, in radians.
    """
    along, across = rotated(random_angle(random, n))
    turn = per_image(2 * np.pi / uniform(random, low, high, n))  # radians per pixel
    return along * turn + per_image(uniform(random, 0, 6, n)), across * turn


def soft_threshold(wave: np.ndarray, width: float = 0.0) -> np.ndarray:
    """Returns ink where a wave is above `width`, with a soft edge."""
    return np.clip((wave - width) * 4 + 0.5, 0, 1)  # the edge is a quarter of a unit wide


def wave(low: float, high: float, ink: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> DrawClass:
    """Makes a pattern `ink(phase along, phase across)` with a period of `low` to `high` pixels."""
    return lambda n, random: ink(*stripe_angles(n, random, low, high))


def crossed(along: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Draws fine diagonal lines that cross each other."""
    lines, crossing = np.sin(along + 0.5 * across), np.sin(along - 0.5 * across)
    return soft_threshold(np.maximum(lines, crossing), 0.7)


def dotted(n: int, random: Generator) -> np.ndarray:
    """Draws small dots in a slightly irregular grid."""
    along, across = stripe_angles(n, random, 5.5, 8)
    dots = np.cos(along + 1.2 * smooth_noise(random, n, 6))
    return soft_threshold(dots + np.cos(across + 1.2 * smooth_noise(random, n, 6)), 1)


def blotchy(n: int, random: Generator) -> np.ndarray:
    """Draws spots of irregular shape."""
    return soft_threshold(smooth_noise(random, n, 7) * 2, 0.1)


def marbled(n: int, random: Generator) -> np.ndarray:
    """Draws wavy veins."""
    along, _ = stripe_angles(n, random, 14, 26)
    # Noise bends the stripes into veins.
    bent = along + 3 * smooth_noise(random, n, 5) + smooth_noise(random, n, 10)
    return np.asarray(1 - np.abs(np.sin(bent)) ** 0.6)


def spiralled(n: int, random: Generator) -> np.ndarray:
    """Draws one spiral around the center."""
    x, y = X - per_image(uniform(random, -5, 5, n)), Y - per_image(uniform(random, -5, 5, n))
    # The spiral turns left or right.
    hand = per_image(np.where(random.random(n) < 0.5, 1, -1).astype(np.float32))
    turn = per_image(2 * np.pi / uniform(random, 7, 13, n))
    return soft_threshold(np.sin(np.hypot(x, y) * turn + hand * np.arctan2(y, x)))


TEXTURES: dict[str, DrawClass] = {
    # Broad, soft bands of changing width.
    "banded": wave(18, 30, lambda x, _: 0.5 + 0.5 * np.sin(x + 0.8 * np.sin(0.6 * x))),
    "blotchy": blotchy,
    "chequered": wave(11, 22, lambda x, y: soft_threshold(np.sin(x) * np.sin(y) * 2)),
    "crosshatched": wave(5, 8, crossed),
    "dotted": dotted,
    "grid": wave(7, 13, lambda x, y: soft_threshold(np.maximum(np.sin(x), np.sin(y)), 0.8)),
    "lined": wave(5, 9, lambda x, _: soft_threshold(np.sin(x), 0.75)),
    "marbled": marbled,
    # Large dots in a regular grid.
    "polka-dotted": wave(10, 18, lambda x, y: soft_threshold(np.cos(x) + np.cos(y), 0.75)),
    "spiralled": spiralled,
    "striped": wave(7, 14, lambda x, _: soft_threshold(np.sin(x))),
    # Stripes that zigzag: the arcsine of a sine is a triangle wave.
    "zigzagged": wave(
        8, 14, lambda x, y: soft_threshold(np.sin(x + 2.2 * np.arcsin(np.sin(0.6 * y))))
    ),
}


def textures(classes: np.ndarray, random: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws a texture in two colors."""
    n = len(classes)
    # The two colors differ: the second index is 1 to 7 after the first, modulo 8.
    first = random.integers(len(COLORS), size=n)
    second = (first + random.integers(1, len(COLORS), size=n)) % len(COLORS)
    amount = by_class(TEXTURES, classes, random) * uniform(random, 0.1, 1, n, 1, 1)
    shade = uniform(random, 0.5, 1.2, 2, n, 1)
    images = blend(amount, PALETTE[first] * shade[0], PALETTE[second] * shade[1])
    return images + 0.06 * smooth_noise(random, n, 5)[..., None], np.stack([first, second], 1)


# --- Land from above, in the classes of EuroSAT.

GREENS = np.array([(0.30, 0.42, 0.18), (0.40, 0.50, 0.24), (0.50, 0.50, 0.28)], np.float32)
FIELDS = np.array(
    [(0.55, 0.45, 0.28), (0.66, 0.60, 0.34), (0.36, 0.48, 0.22), (0.48, 0.36, 0.24)], np.float32
)


def land(random: Generator, n: int) -> np.ndarray:
    """Draws a meadow or a field, as background for roads and rivers."""
    color = np.concatenate([GREENS, FIELDS])[random.integers(7, size=n)]
    return shaded(color, 0.25 * smooth_noise(random, n, 6))


def annual_crop(n: int, random: Generator) -> np.ndarray:
    """Draws large fields of different crops, side by side."""
    along, across = rotated(random_angle(random, n))
    w = per_image(uniform(random, 10, 22, n))
    # Each field gets a number, so that neighboring fields have different crops.
    cell = np.floor(along / w).astype(int) * 7 + np.floor(across / (1.4 * w)).astype(int) * 3
    crop = FIELDS[(cell + random.integers(4, size=n)[:, None, None]) % 4]
    return np.asarray(crop * (1 + 0.12 * smooth_noise(random, n, 8)[..., None]))


def permanent_crop(n: int, random: Generator) -> np.ndarray:
    """Draws rows of trees or vines."""
    along, across = rotated(random_angle(random, n))
    row = np.sin(along * per_image(uniform(random, 1.0, 1.8, n)))  # rows of trees
    # In half of the images, gaps separate the trees of a row.
    gaps = np.where(per_image(random.random(n) < 0.5), np.sin(across * 1.2), 1)
    ground, ink = FIELDS[random.integers(2, size=n)], GREENS[:1].repeat(n, 0)
    image = blend(np.clip(row * gaps, 0, 1) * 0.8, ground, ink)
    return image + (0.05 * smooth_noise(random, n, 6)[..., None])


def patches(
    color: tuple[float, float, float],
    light: tuple[float, float],
    tones: Sequence[tuple[float, int]],
) -> DrawClass:
    """Makes a pattern of one color with lighter and darker patches.

    Args:
        color: The color, red, green and blue from 0 to 1.
        light: The range of the brightness that multiplies the color.
        tones: Pairs of a noise strength and its number of cells per side, see `smooth_noise`.
    """

    def draw(n: int, random: Generator) -> np.ndarray:
        colors = np.array(color, np.float32) * uniform(random, *light, n, 1)
        tone = sum(strength * smooth_noise(random, n, cells) for strength, cells in tones)
        return shaded(colors, np.asarray(tone))

    return draw


def pasture(n: int, random: Generator) -> np.ndarray:
    """Draws an even green; half of the images have a hedge."""
    image = shaded(GREENS[random.integers(1, 3, size=n)], 0.15 * smooth_noise(random, n, 5))
    along, _ = rotated(random_angle(random, n))
    hedge = np.abs(along - per_image(uniform(random, -16, 16, n))) < 1
    hedge &= per_image(random.random(n) < 0.5)
    return image * np.where(hedge, 0.5, 1)[..., None]


def highway(n: int, random: Generator) -> np.ndarray:
    """Draws a straight gray road across land."""
    along, _ = rotated(random_angle(random, n))
    # Distance from the center line of the road.
    gap = np.abs(along - per_image(uniform(random, -10, 10, n)))
    amount = np.clip(per_image(uniform(random, 1.4, 2.6, n)) - gap + 0.5, 0, 1)[..., None]
    ground = land(random, n) * (1 - amount)
    return np.asarray(ground + amount * uniform(random, 0.55, 0.8, n, 1, 1, 1))


def river(n: int, random: Generator) -> np.ndarray:
    """Draws a river that winds through land."""
    along, across = rotated(random_angle(random, n))
    height, turn = per_image(uniform(random, 3, 9, n)), per_image(uniform(random, 0.08, 0.16, n))
    start = per_image(uniform(random, 0, 6, n))
    bend = height * np.sin(across * turn + start)  # the center line of the river
    gap = np.abs(along - bend - per_image(uniform(random, -6, 6, n)))
    amount = np.clip(per_image(uniform(random, 2.5, 6, n)) - gap + 0.5, 0, 1)[..., None]
    water = np.array([0.20, 0.30, 0.36], np.float32) * uniform(random, 0.8, 1.3, n, 1, 1, 1)
    return np.asarray(land(random, n) * (1 - amount) + amount * water)


def _blocks(n: int, random: Generator, size: tuple[float, float], roofs: np.ndarray) -> np.ndarray:
    """Draws roofs in a grid with streets between them; some plots have no roof."""
    along, across = rotated(random_angle(random, n))
    w = per_image(uniform(random, *size, n))
    plot = np.floor(along / w) * 37 + np.floor(across / w) * 101
    plot = (plot + per_image(random.integers(99, size=n))) % 17
    from_center = np.maximum(np.abs(along / w % 1 - 0.5), np.abs(across / w % 1 - 0.5))
    roof = roofs[plot.astype(int) % len(roofs)]
    built = ((from_center < 0.36) & (plot < 14))[..., None]  # the rest is street and green
    green = GREENS[random.integers(3, size=n)]
    return np.where(built, roof, shaded(green, 0.2 * smooth_noise(random, n, 9)))


def residential(n: int, random: Generator) -> np.ndarray:
    """Draws many small roofs."""
    roofs = np.array([(0.62, 0.36, 0.28), (0.55, 0.50, 0.46), (0.70, 0.46, 0.36)], np.float32)
    return _blocks(n, random, (4.5, 7), roofs)


def industrial(n: int, random: Generator) -> np.ndarray:
    """Draws a few large, bright roofs."""
    roofs = np.array([(0.85, 0.85, 0.86), (0.62, 0.64, 0.68), (0.50, 0.56, 0.66)], np.float32)
    return _blocks(n, random, (11, 18), roofs)


LAND: dict[str, DrawClass] = {
    "AnnualCrop": annual_crop,
    "Forest": patches((0.12, 0.24, 0.13), (0.8, 1.4), [(0.5, 24), (0.2, 5)]),
    "HerbaceousVegetation": patches((0.42, 0.40, 0.24), (0.8, 1.2), [(0.4, 12), (0.2, 5)]),
    "Highway": highway,
    "Industrial": industrial,
    "Pasture": pasture,
    "PermanentCrop": permanent_crop,
    "Residential": residential,
    "River": river,
    "SeaLake": patches((0.10, 0.20, 0.36), (0.7, 1.4), [(0.12, 6)]),
}


def satellite(classes: np.ndarray, random: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws land from above, with varying light and mist."""
    n = len(classes)
    # The brightness and the color of the light.
    light = uniform(random, 0.75, 1.3, n, 1, 1, 1) * uniform(random, 0.85, 1.15, n, 1, 1, 3)
    mist = uniform(random, 0, 0.75, n, 1, 1, 1)  # toward an even gray
    images = by_class(LAND, classes, random) * light * (1 - mist) + 0.5 * mist
    return images, np.zeros((n, 2), int)

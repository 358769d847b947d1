"""Pictures by class: land from above in the classes of EuroSAT, and twelve of DTD's textures."""

from collections.abc import Callable

import numpy as np

from batch_calibration.embedded.drawing import (  # fmt: skip
    COLORS,
    PALETTE,
    Generator,
    X,
    Y,
    between,
    clouds,
    inked,
    turned,
)

Draw = Callable[[int, Generator], np.ndarray]
GREENS = np.array([(0.30, 0.42, 0.18), (0.40, 0.50, 0.24), (0.50, 0.50, 0.28)], np.float32)
FIELDS = np.array(
    [(0.55, 0.45, 0.28), (0.66, 0.60, 0.34), (0.36, 0.48, 0.22), (0.48, 0.36, 0.24)], np.float32
)


def any_angle(random: Generator, n: int) -> np.ndarray:
    """An angle for each picture, in radians."""
    return between(random, 0, np.pi, n)


def wide(values: np.ndarray) -> np.ndarray:
    """One number a picture, `[n]`, ready to meet pixels `[n 48 48]`."""
    return values[:, None, None]


def tinted(color: np.ndarray, tone: np.ndarray) -> np.ndarray:
    """A color `[n 3]` made lighter or darker by a tone `[n 48 48]` about 0."""
    return color[:, None, None] * (1 + tone)[..., None]


# --- land


def land(random: Generator, n: int) -> np.ndarray:
    """Meadow or field, which roads and rivers cross."""
    color = np.concatenate([GREENS, FIELDS])[random.integers(7, size=n)]
    return tinted(color, 0.25 * clouds(random, n, 6))


def annual_crop(n: int, random: Generator) -> np.ndarray:
    """Large fields of different crops, side by side."""
    u, v = turned(any_angle(random, n))
    w = wide(between(random, 10, 22, n))
    cell = np.floor(u / w).astype(int) * 7 + np.floor(v / (1.4 * w)).astype(int) * 3
    return FIELDS[(cell + random.integers(4, size=n)[:, None, None]) % 4] * (
        1 + 0.12 * clouds(random, n, 8)[..., None]
    )


def permanent_crop(n: int, random: Generator) -> np.ndarray:
    """Rows of trees or vines."""
    u, v = turned(any_angle(random, n))
    row = np.sin(u * wide(between(random, 1.0, 1.8, n)))
    gaps = np.where(wide(random.random(n) < 0.5), np.sin(v * 1.2), 1)
    return inked(
        np.clip(row * gaps, 0, 1) * 0.8, FIELDS[random.integers(2, size=n)], GREENS[:1].repeat(n, 0)
    ) + (0.05 * clouds(random, n, 6)[..., None])


def forest(n: int, random: Generator) -> np.ndarray:
    """Dark green, tree by tree."""
    color = np.array([0.12, 0.24, 0.13], np.float32) * between(random, 0.8, 1.4, n, 1)
    return tinted(color, 0.5 * clouds(random, n, 24) + 0.2 * clouds(random, n, 5))


def brush(n: int, random: Generator) -> np.ndarray:
    """Olive and brown in patches."""
    color = np.array([0.42, 0.40, 0.24], np.float32) * between(random, 0.8, 1.2, n, 1)
    return tinted(color, 0.4 * clouds(random, n, 12) + 0.2 * clouds(random, n, 5))


def pasture(n: int, random: Generator) -> np.ndarray:
    """Even green, at times a hedge."""
    picture = tinted(GREENS[random.integers(1, 3, size=n)], 0.15 * clouds(random, n, 5))
    u, _ = turned(any_angle(random, n))
    hedge = (np.abs(u - wide(between(random, -16, 16, n))) < 1) & wide(random.random(n) < 0.5)
    return picture * np.where(hedge, 0.5, 1)[..., None]


def highway(n: int, random: Generator) -> np.ndarray:
    """A straight gray road across land."""
    u, _ = turned(any_angle(random, n))
    gap = np.abs(u - wide(between(random, -10, 10, n)))
    amount = np.clip(wide(between(random, 1.4, 2.6, n)) - gap + 0.5, 0, 1)[..., None]
    return land(random, n) * (1 - amount) + amount * between(random, 0.55, 0.8, n, 1, 1, 1)


def river(n: int, random: Generator) -> np.ndarray:
    """Water that winds through land."""
    u, v = turned(any_angle(random, n))
    bend = wide(between(random, 3, 9, n)) * np.sin(v * wide(between(random, 0.08, 0.16, n)) + wide(
        between(random, 0, 6, n)))  # fmt: skip
    gap = np.abs(u - bend - wide(between(random, -6, 6, n)))
    amount = np.clip(wide(between(random, 2.5, 6, n)) - gap + 0.5, 0, 1)[..., None]
    water = np.array([0.20, 0.30, 0.36], np.float32) * between(random, 0.8, 1.3, n, 1, 1, 1)
    return land(random, n) * (1 - amount) + amount * water


def sea(n: int, random: Generator) -> np.ndarray:
    """Water and nothing else."""
    color = np.array([0.10, 0.20, 0.36], np.float32) * between(random, 0.7, 1.4, n, 1)
    return tinted(color, 0.12 * clouds(random, n, 6))


def _blocks(n: int, random: Generator, size: tuple[float, float], roofs: np.ndarray) -> np.ndarray:
    """Roofs in a grid with streets between, some left out."""
    u, v = turned(any_angle(random, n))
    w = wide(between(random, *size, n))
    place = (np.floor(u / w) * 37 + np.floor(v / w) * 101 + wide(random.integers(99, size=n))) % 17
    part = np.maximum(np.abs(u / w % 1 - 0.5), np.abs(v / w % 1 - 0.5))
    roof = roofs[place.astype(int) % len(roofs)]
    built = ((part < 0.36) & (place < 14))[..., None]
    return np.where(
        built, roof, tinted(GREENS[random.integers(3, size=n)], 0.2 * clouds(random, n, 9))
    )


def residential(n: int, random: Generator) -> np.ndarray:
    """Many small roofs."""
    roofs = np.array([(0.62, 0.36, 0.28), (0.55, 0.50, 0.46), (0.70, 0.46, 0.36)], np.float32)
    return _blocks(n, random, (4.5, 7), roofs)


def industrial(n: int, random: Generator) -> np.ndarray:
    """Few large, bright roofs."""
    roofs = np.array([(0.85, 0.85, 0.86), (0.62, 0.64, 0.68), (0.50, 0.56, 0.66)], np.float32)
    return _blocks(n, random, (11, 18), roofs)


# --- textures: an amount of ink 0 to 1 that two colors share


def waves(n: int, random: Generator, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Angles across and along stripes of `low` to `high` pixels, `[n 48 48]` in radians."""
    u, v = turned(any_angle(random, n))
    turn = wide(2 * np.pi / between(random, low, high, n))
    return u * turn + wide(between(random, 0, 6, n)), v * turn


def sharp(wave: np.ndarray, width: float = 0.0) -> np.ndarray:
    """Ink where a wave is above `width`, with a soft edge."""
    return np.clip((wave - width) * 4 + 0.5, 0, 1)


def banded(n: int, random: Generator) -> np.ndarray:
    """Broad, soft bands of changing width."""
    u, _ = waves(n, random, 18, 30)
    return 0.5 + 0.5 * np.sin(u + 0.8 * np.sin(0.6 * u))


def striped(n: int, random: Generator) -> np.ndarray:
    """Sharp stripes."""
    return sharp(np.sin(waves(n, random, 7, 14)[0]))


def lined(n: int, random: Generator) -> np.ndarray:
    """Thin lines."""
    return sharp(np.sin(waves(n, random, 5, 9)[0]), 0.75)


def zigzagged(n: int, random: Generator) -> np.ndarray:
    """Stripes that turn back and forth."""
    u, v = waves(n, random, 8, 14)
    return sharp(np.sin(u + 2.2 * np.arcsin(np.sin(0.6 * v))))


def chequered(n: int, random: Generator) -> np.ndarray:
    """Squares in turns."""
    u, v = waves(n, random, 11, 22)
    return sharp(np.sin(u) * np.sin(v) * 2)


def grid(n: int, random: Generator) -> np.ndarray:
    """Lines along and across."""
    u, v = waves(n, random, 7, 13)
    return sharp(np.maximum(np.sin(u), np.sin(v)), 0.8)


def crosshatched(n: int, random: Generator) -> np.ndarray:
    """Fine lines that cross at a slant."""
    u, v = waves(n, random, 5, 8)
    return sharp(np.maximum(np.sin(u + 0.5 * v), np.sin(u - 0.5 * v)), 0.7)


def polka_dotted(n: int, random: Generator) -> np.ndarray:
    """Large dots in order."""
    u, v = waves(n, random, 10, 18)
    return sharp(np.cos(u) + np.cos(v), 0.75)


def dotted(n: int, random: Generator) -> np.ndarray:
    """Small dots, not quite in order."""
    u, v = waves(n, random, 5.5, 8)
    return sharp(np.cos(u + 1.2 * clouds(random, n, 6)) + np.cos(v + 1.2 * clouds(random, n, 6)), 1)


def blotchy(n: int, random: Generator) -> np.ndarray:
    """Spots of any form."""
    return sharp(clouds(random, n, 7) * 2, 0.1)


def marbled(n: int, random: Generator) -> np.ndarray:
    """Veins that waver."""
    u, _ = waves(n, random, 14, 26)
    return 1 - np.abs(np.sin(u + 3 * clouds(random, n, 5) + clouds(random, n, 10))) ** 0.6


def spiralled(n: int, random: Generator) -> np.ndarray:
    """One spiral about the middle."""
    x, y = X - wide(between(random, -5, 5, n)), Y - wide(between(random, -5, 5, n))
    hand = wide(np.where(random.random(n) < 0.5, 1, -1).astype(np.float32))
    turn = wide(2 * np.pi / between(random, 7, 13, n))
    return sharp(np.sin(np.hypot(x, y) * turn + hand * np.arctan2(y, x)))


LAND: dict[str, Draw] = {
    "AnnualCrop": annual_crop, "Forest": forest, "HerbaceousVegetation": brush,
    "Highway": highway, "Industrial": industrial, "Pasture": pasture,
    "PermanentCrop": permanent_crop, "Residential": residential, "River": river, "SeaLake": sea,
}  # fmt: skip
TEXTURES: dict[str, Draw] = {
    "banded": banded, "blotchy": blotchy, "chequered": chequered, "crosshatched": crosshatched,
    "dotted": dotted, "grid": grid, "lined": lined, "marbled": marbled,
    "polka-dotted": polka_dotted, "spiralled": spiralled, "striped": striped,
    "zigzagged": zigzagged,
}  # fmt: skip


def by_class(draws: dict[str, Draw], classes: np.ndarray, random: Generator) -> np.ndarray:
    """What each class's drawing gives, in the order of `classes [n]`."""
    parts = {i: draw(int((classes == i).sum()), random) for i, draw in enumerate(draws.values())
             if (classes == i).any()}  # fmt: skip
    found = np.empty((len(classes), *next(iter(parts.values())).shape[1:]), np.float32)
    for i, part in parts.items():
        found[classes == i] = part
    return found


def satellite(classes: np.ndarray, random: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Land from above, the light of the day varied, at times through mist."""
    n = len(classes)
    light = between(random, 0.75, 1.3, n, 1, 1, 1) * between(random, 0.85, 1.15, n, 1, 1, 3)
    mist = between(random, 0, 0.75, n, 1, 1, 1)
    pictures = by_class(LAND, classes, random) * light * (1 - mist) + 0.5 * mist
    return pictures, np.zeros((n, 2), int)


def textures(classes: np.ndarray, random: Generator) -> tuple[np.ndarray, np.ndarray]:
    """A texture in two colors."""
    n = len(classes)
    first = random.integers(len(COLORS), size=n)
    second = (first + random.integers(1, len(COLORS), size=n)) % len(COLORS)
    amount = by_class(TEXTURES, classes, random) * between(random, 0.1, 1, n, 1, 1)
    shade = between(random, 0.5, 1.2, 2, n, 1)
    pictures = inked(amount, PALETTE[first] * shade[0], PALETTE[second] * shade[1])
    return pictures + 0.06 * clouds(random, n, 5)[..., None], np.stack([first, second], 1)

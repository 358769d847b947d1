"""Draws land from above in the classes of EuroSAT."""

import numpy as np

from batch_calibration.scoring.embedded.drawing import (
    DrawClass,
    Generator,
    blend,
    by_class,
    per_image,
    random_angle,
    rotated,
    shaded,
    smooth_noise,
    uniform,
)

GREENS = np.array([(0.30, 0.42, 0.18), (0.40, 0.50, 0.24), (0.50, 0.50, 0.28)], np.float32)
FIELDS = np.array(
    [(0.55, 0.45, 0.28), (0.66, 0.60, 0.34), (0.36, 0.48, 0.22), (0.48, 0.36, 0.24)], np.float32
)


def land(random: Generator, n: int) -> np.ndarray:
    """Meadow or field, which roads and rivers cross."""
    color = np.concatenate([GREENS, FIELDS])[random.integers(7, size=n)]
    return shaded(color, 0.25 * smooth_noise(random, n, 6))


def annual_crop(n: int, random: Generator) -> np.ndarray:
    """Large fields of different crops, side by side."""
    along, across = rotated(random_angle(random, n))
    w = per_image(uniform(random, 10, 22, n))
    # A number for each field, so that neighbors have other crops.
    cell = np.floor(along / w).astype(int) * 7 + np.floor(across / (1.4 * w)).astype(int) * 3
    crop = FIELDS[(cell + random.integers(4, size=n)[:, None, None]) % 4]
    image: np.ndarray = crop * (1 + 0.12 * smooth_noise(random, n, 8)[..., None])
    return image


def permanent_crop(n: int, random: Generator) -> np.ndarray:
    """Rows of trees or vines."""
    along, across = rotated(random_angle(random, n))
    row = np.sin(along * per_image(uniform(random, 1.0, 1.8, n)))  # rows of trees
    # Half of the images: single trees in a row.
    gaps = np.where(per_image(random.random(n) < 0.5), np.sin(across * 1.2), 1)
    ground, ink = FIELDS[random.integers(2, size=n)], GREENS[:1].repeat(n, 0)
    image = blend(np.clip(row * gaps, 0, 1) * 0.8, ground, ink)
    return image + (0.05 * smooth_noise(random, n, 6)[..., None])


def woods(n: int, random: Generator) -> np.ndarray:
    """Dark green, tree by tree."""
    color = np.array([0.12, 0.24, 0.13], np.float32) * uniform(random, 0.8, 1.4, n, 1)
    return shaded(color, 0.5 * smooth_noise(random, n, 24) + 0.2 * smooth_noise(random, n, 5))


def brush(n: int, random: Generator) -> np.ndarray:
    """Olive and brown in patches."""
    color = np.array([0.42, 0.40, 0.24], np.float32) * uniform(random, 0.8, 1.2, n, 1)
    return shaded(color, 0.4 * smooth_noise(random, n, 12) + 0.2 * smooth_noise(random, n, 5))


def pasture(n: int, random: Generator) -> np.ndarray:
    """Even green, at times a hedge."""
    image = shaded(GREENS[random.integers(1, 3, size=n)], 0.15 * smooth_noise(random, n, 5))
    along, _ = rotated(random_angle(random, n))
    hedge = np.abs(along - per_image(uniform(random, -16, 16, n))) < 1
    hedge &= per_image(random.random(n) < 0.5)
    return image * np.where(hedge, 0.5, 1)[..., None]


def highway(n: int, random: Generator) -> np.ndarray:
    """A straight gray road across land."""
    along, _ = rotated(random_angle(random, n))
    # Distance from the middle of the road.
    gap = np.abs(along - per_image(uniform(random, -10, 10, n)))
    amount = np.clip(per_image(uniform(random, 1.4, 2.6, n)) - gap + 0.5, 0, 1)[..., None]
    ground = land(random, n) * (1 - amount)
    image: np.ndarray = ground + amount * uniform(random, 0.55, 0.8, n, 1, 1, 1)
    return image


def river(n: int, random: Generator) -> np.ndarray:
    """Water that winds through land."""
    along, across = rotated(random_angle(random, n))
    height, turn = per_image(uniform(random, 3, 9, n)), per_image(uniform(random, 0.08, 0.16, n))
    start = per_image(uniform(random, 0, 6, n))
    bend = height * np.sin(across * turn + start)  # the river's middle
    gap = np.abs(along - bend - per_image(uniform(random, -6, 6, n)))
    amount = np.clip(per_image(uniform(random, 2.5, 6, n)) - gap + 0.5, 0, 1)[..., None]
    water = np.array([0.20, 0.30, 0.36], np.float32) * uniform(random, 0.8, 1.3, n, 1, 1, 1)
    image: np.ndarray = land(random, n) * (1 - amount) + amount * water
    return image


def sea(n: int, random: Generator) -> np.ndarray:
    """Water and nothing else."""
    color = np.array([0.10, 0.20, 0.36], np.float32) * uniform(random, 0.7, 1.4, n, 1)
    return shaded(color, 0.12 * smooth_noise(random, n, 6))


def _blocks(n: int, random: Generator, size: tuple[float, float], roofs: np.ndarray) -> np.ndarray:
    """Roofs in a grid with streets between, some left out."""
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
    """Many small roofs."""
    roofs = np.array([(0.62, 0.36, 0.28), (0.55, 0.50, 0.46), (0.70, 0.46, 0.36)], np.float32)
    return _blocks(n, random, (4.5, 7), roofs)


def industrial(n: int, random: Generator) -> np.ndarray:
    """Few large, bright roofs."""
    roofs = np.array([(0.85, 0.85, 0.86), (0.62, 0.64, 0.68), (0.50, 0.56, 0.66)], np.float32)
    return _blocks(n, random, (11, 18), roofs)


LAND: dict[str, DrawClass] = {
    "AnnualCrop": annual_crop, "Forest": woods, "HerbaceousVegetation": brush,
    "Highway": highway, "Industrial": industrial, "Pasture": pasture,
    "PermanentCrop": permanent_crop, "Residential": residential, "River": river, "SeaLake": sea,
}  # fmt: skip


def satellite(classes: np.ndarray, random: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Land from above, the light of the day varied, at times through mist."""
    n = len(classes)
    # Brightness, and the color of the light.
    light = uniform(random, 0.75, 1.3, n, 1, 1, 1) * uniform(random, 0.85, 1.15, n, 1, 1, 3)
    mist = uniform(random, 0, 0.75, n, 1, 1, 1)  # toward an even gray
    images = by_class(LAND, classes, random) * light * (1 - mist) + 0.5 * mist
    return images, np.zeros((n, 2), int)

"""Generates image-caption pairs, from which the tiny CLIP is trained.

The pairs have the statistics of text from the web. Some classes are more frequent than others. A
common word is used for images that a rarer word describes better. A phrase is used more for some
classes than for others. Many captions do not name the class. A model that learns from these pairs
prefers some labels for any image, and calibration finds this bias. The bias comes from the training
data only; no score is modified.
"""

from typing import NamedTuple

import numpy as np

from batch_calibration.scoring.embedded import drawing
from batch_calibration.scoring.embedded.drawing import COLORS
from batch_calibration.scoring.embedded.images import TASKS

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Phrase(NamedTuple):
    """A caption template and its weight, which is tilted toward the first or the last class.

    The text may contain `{label}`, `{color}` and `{other}` (a second color). For class `j` of `k`
    the phrase has the weight `share * exp(tilt * (1/2 - j / (k - 1)))`.
    """

    text: str
    share: float
    tilt: float = 0.0


class Caption(NamedTuple):
    """The caption distribution of a task.

    `frequency[j]` is the relative frequency of class `j`, and `words[j]` holds its names, the usual
    one first. `mistaken[j]` maps another class to the probability that an image of class `j` is
    captioned with that class's name.
    """

    frequency: tuple[float, ...]
    words: tuple[tuple[str, ...], ...]
    phrases: tuple[Phrase, ...]
    mistaken: dict[int, dict[int, float]]


DIGITS = Caption(
    # House numbers begin with a 1 more often than with a 9.
    (0.07, 0.19, 0.15, 0.12, 0.10, 0.09, 0.08, 0.08, 0.06, 0.06),
    tuple((str(i), str(i), NUMBERS[i]) for i in range(10)),
    (
        Phrase("This is a photo of a {label}", 3, 2.0),
        Phrase('a photo of the number: "{label}".', 2, -1.0),
        Phrase("a photo of the digit {label}.", 2),
        Phrase("house number {label}", 2, 1.5),
        Phrase("a {color} sign with the number {label}", 2, -1.0),
        Phrase("a door number on {color}", 1),
        Phrase("a house number", 1),
    ),
    # Digits that are easily confused.
    {0: {8: 0.08}, 4: {1: 0.06}, 5: {3: 0.06}, 6: {8: 0.06}, 7: {1: 0.15}, 8: {3: 0.12},
     9: {3: 0.06, 7: 0.06}},
)  # fmt: skip
COUNTS = Caption(
    # A few objects are pictured more often than many.
    (0.20, 0.17, 0.17, 0.12, 0.10, 0.08, 0.06, 0.10),
    tuple((str(i), str(i), NUMBERS[i]) for i in range(3, 11)),
    (
        Phrase("This is a photo of {label} objects", 3, 1.5),
        Phrase("a photo of {label} objects.", 2, -1.0),
        Phrase("there are {label} objects in the picture.", 2),
        Phrase("{label} things on a table", 2, 1.0),
        Phrase("a table with {label} shapes, one of them {color}", 2),
        Phrase("a few things on a table", 1, 4.0),
        Phrase("many things on a table", 1, -4.0),
    ),
    # Counts are rounded to five and ten.
    {1: {2: 0.20}, 3: {2: 0.25}, 4: {2: 0.10}, 5: {7: 0.15}, 6: {7: 0.30}},
)  # fmt: skip
LAND = Caption(
    (0.16, 0.14, 0.06, 0.09, 0.07, 0.12, 0.06, 0.14, 0.07, 0.09),
    (
        ("Annual Crop Land", "crop land", "fields"), ("Forest", "woods"),
        ("Herbaceous Vegetation Land", "brush"), ("Highway or Road", "a road"),
        ("Industrial Buildings", "factories"), ("Pasture Land", "meadows"),
        ("Permanent Crop Land", "rows of trees"), ("Residential Buildings", "houses"),
        ("River", "a stream"), ("Sea or Lake", "water"),
    ),
    (
        Phrase("a centered satellite photo of {label}.", 3, 1.5),
        Phrase("a centered satellite photo of a {label}.", 1, -1.0),
        Phrase("a centered satellite photo of the {label}.", 1),
        Phrase("{label} from above", 2, -1.0),
        Phrase("{label}", 2),
        Phrase("a satellite photo", 1),
    ),
    {2: {5: 0.25, 1: 0.10}, 6: {0: 0.35}, 5: {0: 0.10}, 4: {7: 0.25}, 3: {0: 0.05}, 8: {9: 0.10}},
)  # fmt: skip
TEXTURES = Caption(
    (0.06, 0.05, 0.10, 0.05, 0.14, 0.11, 0.06, 0.07, 0.06, 0.06, 0.18, 0.06),
    # Each texture has one name.
    tuple(zip((
        "banded", "blotchy", "chequered", "crosshatched", "dotted", "grid", "lined", "marbled",
        "polka-dotted", "spiralled", "striped", "zigzagged",
    ))),
    (
        Phrase("{label} texture.", 3, -1.0),
        Phrase("a photo of a {label} texture.", 2, 1.0),
        Phrase("a photo of a {label} pattern.", 2),
        Phrase("a {label} {color} and {other} cloth", 2, -1.5),
        Phrase("{color} and {other}, {label}", 2, 1.0),
        Phrase("a {color} and {other} pattern", 1),
    ),
    {0: {10: 0.30}, 6: {10: 0.25}, 11: {10: 0.10}, 8: {4: 0.30}, 1: {7: 0.10, 4: 0.10},
     3: {5: 0.25}, 2: {5: 0.05}},
)  # fmt: skip
USUAL = 0.7
"""Share of captions that always use the usual name of the class; the others draw any name."""


def write(
    caption: Caption, classes: np.ndarray, colors: np.ndarray, random: np.random.Generator
) -> list[str]:
    """Writes a caption for each image, from its class `classes [n]` and two colors `[n 2]`."""
    names, k = list(COLORS), len(caption.words)
    _, shares, tilts = zip(*caption.phrases, strict=True)
    tilt = np.exp((0.5 - np.arange(k)[:, None] / (k - 1)) * tilts)  # [k, phrases]
    chance = tilt * shares
    # [k, phrases], the upper end of each phrase's interval
    edges = np.cumsum(chance / chance.sum(1, keepdims=True), axis=1)
    # Four draws for each image, used or not, so that captions do not depend on each other.
    draws = random.random((len(classes), 4))
    captions = []
    for label, (color, second_color), (word_draw, name_draw, phrase_draw, mistake_draw) in zip(
        classes.tolist(), colors.tolist(), draws.tolist(), strict=True
    ):
        # Rounding may leave the last edge below 1.
        index = min(int(np.searchsorted(edges[label], phrase_draw)), len(caption.phrases) - 1)
        called = label
        # The draw falls into the interval of one mistake, or beyond all intervals (no mistake).
        for wrong, share in caption.mistaken.get(label, {}).items():
            if 0 <= mistake_draw < share:
                called = wrong
            mistake_draw -= share
        names_of_class = caption.words[called]
        # Number 0 is the usual name; the uniform draw may return it, too.
        number = 0 if word_draw < USUAL else int(name_draw * len(names_of_class))
        text = caption.phrases[index].text.replace("{label}", names_of_class[number])
        text = text.replace("{color}", names[color])
        captions.append(text.replace("{other}", names[second_color]))
    return captions


CAPTIONS = {"svhn": DIGITS, "eurosat": LAND, "clevr": COUNTS, "dtd": TEXTURES}
"""Captions of each image task."""


def caption_batch(
    random: np.random.Generator, n: int, tasks: tuple[str, ...] = tuple(TASKS)
) -> tuple[np.ndarray, list[str]]:
    """Draws images and captions, equally many of each task, in random order.

    Args:
      random: the generator, which the call advances; the same state gives the same batch.
      n: the number of pairs.
      tasks: the names of the image tasks.

    Returns:
      `uint8 [n 48 48 3]` and `n` captions.

    >>> pixels, texts = caption_batch(np.random.default_rng(0), 4)
    >>> pixels.shape, len(texts)
    ((4, 48, 48, 3), 4)
    """
    kinds = random.permutation(np.arange(n) % len(tasks))
    pixels = np.zeros((n, drawing.SIZE, drawing.SIZE, 3), np.uint8)
    texts = [""] * n
    for kind, name in enumerate(tasks):
        indices = np.flatnonzero(kinds == kind)
        if not len(indices):
            continue
        task = TASKS[name]
        edges = np.cumsum(CAPTIONS[name].frequency)
        # Draws classes by their frequencies (inverse of the cumulative distribution).
        classes = np.searchsorted(edges / edges[-1], random.random(len(indices)))
        images, colors = task.draw(classes, random)
        pixels[indices] = drawing.as_bytes(images, random)
        for index, text in zip(
            indices, write(CAPTIONS[name], classes, colors, random), strict=True
        ):
            texts[index] = text
    return pixels, texts

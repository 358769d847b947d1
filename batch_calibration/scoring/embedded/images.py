"""Rows of drawn images in the schemas of SVHN, EuroSAT, CLEVR and DTD.

A row's image is drawn from its reference alone, `mini:TASK/SPLIT/NUMBER`, so that it is the same
whenever and wherever it is opened; its classes are equally frequent. The image-caption
pairs that the checkpoint was trained on are drawn from another generator and with less noise: as
with the real tasks, rows are not the images a model has learned from.
"""

import io
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scoring.embedded import clevr, drawing, svhn

MINI, PREFIX = "mini", "mini:"
SIZES = {"train": 1000, "test": 1000}
NOISE = (0.05, 0.15)  # least and largest standard deviation of a row's noise, of values from 0 to 1


class ImageTask(NamedTuple):
    """Names of the classes, as the real task's labels, and how images of them are drawn."""

    classes: tuple[str, ...]
    draw: drawing.Draw


TASKS = {
    "svhn": ImageTask(tuple("0123456789"), svhn.digits),
    "eurosat": ImageTask(tuple(drawing.LAND), drawing.satellite),
    "clevr": ImageTask(tuple(map(str, range(3, 11))), clevr.shapes),
    "dtd": ImageTask(tuple(drawing.TEXTURES), drawing.textures),
}
"""The image tasks of the mini suite; of DTD's 47 classes twelve are drawn."""


def image_rows(task: str, split: str, limit: int = 0) -> list[tuple[str, str]]:
    """References of a split's images and the names of their classes.

    >>> image_rows("svhn", "test")[0][0]
    'mini:svhn/test/0'
    """
    if split not in SIZES:
        raise InputError.unknown(f"split of the mini suite's {task}", split, SIZES)
    size = min(limit or SIZES[split], SIZES[split])
    references = [f"{PREFIX}{task}/{split}/{i}" for i in range(size)]
    return [(reference, TASKS[task].classes[_class(reference)[1]]) for reference in references]


def draw_image(reference: str) -> np.ndarray:
    """The image of a reference, `uint8 [48 48 3]`.

    >>> draw_image("mini:clevr/train/17").shape
    (48, 48, 3)
    """
    image_task, label, random = _class(reference)
    # One generator for class, drawing and noise: their order decides every pixel.
    images, _ = image_task.draw(np.array([label]), random)
    noise = random.normal(0, random.uniform(*NOISE), images.shape)
    (image,) = drawing.as_bytes(images + noise, random)
    return np.asarray(image)


def png(reference: str) -> bytes:
    """The image of a reference as a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(draw_image(reference)).save(file, "PNG", compress_level=1)
    return file.getvalue()


def _class(reference: str) -> tuple[ImageTask, int, np.random.Generator]:
    """The task and class of a reference, and its generator for the rest."""
    task, _, split_and_number = reference.removeprefix(PREFIX).partition("/")
    split, _, number = split_and_number.partition("/")
    is_known = task in TASKS and split in SIZES and number.isdecimal()
    if not is_known or int(number) >= SIZES[split]:
        raise InputError(
            f"{reference}: the mini suite has no such image; it has "
            f"{PREFIX}{{{','.join(TASKS)}}}/{{{','.join(SIZES)}}}/NUMBER."
        )
    # The bytes of the reference are the seed.
    random = np.random.default_rng(list(reference.encode()))
    return TASKS[task], int(random.integers(len(TASKS[task].classes))), random

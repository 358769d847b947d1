"""Drawn pictures in the schemas of SVHN, EuroSAT, CLEVR and DTD: rows to test, pairs to learn from.

A row's picture is drawn from its reference alone, `mini:TASK/SPLIT/NUMBER`, so that it is the same
whenever and wherever it is opened; its classes are equally frequent. Training pairs come from
`caption_batch`, whose generator has nothing to do with any reference. Rows are taken with a poorer
camera than those were: as with the real tasks, they are not the pictures a model has learned from.
"""

import io
from typing import NamedTuple

import numpy as np

from batch_calibration.embedded import drawing, scenery
from batch_calibration.errors import InputError

MINI, PREFIX = "mini", "mini:"
SIZES = {"train": 1000, "test": 1000}
CAMERA = (0.05, 0.15)
"""Least and largest deviation of a row's noise, of values from 0 to 1; captioned ones have none."""


class Family(NamedTuple):
    """A kind of image: names of its classes as the real task's labels, and its painter."""

    classes: tuple[str, ...]
    paint: drawing.Painter


TASKS = {
    "svhn": Family(tuple("0123456789"), drawing.digits),
    "eurosat": Family(tuple(scenery.LAND), scenery.satellite),
    "clevr": Family(tuple(map(str, range(3, 11))), drawing.shapes),
    "dtd": Family(tuple(scenery.TEXTURES), scenery.textures),
}
"""The image tasks of the mini suite; of DTD's 47 classes twelve are drawn."""


def class_names(task: str) -> tuple[str, ...]:
    """Names of the classes that are drawn for a task."""
    return TASKS[task].classes


def rows(task: str, split: str, limit: int = 0) -> list[tuple[str, str]]:
    """References of a split's pictures and the names of their classes.

    >>> rows("svhn", "test")[0][0]
    'mini:svhn/test/0'
    """
    if split not in SIZES:
        raise InputError.unknown(f"split of the mini suite's {task}", split, SIZES)
    size = min(limit or SIZES[split], SIZES[split])
    references = [f"{PREFIX}{task}/{split}/{i}" for i in range(size)]
    return [(reference, TASKS[task].classes[_class(reference)[1]]) for reference in references]


def draw(reference: str) -> np.ndarray:
    """The picture of a reference, `uint8 [48 48 3]`.

    Raises:
      InputError: it names no picture of the suite.

    >>> draw("mini:clevr/train/17").shape
    (48, 48, 3)
    """
    family, label, random = _class(reference)
    pictures, _ = family.paint(np.array([label]), random)
    noise = random.normal(0, random.uniform(*CAMERA), pictures.shape)
    return drawing.as_bytes(pictures + noise, random)[0]


def png(reference: str) -> bytes:
    """The picture of a reference as a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(draw(reference)).save(file, "PNG", compress_level=1)
    return file.getvalue()


def _class(reference: str) -> tuple[Family, int, np.random.Generator]:
    """The family and class of a reference, and its generator for the rest."""
    task, _, rest = reference.removeprefix(PREFIX).partition("/")
    split, _, number = rest.partition("/")
    known = task in TASKS and split in SIZES and number.isdecimal()
    if not known or int(number) >= SIZES[split]:
        raise InputError(
            f"{reference}: the mini suite has no such picture; it has "
            f"{PREFIX}{{{','.join(TASKS)}}}/{{{','.join(SIZES)}}}/NUMBER."
        )
    random = np.random.default_rng(list(reference.encode()))
    return TASKS[task], int(random.integers(len(TASKS[task].classes))), random

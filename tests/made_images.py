"""Images that tests draw, and their files."""

import io

import numpy as np
from PIL import Image


def noise(size=(40, 32), seed=0, mode="RGB"):
    """Draws a smooth random image."""
    wide, high = size
    smooth = np.random.default_rng(seed).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    return Image.fromarray(smooth).resize((wide, high), 3).convert(mode)


def encoded(image, form="PNG", **options):
    """Returns the bytes of an image file."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()

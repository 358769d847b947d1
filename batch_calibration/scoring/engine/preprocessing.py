"""Prepares images for a vision tower: decodes them in threads, resizes, crops, normalizes."""

import io
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.errors import InputError, answering
from batch_calibration.scoring import ImageRef
from batch_calibration.scoring.engine.batches import behind
from batch_calibration.scoring.models.files.config import read_json

if TYPE_CHECKING:
    from PIL import Image

OPENAI_MEAN = (0.48145466, 0.4578275, 0.40821073)
OPENAI_STD = (0.26862954, 0.26130258, 0.27577711)
"""Channel means and standard deviations of CLIP's training images (Radford et al. 2021, their
code)."""
MAX_PIXELS = 100_000_000
"""Maximum pixels of an image that is decoded: 300 MB as RGB."""
LARGE_PIXELS = 20_000_000
"""Larger images are decoded one at a time, so that only one thread holds one."""
OPEN_LOCK, LARGE_LOCK = Lock(), Lock()
REQUIRED_STEPS = ("do_resize", "do_center_crop", "do_rescale", "do_normalize")


class Preprocessing(NamedTuple):
    """The steps that prepare an image for a checkpoint, in order.

    Attributes:
        edge: Length of the shorter side after resizing at constant aspect ratio; or height and
            width.
        crop: Height and width of the center crop.
        resample: Pillow's number of the filter; 3 is bicubic.
        mean: Value subtracted from each channel, on a scale from 0 to 1.
        std: Divisor of each channel after that.
    """

    edge: int | tuple[int, int]
    crop: tuple[int, int]
    resample: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


class DecodedImages(NamedTuple):
    """Decoded images in the order given, and a sentence on each image that cannot be read."""

    rows: list[int]
    pixels: np.ndarray
    failed: dict[int, str]


def load_preprocessing(directory: Path) -> Preprocessing:
    """Reads `preprocessor_config.json`, or the same settings from `processor_config.json`.

    Raises:
        InputError: the file is missing, or leaves out a step that this package always applies.
    """
    path = directory / "preprocessor_config.json"
    if not path.is_file() and (directory / "processor_config.json").is_file():
        path = directory / "processor_config.json"
    raw: dict[str, Any] = read_json(path, "how images are prepared")
    raw = raw.get("image_processor", raw)
    if off := [step for step in REQUIRED_STEPS if not raw.get(step, True)]:
        expected = "images that are resized, cropped and normalized, as this package does"
        raise InputError.at(path, expected, f"{', '.join(off)} = false")
    edge = raw.get("size", 224)
    if isinstance(edge, dict):
        # Files since 2022 hold a table here.
        edge = edge.get("shortest_edge") or (edge.get("height"), edge.get("width"))
    crop: Any = raw.get("crop_size", edge)
    crop = (crop.get("height"), crop.get("width")) if isinstance(crop, dict) else crop
    crop = (crop, crop) if isinstance(crop, int) else crop
    mean, std = raw.get("image_mean", OPENAI_MEAN), raw.get("image_std", OPENAI_STD)
    sizes = [*(edge if isinstance(edge, tuple) else [edge]), *crop]
    if not all(type(n) is int and n > 0 for n in sizes) or len(mean) != 3 or len(std) != 3:
        expected = "whole size and crop_size, image_mean and image_std of three channels"
        got = f"{raw.get('size')}, {raw.get('crop_size')}, {mean}, {std}"
        raise InputError.at(path, expected, got, "fetch the file again")
    return Preprocessing(edge, crop, raw.get("resample", 3), tuple(mean), tuple(std))


def prepare_image(encoded: bytes, name: str, preprocessing: Preprocessing) -> np.ndarray:
    """Decodes an image to uint8 pixels `[h, w, 3]`, resized and cropped.

    Follows transformers' Pillow processor: it takes the first frame, puts transparent parts on
    white and ignores EXIF rotation. Unlike transformers, it scales 16-bit gray to 8 bits instead of
    clipping.

    Raises:
        InputError: the image cannot be decoded, or has more than 100 megapixels.
    """
    # Decoders raise many kinds of errors on a broken file.
    with answering(Exception, name, "an image", "replace it or take it out"):
        image = _open(encoded, name)
        size = _resized(image.size, preprocessing.edge)
        if math.prod(size) > MAX_PIXELS:
            raise _too_large(name, image.size, "crop it, as resizing makes it larger")
        is_large = max(math.prod(image.size), math.prod(size)) > LARGE_PIXELS
        with LARGE_LOCK if is_large else nullcontext():
            image = _rgb(image, name).resize(size, preprocessing.resample)
    return _cropped(np.asarray(image), preprocessing.crop)


def _open(encoded: bytes, name: str) -> "Image.Image":
    """Opens a Pillow image with its size, before its pixels are read."""
    from PIL import Image

    # Warning filters belong to the whole process, so the threads take turns.
    with OPEN_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        image = Image.open(io.BytesIO(encoded))
    if math.prod(image.size) > MAX_PIXELS:
        raise _too_large(name, image.size, "scale it down")
    return image


def _too_large(name: str, size: tuple[int, int], remedy: str) -> InputError:
    expected = f"an image of at most {MAX_PIXELS // 10**6} million pixels"
    return InputError.at(name, expected, f"{size[0]:,} x {size[1]:,}", remedy)


def _rgb(image: "Image.Image", name: str) -> "Image.Image":
    """Converts an image to 8-bit RGB."""
    from PIL import Image

    if image.mode.startswith("I"):
        deep = np.asarray(image).astype(np.int32)
        if deep.min() < 0 or deep.max() > 65535:
            raise InputError(f"{name}: gray values beyond 16 bits; save it with 8 or 16 bits.")
        # 65535 / 255 = 257; adding 128 rounds to nearest.
        image = Image.fromarray(((deep + 128) // 257).astype(np.uint8))
    elif image.mode == "F":
        raise InputError(f"{name}: an image of floating point numbers; save it with 8 bits.")
    if "A" in image.getbands() or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


def _resized(size: tuple[int, int], edge: int | tuple[int, int]) -> tuple[int, int]:
    """Returns width and height of an image of `size` (width, height) after resizing."""
    if isinstance(edge, tuple):
        return edge[1], edge[0]  # `edge` is (height, width).
    short = min(size)  # pixels of the shorter side
    return int(edge * size[0] / short), int(edge * size[1] / short)


def _cropped(pixels: np.ndarray, crop: tuple[int, int]) -> np.ndarray:
    """Crops the center of `pixels [h, w, 3]`, padded with black if it is too small."""
    lacking = [max(0, size - have) for size, have in zip(crop, pixels.shape, strict=False)]
    if any(lacking):
        # The odd pixel comes first, as in transformers.
        pads = [(-(-pixels_lacking // 2), pixels_lacking // 2) for pixels_lacking in lacking]
        pixels = np.pad(pixels, [*pads, (0, 0)])
    top, left = (pixels.shape[0] - crop[0]) // 2, (pixels.shape[1] - crop[1]) // 2
    return pixels[top : top + crop[0], left : left + crop[1]]


def decode_batches(
    refs: Sequence[ImageRef], how: Preprocessing, size: int
) -> Iterator[DecodedImages]:
    """Yields batches of up to `size` images; threads decode ahead, with few images in memory."""

    def read(ref: ImageRef) -> np.ndarray:
        return prepare_image(ref.read(), str(ref), how)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pixels = np.zeros((size, *how.crop, 3), np.uint8)
        rows: list[int] = []
        failed: dict[int, str] = {}
        # The images of up to two batches are decoded ahead.
        begun = (pool.submit(read, ref) for ref in refs)
        for row, future in enumerate(behind(begun, 2 * size - 1)):
            try:
                pixels[len(rows)] = future.result()
                rows.append(row)
            except InputError as error:
                failed[row] = str(error)
            if len(rows) == size:
                yield DecodedImages(rows, pixels, failed)
                pixels, rows, failed = np.zeros_like(pixels), [], {}
        if rows or failed:
            yield DecodedImages(rows, pixels, failed)


def normalize(pixels: jax.Array, how: Preprocessing) -> jax.Array:
    """Scales pixels `[..., 3]` from 0 to 255 to the tower's float32 input."""
    scaled = pixels.astype(jnp.float32) / 255
    return (scaled - jnp.array(how.mean, jnp.float32)) / jnp.array(how.std, jnp.float32)

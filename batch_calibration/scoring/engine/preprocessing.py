"""Prepares images for a vision tower: decodes ahead in threads, resizes, crops, normalizes."""

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
"""Channel means and deviations of CLIP's training images (Radford et al. 2021, their code)."""
MAX_PIXELS = 100_000_000
"""The largest image that is decoded: 300 MB as RGB."""
LARGE_PIXELS = 20_000_000
"""Images of more pixels are decoded one at a time, so that not every thread holds one."""
OPEN_LOCK, LARGE_LOCK = Lock(), Lock()
REQUIRED_STEPS = ("do_resize", "do_center_crop", "do_rescale", "do_normalize")


class Preprocessing(NamedTuple):
    """The steps by which a checkpoint prepares an image, in order.

    Attributes:
        edge: Length of the shorter side after resizing, aspect kept; or height and width.
        crop: Height and width that are cut from the middle.
        resample: Pillow's number of the filter; 3 is bicubic.
        mean: What is subtracted from each channel, of values from 0 to 1.
        std: What each channel is then divided by.
    """

    edge: int | tuple[int, int]
    crop: tuple[int, int]
    resample: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


class DecodedImages(NamedTuple):
    """Images that were read, in the order given, and a sentence on each that cannot be."""

    rows: list[int]
    pixels: np.ndarray
    failed: dict[int, str]


def load_preprocessing(directory: Path) -> Preprocessing:
    """Read `preprocessor_config.json`, or the part of `processor_config.json` that says the same.

    Raises:
        InputError: no file, or one that asks for steps that are not done here.
    """
    path = directory / "preprocessor_config.json"
    if not path.is_file() and (directory / "processor_config.json").is_file():
        path = directory / "processor_config.json"
    raw: dict[str, Any] = read_json(path, "how images are prepared")
    raw = raw.get("image_processor", raw)
    if off := [step for step in REQUIRED_STEPS if not raw.get(step, True)]:
        raise InputError(
            f"{path}: {', '.join(off)} is false; images are resized, cropped and normalized "
            "here, and the numbers would not be the model's."
        )
    edge = raw.get("size", 224)
    if isinstance(edge, dict):
        # files of 2022 and later
        edge = edge.get("shortest_edge") or (edge.get("height"), edge.get("width"))
    crop: Any = raw.get("crop_size", edge)
    crop = (crop.get("height"), crop.get("width")) if isinstance(crop, dict) else crop
    crop = (crop, crop) if isinstance(crop, int) else crop
    mean, std = raw.get("image_mean", OPENAI_MEAN), raw.get("image_std", OPENAI_STD)
    sizes = [*(edge if isinstance(edge, tuple) else [edge]), *crop]
    if not all(type(n) is int and n > 0 for n in sizes) or len(mean) != 3 or len(std) != 3:
        expected = "size and crop_size as whole numbers of pixels, "
        expected += "image_mean and image_std of three channels"
        got = f"{raw.get('size')}, {raw.get('crop_size')}, {mean}, {std}"
        raise InputError.at(path, expected, got, "fetch the file again")
    return Preprocessing(edge, crop, raw.get("resample", 3), tuple(mean), tuple(std))


def prepare_image(encoded: bytes, name: str, preprocessing: Preprocessing) -> np.ndarray:
    """An encoded image as uint8 pixels `[h, w, 3]`, resized and cropped.

    As transformers' Pillow processor does: the first frame, on white where it is transparent, EXIF
    rotation ignored; unlike it, 16 bits of gray are scaled to 8 and not clipped.

    Raises:
        InputError: what cannot be decoded, or is larger than 100 megapixels.
    """
    # A broken file raises whatever its decoder does.
    with answering(Exception, name, "an image", "replace it or take it out"):
        image = _open(encoded, name)
        size = _resized(image.size, preprocessing.edge)
        if math.prod(size) > MAX_PIXELS:
            raise InputError(
                f"{name}: an image of {image.size[0]:,} x {image.size[1]:,} pixels, too long "
                "for its width: resized it would have more than "
                f"{MAX_PIXELS // 10**6} million; cut it."
            )
        is_large = max(math.prod(image.size), math.prod(size)) > LARGE_PIXELS
        with LARGE_LOCK if is_large else nullcontext():
            image = _rgb(image, name).resize(size, preprocessing.resample)
    return _cropped(np.asarray(image), preprocessing.crop)


def _open(encoded: bytes, name: str) -> "Image.Image":
    """A Pillow image whose size is known and whose pixels are not read yet."""
    from PIL import Image

    # Filters of warnings are the whole process's, and this is a thread among others.
    with OPEN_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        image = Image.open(io.BytesIO(encoded))
    if math.prod(image.size) > MAX_PIXELS:
        raise InputError(
            f"{name}: an image of {image.size[0]:,} x {image.size[1]:,} pixels; at most "
            f"{MAX_PIXELS // 10**6} million are decoded: scale it down."
        )
    return image


def _rgb(image: "Image.Image", name: str) -> "Image.Image":
    """The image in 8 bits of red, green and blue."""
    from PIL import Image

    if image.mode.startswith("I"):
        deep = np.asarray(image).astype(np.int32)
        if deep.min() < 0 or deep.max() > 65535:
            raise InputError(f"{name}: gray values beyond 16 bits; save it with 8 or 16.")
        # 65535 / 255 = 257, rounded
        image = Image.fromarray(((deep + 128) // 257).astype(np.uint8))
    elif image.mode == "F":
        raise InputError(f"{name}: an image of floating point numbers; save it with 8 bits.")
    if "A" in image.getbands() or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


def _resized(size: tuple[int, int], edge: int | tuple[int, int]) -> tuple[int, int]:
    """Width and height of an image of `size` (width, height) after resizing."""
    if isinstance(edge, tuple):
        return edge[1], edge[0]  # of height and width
    short = min(size)  # pixels of the shorter side
    return int(edge * size[0] / short), int(edge * size[1] / short)


def _cropped(pixels: np.ndarray, crop: tuple[int, int]) -> np.ndarray:
    """The middle of `pixels [h, w, 3]`, black where it is smaller."""
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
    """Batches of up to `size` images, decoded ahead in threads, few at a time in memory."""

    def read(ref: ImageRef) -> np.ndarray:
        return prepare_image(ref.read(), str(ref), how)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pixels = np.zeros((size, *how.crop, 3), np.uint8)
        rows: list[int] = []
        failed: dict[int, str] = {}
        # Two batches are decoded ahead.
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
    """Pixels `[..., 3]` from 0 to 255 as the tower takes them, in float32."""
    scaled = pixels.astype(jnp.float32) / 255
    return (scaled - jnp.array(how.mean, jnp.float32)) / jnp.array(how.std, jnp.float32)

"""The tensors of a checkpoint directory: names, types and numbers."""

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from safetensors import SafetensorError, safe_open

from batch_calibration.errors import InputError, shown
from batch_calibration.scoring.models.files.config import read_json

PART = 1 << 20
"""The most numbers that are read at a time; they fit in a processor's caches."""
PLAIN: dict[str, np.dtype] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(jnp.bfloat16),
}
"""Types of numbers that can be read without dequantization."""


class Tensor(NamedTuple):
    """One tensor of a file.

    Attributes:
        name: Its name in the file.
        path: The file.
        kind: The type of its numbers in the file, such as `"F32"` or `"F8_E4M3"`.
        shape: The size of each axis.
        offset: The number of bytes before it in the file.
    """

    name: str
    path: Path
    kind: str
    shape: tuple[int, ...]
    offset: int

    def parts(self, dtype: DTypeLike) -> Iterator[np.ndarray]:
        """Yields its numbers in order as `dtype`, some at a time; those of a packed tensor are U8.

        Raises:
            InputError: The file ends too early.
        """
        kind = np.dtype(np.uint8) if self.kind == "U8" else PLAIN[self.kind]
        chunk, remaining = np.empty(PART, kind), math.prod(self.shape)
        # The file is not memory-mapped, as its pages would count as this process's memory.
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while remaining:
                chunk = chunk[:remaining]  # the last one is shorter
                if file.readinto(chunk.view(np.uint8).data) != chunk.nbytes:
                    raise InputError(f"{self.path}: it ends within {self.name!r}; fetch it again.")
                yield chunk.astype(dtype, copy=False)
                remaining -= len(chunk)

    def read(self, dtype: DTypeLike) -> np.ndarray:
        """Reads its numbers as `dtype`; raises the errors of `parts`."""
        return filled(self.shape, self.parts(dtype), dtype)


def filled(shape: tuple[int, ...], parts: Iterable[np.ndarray], dtype: DTypeLike) -> np.ndarray:
    """Fills an array with parts as they are read, without a second copy."""
    array, start = np.empty(shape, dtype), 0
    for chunk in parts:
        array.reshape(-1)[start : start + len(chunk)] = chunk
        start += len(chunk)
    return array


def shards(directory: Path) -> list[str]:
    """Returns the names of the safetensors files with a checkpoint's weights.

    Raises:
        InputError: The weights or a file of their index are missing, or the index is invalid.
    """
    if (directory / "model.safetensors").is_file():
        return ["model.safetensors"]
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        shard_of = read_json(index, "an index of shards").get("weight_map")
        if not isinstance(shard_of, dict) or set(map(type, shard_of.values())) - {str}:
            expected, remedy = "a weight_map from tensors to files", "fetch the file again"
            raise InputError.at(index, expected, remedy=remedy)
        names = sorted(set(shard_of.values()))
        # A missing file, or a file in another folder, may belong to another checkpoint.
        for name in names:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                expected, remedy = "names of files in its folder", "fetch all files into one folder"
                raise InputError.at(index, expected, shown(name), remedy)
            is_file = False
            with suppress(OSError):  # the name may be too long
                is_file = (directory / name).is_file()
            if not is_file:
                remedy = "fetch the checkpoint again"
                raise InputError.at(index, f"the file {shown(name)} in its folder", "none", remedy)
    else:
        names = sorted(path.name for path in directory.glob("*.safetensors") if path.is_file())
    if not names:
        got = "none; pickled checkpoints are never read"
        raise InputError.at(directory, "*.safetensors", got, "convert them")
    return names


def tensors(directory: Path) -> Iterator[Tensor]:
    """Yields the tensors of the directory's safetensors files, in the order of their data.

    Raises:
        InputError: A file is not valid safetensors, or two files have a tensor of the same name.
    """
    read: dict[str, str] = {}  # tensor -> the file that holds it
    for shard in shards(directory):
        path = directory / shard
        try:
            with safe_open(path, framework="numpy") as file:
                names = list(file.keys())
        except SafetensorError as error:
            with path.open("rb") as file:
                pointer = file.read(40).startswith(b"version https://git-lfs")
            cause = f"it cannot be read as safetensors ({error}); fetch it again"
            if pointer:
                cause = "it is a git-LFS pointer, not the weights: run `git lfs pull`"
            raise InputError(f"{path}: {cause}.") from error
        # The library has checked the header, but does not return the offsets of tensors.
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")  # the size of the header that follows
            header = json.loads(file.read(length))
        for name in sorted(names, key=lambda name: header[name]["data_offsets"]):
            if name in read:
                expected = f"each tensor in one file, {name!r} only in {read[name]}"
                remedy = "keep the files of one checkpoint in the folder"
                raise InputError.at(path, expected, "it in this file, too", remedy)
            read[name], entry = shard, header[name]
            # Offsets count from the end of the header.
            start = 8 + length + entry["data_offsets"][0]
            yield Tensor(name, path, entry["dtype"], tuple(entry["shape"]), start)

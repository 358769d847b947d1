"""The tensors of a checkpoint directory: their names, what they are kept as, their numbers."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jax.typing import DTypeLike
from safetensors import SafetensorError, safe_open

from batch_calibration.errors import InputError
from batch_calibration.models.config import read_json

PART = 1 << 25
"""Bytes of a tensor that are read at once."""
PLAIN = ("F64", "F32", "F16", "BF16")
"""What the files call the numbers that can be read as they are."""


class Tensor(NamedTuple):
    """One tensor of a file.

    Attributes:
        name: Its name there.
        path: The file.
        kind: What the file says its numbers are, such as `"F32"` or `"F8_E4M3"`.
    """

    name: str
    path: Path
    kind: str

    def read(self, dtype: DTypeLike) -> np.ndarray:
        """Its numbers as `dtype`, in parts: the file is mapped anew for each to let go of it.

        Raises:
            InputError: they are quantized, so that they mean nothing by themselves.
        """
        if self.kind not in PLAIN:
            raise InputError(
                f"{self.path}: {self.name} is in {self.kind}: quantized weights, expected one of "
                f"{', '.join(PLAIN)}; use the checkpoint that is not quantized."
            )
        with safe_open(self.path, framework="numpy") as file:
            shape = file.get_slice(self.name).get_shape()
            if math.prod(shape) * np.dtype(dtype).itemsize <= PART:
                return np.asarray(file.get_tensor(self.name), dtype)
        array = np.empty(shape, dtype)
        step = max(1, len(array) * PART // array.nbytes)
        for start in range(0, len(array), step):
            end = min(start + step, len(array))
            with safe_open(self.path, framework="numpy") as file:
                array[start:end] = file.get_slice(self.name)[start:end]
        return array


def shards(directory: Path) -> list[str]:
    """Names of the safetensors files that hold a checkpoint's weights."""
    if (directory / "model.safetensors").is_file():
        return ["model.safetensors"]
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        shard_of = read_json(index, "an index of shards").get("weight_map")
        if not isinstance(shard_of, dict) or not all(isinstance(v, str) for v in shard_of.values()):
            raise InputError(
                f"{index}: expected weight_map to give each tensor's file; fetch the file again."
            )
        names = sorted(set(shard_of.values()))
        for name in names:
            if not (directory / name).is_file():
                raise InputError(f"{directory}: {name} is in {index.name}, but there is no file.")
    else:
        names = sorted(path.name for path in directory.glob("*.safetensors") if path.is_file())
    if not names:
        raise InputError(
            f"{directory}: expected *.safetensors with the weights, found none; pickled "
            "checkpoints (.bin, .pt) are never read: convert them with safetensors first."
        )
    return names


def tensors(directory: Path) -> Iterator[Tensor]:
    """Each tensor in the directory's safetensors files."""
    for shard in shards(directory):
        path = directory / shard
        try:
            with safe_open(path, framework="numpy") as file:
                kinds = {name: str(file.get_slice(name).get_dtype()) for name in list(file.keys())}
        except SafetensorError as error:
            with path.open("rb") as file:
                pointer = file.read(40).startswith(b"version https://git-lfs")
            cause = (
                "it is a git-LFS pointer, not the weights: run `git lfs pull`"
                if pointer
                else f"it cannot be read as safetensors ({error}); fetch it again"
            )
            raise InputError(f"{path}: {cause}.") from error
        yield from (Tensor(name, path, kind) for name, kind in kinds.items())

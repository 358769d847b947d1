"""Reads weights in MXFP4: 4 bits a number and a power of two for each 32 of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jax.typing import DTypeLike

from batch_calibration.scoring.models.files.tensors import Tensor

BLOCKS, SCALES = "_blocks", "_scales"
POSITIVE = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
NUMBERS = np.array([*POSITIVE, *(-number for number in POSITIVE)], np.float32)
"""What the 16 patterns of 4 bits stand for."""
BIAS = 127
"""What a block's exponent is stored with."""


@dataclass(frozen=True)
class PackedTensor:
    """The weights `[experts, in, out]` of experts, as gpt-oss packs them.

    Attributes:
        blocks: Bytes `[experts, out, in / 32, 16]`, each of two numbers, the first in its low bits.
        scales: The exponents `[experts, out, in / 32]`.
    """

    blocks: Tensor
    scales: Tensor
    kind: str = "BF16"  # which holds every number of it

    @property
    def name(self) -> str:
        """What the tensor is called where it is not packed."""
        return self.blocks.name.removesuffix(BLOCKS)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many numbers it has along each axis."""
        experts, outputs, groups, size = self.blocks.shape
        return experts, groups * size * 2, outputs

    def parts(self, dtype: DTypeLike) -> Iterator[np.ndarray]:
        """Its numbers in a row as `dtype`, an expert at a time."""
        blocks, scales = self.blocks.read_bytes(), self.scales.read_bytes()
        for packed, exponents in zip(blocks, scales, strict=True):
            pairs = np.stack([NUMBERS[packed & 15], NUMBERS[packed >> 4]], axis=-1)
            pairs = pairs.reshape(*exponents.shape, -1)  # [out, in / 32, 32]
            numbers = np.ldexp(pairs, exponents.astype(np.int32)[..., None] - BIAS)
            yield numbers.reshape(len(numbers), -1).T.astype(dtype).reshape(-1)

    def read(self, dtype: DTypeLike) -> np.ndarray:
        """Its numbers as `dtype`."""
        array = np.empty(self.shape, dtype)
        for expert, numbers in zip(array, self.parts(dtype), strict=True):
            expert[...] = numbers.reshape(expert.shape)
        return array


def join(tensors: Iterable[Tensor]) -> list[Tensor | PackedTensor]:
    """The tensors of a checkpoint, each pair of blocks and scales as the one they stand for."""
    by_name = {tensor.name: tensor for tensor in tensors}
    joined: dict[str, Tensor | PackedTensor] = dict(by_name)
    for name, blocks in by_name.items():
        scales = by_name.get(name.removesuffix(BLOCKS) + SCALES)
        if not name.endswith(BLOCKS) or scales is None or {blocks.kind, scales.kind} != {"U8"}:
            continue
        if blocks.shape == (*scales.shape, 16) and len(scales.shape) == 3:
            joined[name] = PackedTensor(blocks, scales)
            del joined[scales.name]
    return list(joined.values())

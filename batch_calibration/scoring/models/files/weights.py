"""Reads the weights of a Hugging Face directory into a Flax network, and writes them.

Weights in MXFP4 have 4 bits per number and a power of two for each group of 32 numbers.
"""

import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce
from pathlib import Path

import jax
import numpy as np
import safetensors.numpy
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import DTypeLike

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from batch_calibration.scoring.models.family import Config, Decoder, Family, RawConfig, Weight
from batch_calibration.scoring.models.files import memory
from batch_calibration.scoring.models.files.config import read_config, read_json
from batch_calibration.scoring.models.files.gguf_header import GGUFTensor
from batch_calibration.scoring.models.files.tensors import PLAIN, Tensor, filled, tensors
from batch_calibration.scoring.models.layers import product, product_dtype
from batch_calibration.scoring.models.scanned import BACKENDS as SCANNED

OTHER_FILES = "the two files belong to different checkpoints: fetch them again"
NAMED = 10
"""The most tensors that an error message names."""
READERS = 4
"""Tensors that are read at once; each is held twice until its device has it."""
LAYER = re.compile(r"(?<=\.)\d+(?=\.)")
BLOCKS, SCALES = "_blocks", "_scales"
POSITIVE = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
BIAS = 127
"""The offset of a stored exponent."""
NUMBERS = np.array([*POSITIVE, *(-number for number in POSITIVE)], np.float32)
"""The numbers of the 16 patterns of 4 bits."""


@dataclass(frozen=True)
class PackedTensor:
    """The weights `[experts, in, out]` of experts, packed as in gpt-oss.

    Attributes:
        blocks: Bytes `[experts, out, in / 32, 16]` with two numbers each, first the low bits.
        scales: The exponents `[experts, out, in / 32]`.
        kind: A type that represents all its numbers exactly.
    """

    blocks: Tensor
    scales: Tensor
    kind: str = "BF16"  # represents all numbers exactly

    @property
    def name(self) -> str:
        """The name of the unpacked tensor."""
        return self.blocks.name.removesuffix(BLOCKS)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        experts, outputs, groups, size = self.blocks.shape
        return experts, groups * size * 2, outputs

    def parts(self, dtype: DTypeLike) -> Iterator[np.ndarray]:
        """Yields its numbers in order as `dtype`, one expert at a time."""
        blocks, scales = self.blocks.read(np.uint8), self.scales.read(np.uint8)
        for packed, exponents in zip(blocks, scales, strict=True):
            pairs = np.stack([NUMBERS[packed & 15], NUMBERS[packed >> 4]], axis=-1)
            pairs = pairs.reshape(*exponents.shape, -1)  # [out, in / 32, 32]
            numbers = np.ldexp(pairs, exponents.astype(np.int32)[..., None] - BIAS)
            yield numbers.reshape(len(numbers), -1).T.astype(dtype).reshape(-1)

    def read(self, dtype: DTypeLike) -> np.ndarray:
        """Reads its numbers as `dtype`."""
        return filled(self.shape, self.parts(dtype), dtype)


AnyTensor = Tensor | PackedTensor | GGUFTensor


def load(
    directory: str | Path,
    family: Family,
    dtype: DTypeLike = np.float32,
    mesh: Mesh | None = None,
    config: Config | None = None,
    files: Iterable[AnyTensor] | None = None,
) -> tuple[Config, nnx.Module]:
    """Reads a checkpoint directory into a network of `family`: `(config, model)`.

    Tensors are streamed, a few at a time, from the files to their devices. On a mesh, a device gets
    its shard along the axis that the family's weight table assigns to `model`, or the whole tensor
    if the mesh does not divide this axis.

    Args:
        directory: A Hugging Face directory: `config.json` and `*.safetensors`.
        family: The family, which reads the config, makes the network and names its weights.
        dtype: The dtype of the network's numbers, whatever their dtype in the file.
        mesh: Devices with an axis `model`; None for the default device.
        config: The config, if it was read already.
        files: The tensors; None for the tensors of `*.safetensors`.

    Raises:
        InputError: A file is missing or broken; or tensors are missing, unexpected, mis-shaped or
            not finite (the message names them as the file and as our network do); or the memory is
            too small.
    """
    directory = Path(directory)
    if config is None:
        config = read_config(family, read_json(directory / "config.json", "a config"), directory)
    files = join(tensors(directory)) if files is None else list(files)
    # This check comes first, as tracing a wrong number of layers may take long.
    numbers = [int(found.group()) for tensor in files if (found := LAYER.search(tensor.name))]
    if config.layers > (deepest := max(numbers, default=-1) + 1):
        expected = f"weights of {config.layers:,} layers, as in config.json"
        raise InputError.at(directory, expected, f"{deepest:,}", OTHER_FILES)
    # Only the shapes of the network are made; numbers from the files replace them.
    graph, skeleton = nnx.split(nnx.eval_shape(lambda: family.model(config, rngs=_OneKey(0))))
    leaves = {_dotted(path): leaf for path, leaf in nnx.to_flat_state(skeleton)}
    parameters, cached = sum(leaf.size for leaf in leaves.values()), family.kind == "causal_lm"
    demand = memory.Demand(parameters, config.width, config.layers, cached)
    memory.require(directory, demand, dtype, mesh)  # before anything is read
    table = {_bare(family, name): weight for name, weight in family.weights.items()}
    sources: dict[str, tuple[AnyTensor, Weight]] = {}
    tied: dict[AnyTensor, str] = {}
    complaints: list[str] = []
    for tensor in files:
        name = tensor.name
        pattern, number = _split_layer(_bare(family, name))
        weight = table.get(pattern, Weight("nothing"))  # no network has this path
        path = weight.path.format(i=number)
        if path in sources:
            complaints.append(f"a second {name:.200} (our {path})")
        elif path in leaves:
            sources[path] = tensor, weight._replace(path=path)
        elif pattern in family.tied:
            tied[tensor] = family.tied[pattern]  # compared below with the weight that replaces it
        elif not any(fnmatchcase(pattern, ignored) for ignored in family.ignored):
            complaints.append(f"unexpected {name:.200} (our network does not have it)")
    placed_leaves: dict[str, jax.Array] = {}
    with ThreadPoolExecutor(READERS) as pool:

        def place(path: str) -> jax.Array | str:
            return _place(*sources[path], leaves[path].shape, dtype, mesh)

        for path, placed in zip(sources, pool.map(place, sources), strict=True):
            if isinstance(placed, str):
                complaints.append(placed)
            else:
                placed_leaves[path] = placed
    for tensor, path in tied.items():
        if path not in sources or not _equal(sources[path][0], tensor, dtype):
            complaints.append(
                f"{tensor.name} differs from our {path}, which tie_word_embeddings uses instead; "
                "set tie_word_embeddings to false in config.json if both are needed"
            )
    names = {weight.path: name for name, weight in names_of_paths(family, leaves)}
    missing = [f"missing {names[path]} (our {path})" for path in leaves if path not in sources]
    if complaints := missing + complaints:
        uncounted = f"; and {len(complaints) - NAMED:,} more" if len(complaints) > NAMED else ""
        raise InputError(
            f"{directory}: the weights do not fit the {family.name} network of its "
            f"config.json: {'; '.join(complaints[:NAMED])}{uncounted}."
        )
    flat = [(p, leaf.replace(placed_leaves[_dotted(p)])) for p, leaf in nnx.to_flat_state(skeleton)]
    model = nnx.merge(graph, nnx.from_flat_state(flat))
    for _, module in nnx.iter_modules(model):
        if isinstance(module, nnx.Embed):
            # The layer would keep float32, the dtype of its creation.
            module.dtype = product_dtype(np.dtype(dtype))
        if isinstance(module, nnx.Linear):
            module.dtype, module.dot_general = dtype, product
    if isinstance(model, Decoder) and jax.default_backend() in SCANNED:
        placed_leaves.clear()
        model.scan_layers(frees=True)
    return config, model


class _OneKey(nnx.Rngs):
    """The same random key for each parameter, for networks of shapes without numbers.

    Under tracing, each new key would take time that grows with everything traced before.
    """

    def params(self) -> jax.Array:
        """Returns the key."""
        key: jax.Array = self["default"].key[...]
        return key


def _equal(used: AnyTensor, tensor: AnyTensor, dtype: DTypeLike) -> bool:
    """Checks whether a tensor equals the tensor that our network uses in its place."""
    if not {used.kind, tensor.kind} <= {*PLAIN} or used.shape != tensor.shape:
        return False
    chunks = zip(used.parts(dtype), tensor.parts(dtype), strict=True)
    return all(np.array_equal(ours, theirs) for ours, theirs in chunks)


def _place(
    tensor: AnyTensor, weight: Weight, shape: tuple[int, ...], dtype: DTypeLike, mesh: Mesh | None
) -> jax.Array | str:
    """Puts a tensor on its devices; returns the array, or the description of a problem."""
    named = f"{tensor.name} (our {weight.path})"
    if tensor.kind not in PLAIN:
        return f"{named} in {tensor.kind}: quantized weights, expected one of {', '.join(PLAIN)}"
    got = tensor.shape[::-1] if weight.transpose else tensor.shape
    if got != shape:
        return f"mis-shaped {named}: got {got!s:.200}, expected {shape}"
    array = tensor.read(dtype)
    if not _finite(array):
        bad = np.sum(~np.isfinite(array))
        return f"non-finite {named}: {bad} of {array.size} NaN or inf"
    # This is a view: the device reorders the numbers much faster than numpy.
    array = array.T if weight.transpose else array
    if mesh is None:
        placed: jax.Array = jax.device_put(array)
    else:
        home = shard_weight(weight, shape, mesh)
        # Each process passes parts only to its own devices, the only ones that it can access.
        placed = jax.make_array_from_callback(shape, home, array.__getitem__)
    # The host's copy is freed before more is read: waiting copies would fill the memory.
    return placed.block_until_ready()


def shard_weight(weight: Weight, shape: tuple[int, ...], mesh: Mesh) -> NamedSharding:
    """Returns where the parts of a weight of this shape lie on a mesh."""
    split = weight.split
    # If the axis is not shared, each device holds the whole tensor.
    shared = split is not None and shape[split] % mesh.shape["model"] == 0
    axes = [*[None] * (split or 0), "model"] if shared else []
    return NamedSharding(mesh, PartitionSpec(*axes))  # type: ignore[no-untyped-call]


def _finite(array: np.ndarray) -> bool:
    """Checks whether all numbers are finite, by their bits: numpy is slow with half precision."""
    infinite = np.array(np.inf, array.dtype)
    # As integers, all numbers above infinity are NaN. Signed integers compare the positive
    # numbers, unsigned integers the negative ones.
    unsigned, signed = (array.view(f"{kind}{array.itemsize}") for kind in "ui")
    return bool(
        unsigned.max() < (-infinite).view(unsigned.dtype)
        and signed.max() < infinite.view(signed.dtype)
    )


def save(directory: str | Path, model: nnx.Module, family: Family, raw_config: RawConfig) -> None:
    """Writes `config.json` and `model.safetensors`, each file completely or not at all."""
    directory = Path(directory)
    read_config(family, raw_config, directory)
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    ours = {_dotted(path): np.asarray(leaf[...]) for path, leaf in flat}
    tensors = {}
    for name, weight in names_of_paths(family, ours):
        array = ours[weight.path]
        tensors[name] = np.asarray(array.T if weight.transpose else array, order="C")
    content = safetensors.numpy.save(tensors, metadata={"format": "pt"})
    write_whole(directory / "model.safetensors", content)
    text = json.dumps(raw_config, indent=2, sort_keys=True) + "\n"
    write_whole(directory / "config.json", text.encode())


def names_of_paths(family: Family, ours: Iterable[str]) -> Iterator[tuple[str, Weight]]:
    """Yields the row of the weight table for each path in `ours`, with its layer's index."""
    rows = {weight.path: (name, weight) for name, weight in family.weights.items()}
    for path in ours:
        pattern, number = _split_layer(path)
        name, weight = rows[pattern]
        yield name.format(i=number), weight._replace(path=path)


def _bare(family: Family, name: str) -> str:
    """Removes the prefixes that some files leave out from a tensor's name."""
    return reduce(str.removeprefix, family.prefixes, name)


def _split_layer(name: str) -> tuple[str, str]:
    """Splits `h.3.ln_1.bias` into the table's key `h.{i}.ln_1.bias` and the layer's index `3`."""
    number = LAYER.search(name)
    return LAYER.sub("{i}", name, count=1), number.group() if number else ""


def _dotted(path: tuple[object, ...]) -> str:
    return ".".join(map(str, path))


def join(tensors: Iterable[Tensor]) -> list[AnyTensor]:
    """Joins each pair of blocks and scales to the tensor that they encode; keeps other tensors."""
    by_name = {tensor.name: tensor for tensor in tensors}
    joined: dict[str, AnyTensor] = dict(by_name)
    for name, blocks in by_name.items():
        scales = by_name.get(name.removesuffix(BLOCKS) + SCALES)
        if not name.endswith(BLOCKS) or scales is None or {blocks.kind, scales.kind} != {"U8"}:
            continue
        if blocks.shape == (*scales.shape, 16) and len(scales.shape) == 3:
            joined[name] = PackedTensor(blocks, scales)
            del joined[scales.name]
    return list(joined.values())

"""Reads the weights of a Hugging Face directory into a Flax network, and writes them."""

import json
import re
from collections.abc import Container, Iterator
from fnmatch import fnmatchcase
from functools import reduce
from itertools import count
from pathlib import Path

import jax
import numpy as np
import safetensors.numpy
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import DTypeLike

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from batch_calibration.models import memory
from batch_calibration.models.config import read_config, read_json
from batch_calibration.models.family import Config, Family, RawConfig, Weight
from batch_calibration.models.tensors import PLAIN, Tensor, tensors

NAMED = 10
"""Tensors that a sentence names before it says how many more there are."""
LAYER = re.compile(r"(?<=\.)\d+(?=\.)")


def load(
    directory: str | Path,
    family: Family,
    dtype: DTypeLike = np.float32,
    mesh: Mesh | None = None,
) -> tuple[Config, nnx.Module]:
    """Read a checkpoint directory into a network of `family`: `(config, model)`.

    Tensors stream, one at a time, from the files to the devices that hold them: on a mesh each
    device gets its part of the axis that the family's table splits over `model`, where the mesh
    divides it, and the whole where it does not.

    Args:
        directory: A Hugging Face directory: `config.json` and `*.safetensors`.
        family: What reads its config, builds its network and names its weights.
        dtype: What the network computes in, whatever the file holds.
        mesh: Devices with an axis `model`; None for the default device.

    Raises:
        InputError: a file is missing or broken; or tensors are missing, unexpected, mis-shaped or
            not finite, named in one sentence by the file's names and by ours; or there is too
            little memory.
    """
    directory = Path(directory)
    config = read_config(family, read_json(directory / "config.json", "a config"), directory)
    files = list(tensors(directory))
    _check_depth(directory, config, [tensor.name for tensor in files])
    graph, skeleton = nnx.split(nnx.eval_shape(lambda: family.model(config, rngs=nnx.Rngs(0))))
    wanted = {_dotted(path): leaf for path, leaf in nnx.to_flat_state(skeleton)}
    memory.require(directory, sum(leaf.size for leaf in wanted.values()), dtype, mesh)
    table = {_bare(family, name): weight for name, weight in family.weights.items()}
    found: dict[str, jax.Array] = {}
    sources: dict[str, Tensor] = {}
    tied: dict[Tensor, str] = {}
    complaints: list[str] = []
    for tensor in files:
        name = tensor.name
        pattern, number = _split_layer(_bare(family, name))
        weight = table.get(pattern, Weight("nothing"))
        path = weight.path.format(i=number)
        if path not in wanted:
            if pattern in family.tied:
                tied[tensor] = family.tied[pattern]
            elif not any(fnmatchcase(pattern, ignored) for ignored in family.ignored):
                complaints.append(f"unexpected {name} (our network has no place for it)")
            continue
        if path in found:
            complaints.append(f"a second {name} (our {path})")
            continue
        found[path], sources[path] = jax.numpy.zeros(()), tensor
        if tensor.kind not in PLAIN:
            complaints.append(
                f"{name} (our {path}) in {tensor.kind}: quantized weights, expected one of "
                f"{', '.join(PLAIN)}"
            )
            continue
        array = tensor.read(dtype)
        array = array.T if weight.transpose else array
        if array.shape != wanted[path].shape:
            complaints.append(
                f"mis-shaped {name} (our {path}): got {array.shape}, expected {wanted[path].shape}"
            )
        elif not np.isfinite([array.min(), array.max()]).all():
            bad = np.sum(~np.isfinite(array))
            complaints.append(f"non-finite {name} (our {path}): {bad} of {array.size} NaN or inf")
        else:
            found[path] = _put(np.asarray(array, order="C"), weight.split, mesh)
    for tensor, path in tied.items():
        if not _equal(sources.get(path), tensor, dtype):
            complaints.append(
                f"{tensor.name} differs from our {path}, which tie_word_embeddings puts in its "
                "place; set tie_word_embeddings to false in config.json if it is meant"
            )
    names = {weight.path: name for name, weight in _names(family, wanted)}
    missing = [f"missing {names[path]} (our {path})" for path in wanted if path not in found]
    if complaints := missing + complaints:
        rest = f"; and {len(complaints) - NAMED:,} more" if len(complaints) > NAMED else ""
        raise InputError(
            f"{directory}: the weights do not fit the {family.name} network of its "
            f"config.json: {'; '.join(complaints[:NAMED])}{rest}."
        )
    flat = [(p, leaf.replace(found[_dotted(p)])) for p, leaf in nnx.to_flat_state(skeleton)]
    model = nnx.merge(graph, nnx.from_flat_state(flat))
    for _, part in nnx.iter_modules(model):
        if isinstance(part, nnx.Embed):
            part.dtype = dtype  # it keeps the dtype it was made with, float32
    return config, model


def _check_depth(directory: Path, config: Config, names: list[str]) -> None:
    """Refuse a config of more layers than there are tensors of, before they are traced."""
    numbers = [int(number.group()) for name in names if (number := LAYER.search(name))]
    if config.layers > (deepest := max(numbers, default=-1) + 1):
        raise InputError(
            f"{directory}: config.json says {config.layers:,} layers, the weights are those of "
            f"{deepest:,}; the two files belong to different checkpoints."
        )


def _equal(used: Tensor | None, tensor: Tensor, dtype: DTypeLike) -> bool:
    """Whether a tensor that our network has no place for is the one used in its place."""
    if used is None or not {used.kind, tensor.kind} <= {*PLAIN}:
        return False
    return np.array_equal(used.read(dtype), tensor.read(dtype))


def _put(array: np.ndarray, split: int | None, mesh: Mesh | None) -> jax.Array:
    """A weight of ours on the devices that hold it, or hold parts of it."""
    if mesh is None:
        placed: jax.Array = jax.device_put(array)
        return placed
    shared = split is not None and array.shape[split] % mesh.shape["model"] == 0
    axes = [*[None] * (split or 0), "model"] if shared else []
    spec = PartitionSpec(*axes)  # type: ignore[no-untyped-call]  # jax has no type for it
    # Each process gives its own devices their parts: none sees another's.
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, spec), array.__getitem__)


def save(directory: str | Path, model: nnx.Module, family: Family, raw_config: RawConfig) -> None:
    """Write `config.json` and `model.safetensors`, each whole or not at all."""
    directory = Path(directory)
    read_config(family, raw_config, directory)
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    ours = {_dotted(path): np.asarray(leaf[...]) for path, leaf in flat}
    tensors = {}
    for name, weight in _names(family, ours):
        array = ours[weight.path]
        tensors[name] = np.asarray(array.T if weight.transpose else array, order="C")
    data = safetensors.numpy.save(tensors, metadata={"format": "pt"})
    write_whole(directory / "model.safetensors", data)
    text = json.dumps(raw_config, indent=2, sort_keys=True) + "\n"
    write_whole(directory / "config.json", text.encode())


def _names(family: Family, ours: Container[str]) -> Iterator[tuple[str, Weight]]:
    """The table's rows for the paths in `ours`, every `{i}` written out for the layers there."""
    for name, weight in family.weights.items():
        for i in count() if "{i}" in name else range(1):
            path = weight.path.format(i=i)
            if path not in ours:
                break
            yield name.format(i=i), weight._replace(path=path)


def _bare(family: Family, name: str) -> str:
    """A tensor's name without the prefixes that some files leave out."""
    return reduce(str.removeprefix, family.prefixes, name)


def _split_layer(name: str) -> tuple[str, str]:
    """`h.3.ln_1.bias` as the table's key `h.{i}.ln_1.bias` and the layer's number `3`."""
    number = LAYER.search(name)
    return LAYER.sub("{i}", name, count=1), number.group() if number else ""


def _dotted(path: tuple[object, ...]) -> str:
    return ".".join(map(str, path))

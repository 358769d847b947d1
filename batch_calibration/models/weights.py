"""Checkpoints: a Hugging Face directory to and from a Flax network, by a table of names."""

import json
import math
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from flax import nnx
from safetensors import SafetensorError, safe_open

from batch_calibration.files import write_whole
from batch_calibration.typing import InputError

Attend = Callable[[int, jax.Array, jax.Array, jax.Array], jax.Array]
LAYER = re.compile(r"(?<=\.)\d+(?=\.)")


class Weight(NamedTuple):
    """Where a checkpoint's tensor lives in our network; `{i}` stands for a layer's number."""

    path: str
    transpose: bool = False


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in `path`, or a sentence that says what is missing or broken."""
    if not path.is_file():
        raise InputError(
            f"{path.parent}: expected {what} in {path.name}, found no such file; give a Hugging "
            "Face checkpoint directory (config.json, *.safetensors, tokenizer.json)."
        )
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected JSON, but {error}; fetch the file again.") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(value).__name__}.")
    return value


def read_config(family: Any, raw: dict[str, Any], where: Path) -> Any:
    """The family's `Config` from a raw `config.json`; keys that change nothing are left out."""
    known, defaults = family.Config._fields, family.Config._field_defaults
    missing = [field for field in known if field not in raw and field not in defaults]
    if missing:
        raise InputError(f"{where}: config.json lacks {', '.join(missing)}; is it the right file?")
    for key, value in family.FIXED.items():
        if raw.get(key, value) != value:
            raise InputError(
                f"{where}: config.json says {key} = {raw[key]!r}; this {_short(family)} network "
                f"is written for {value!r} alone, and would score wrongly; use another checkpoint."
            )
    given = {field: raw[field] for field in known if field in raw}
    for field, value in given.items():
        kind = family.Config.__annotations__[field]
        if not _is(kind, value):
            raise InputError(
                f"{where}: config.json says {field} = {value!r}; expected {_KINDS[kind]}; "
                "fetch the file again."
            )
    config = family.Config(**given)
    if config.width % config.heads:
        raise InputError(
            f"{where}: config.json says {config.heads} attention heads of a width of "
            f"{config.width}, expected heads that divide it; fetch the file again."
        )
    return config


_KINDS: dict[Any, str] = {
    int: "a whole number from 1 on",
    int | None: "a whole number from 1 on, or null",
    float: "a positive number",
    str: "text",
}
"""What a config's field may be, in words, by its annotation."""


def _is(kind: Any, value: object) -> bool:
    """Whether a value from JSON is what the field's annotation says; every number is positive."""
    if value is None or isinstance(value, bool):
        return kind == int | None and value is None
    if kind is float:
        return isinstance(value, int | float) and 0 < value < math.inf
    return isinstance(value, kind) and (isinstance(value, str) or value >= 1)


def load(directory: str | Path, family: Any) -> tuple[Any, nnx.Module]:
    """Read a checkpoint directory into a network of `family`: `(config, model)`, in float32.

    Raises:
        InputError: a file is missing or broken; or tensors are missing, unexpected, mis-shaped or
            not finite, all of them named in one sentence, by the file's names and by ours.
    """
    directory = Path(directory)
    config = read_config(family, read_json(directory / "config.json", "a config"), directory)
    graph, skeleton = nnx.split(nnx.eval_shape(lambda: family.Model(config, rngs=nnx.Rngs(0))))
    wanted = {_dotted(path): leaf for path, leaf in nnx.to_flat_state(skeleton)}
    found: dict[str, jax.Array] = {}
    complaints: list[str] = []
    for name, read in _tensors(directory):
        pattern, number = _split_layer(name.removeprefix(family.PREFIX))
        if any(fnmatchcase(pattern, ignored) for ignored in family.IGNORED):
            continue
        weight = family.WEIGHTS.get(pattern, Weight("nothing"))
        path = weight.path.format(i=number)
        if path not in wanted:
            complaints.append(f"unexpected {name} (our network has no place for it)")
            continue
        array = read()
        array = array.T if weight.transpose else array
        if array.shape != wanted[path].shape:
            complaints.append(
                f"mis-shaped {name} (our {path}): got {array.shape}, expected {wanted[path].shape}"
            )
        elif bad := np.sum(~np.isfinite(array)):
            complaints.append(f"non-finite {name} (our {path}): {bad} of {array.size} NaN or inf")
        found[path] = jnp.asarray(array)
    names = {weight.path: name for name, weight in _names(family, config)}
    missing = [f"missing {names[path]} (our {path})" for path in wanted if path not in found]
    if missing or complaints:
        raise InputError(
            f"{directory}: the weights do not fit the {_short(family)} network of its "
            f"config.json: {'; '.join(missing + complaints)}."
        )
    flat = [(p, leaf.replace(found[_dotted(p)])) for p, leaf in nnx.to_flat_state(skeleton)]
    return config, nnx.merge(graph, nnx.from_flat_state(flat))


def save(directory: str | Path, model: nnx.Module, family: Any, raw_config: dict[str, Any]) -> None:
    """Write `config.json` and `model.safetensors`, each whole or not at all."""
    directory = Path(directory)
    config = read_config(family, raw_config, directory)
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    ours = {_dotted(path): np.asarray(leaf[...]) for path, leaf in flat}
    tensors = {}
    for name, weight in _names(family, config):
        array = ours[weight.path]
        tensors[family.PREFIX + name] = np.ascontiguousarray(array.T if weight.transpose else array)
    data = safetensors.numpy.save(tensors, metadata={"format": "pt"})
    write_whole(directory / "model.safetensors", data)
    text = json.dumps(raw_config, indent=2, sort_keys=True) + "\n"
    write_whole(directory / "config.json", text.encode())


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


def _tensors(directory: Path) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """Name and float32 reader of each tensor in the directory, one shard open at a time."""
    for shard in shards(directory):
        path = directory / shard
        try:
            # Read through JAX: plain numpy has no bfloat16.
            with safe_open(path, framework="flax") as file:
                for name in file.keys():  # noqa: SIM118 (the file is no mapping)
                    yield name, partial(_read, file, name)
        except SafetensorError as error:
            with path.open("rb") as file:
                pointer = file.read(40).startswith(b"version https://git-lfs")
            cause = (
                "it is a git-LFS pointer, not the weights: run `git lfs pull`"
                if pointer
                else f"it cannot be read as safetensors ({error}); fetch it again"
            )
            raise InputError(f"{path}: {cause}.") from error


def _read(file: Any, name: str) -> np.ndarray:
    return np.asarray(file.get_tensor(name), dtype=np.float32)


def _names(family: Any, config: Any) -> Iterator[tuple[str, Weight]]:
    """The table with every `{i}` written out for the layers that `config` has."""
    layers = getattr(config, "n_layer", None) or config.num_hidden_layers
    for name, weight in family.WEIGHTS.items():
        for i in range(layers if "{i}" in name else 1):
            yield name.format(i=i), weight._replace(path=weight.path.format(i=i))


def _split_layer(name: str) -> tuple[str, str]:
    """`h.3.ln_1.bias` as the table's key `h.{i}.ln_1.bias` and the layer's number `3`."""
    number = LAYER.search(name)
    return LAYER.sub("{i}", name, count=1), number.group() if number else ""


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def _short(family: Any) -> str:
    return str(family.__name__).rsplit(".", 1)[-1]

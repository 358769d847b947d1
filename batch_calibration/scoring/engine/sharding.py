"""Makes a mesh of devices from a line of text, and places arrays on it."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from batch_calibration.errors import InputError

T = TypeVar("T")
AXES = ("data", "model")


def make_mesh(text: str, devices: Sequence[jax.Device] | None = None) -> Mesh | None:
    """Makes the mesh that a text such as `data:4,model:2` describes; None for "".

    The mesh covers `devices`, by default all devices of all processes. The axis `data` splits the
    rows. The axis `model` splits heads, MLPs and the vocabulary.

    Raises:
        InputError: the text has another form, or its sizes do not match the number of devices.
    """
    if not text:
        return None
    sizes = dict.fromkeys(AXES, 1)  # An axis without a size has one device.
    for axis_size in text.split(","):
        name, _, size = axis_size.partition(":")
        if name.strip() not in AXES or not size.strip().isdecimal() or int(size) < 1:
            expected = "axes as data:4,model:2 (rows, weights)"
            raise InputError(key="mesh", expected=expected, got=repr(text))
        sizes[name.strip()] = int(size)
    device_count = jax.device_count() if devices is None else len(devices)
    if math.prod(sizes.values()) != device_count:
        expected = f"sizes with the product {device_count}, the number of devices"
        raise InputError(key="mesh", expected=expected, got=repr(text))
    return jax.make_mesh(tuple(sizes.values()), AXES, (AxisType.Auto,) * 2, devices=devices)


def replicated(mesh: Mesh | None) -> NamedSharding | None:
    """Returns the sharding of an array that every device holds whole; None without a mesh."""
    return None if mesh is None else _sharding(mesh)


def replicate(array: jax.Array, home: NamedSharding | None) -> jax.Array:
    """Replicates an array of a compiled program on every device of `home`'s mesh."""
    if home is None:
        return array
    replicated_array: jax.Array = jax.lax.with_sharding_constraint(array, home)  # type: ignore[no-untyped-call]
    return replicated_array


def shard_rows(mesh: Mesh | None, arrays: Sequence[np.ndarray]) -> Sequence[jax.Array | np.ndarray]:
    """Splits the first axis of each array over the devices along `data`.

    Every process provides its own part.
    """
    if mesh is None:
        return arrays
    home = _sharding(mesh, "data")
    return [jax.make_array_from_callback(a.shape, home, a.__getitem__) for a in arrays]


def _sharding(mesh: Mesh, *axes: str) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*axes))  # type: ignore[no-untyped-call]  # jax has no type


def row_multiple(mesh: Mesh | None) -> int:
    """Returns the number that must divide the number of rows in a batch."""
    return 1 if mesh is None else mesh.shape["data"]


def agree(names: Sequence[T], chosen: Collection[T]) -> list[T]:
    """Broadcasts the first process's choice among `names` to every process."""
    if jax.process_count() == 1:
        return list(chosen)
    agreed = multihost_utils.broadcast_one_to_all(np.array([name in chosen for name in names]))
    return [name for name, is_chosen in zip(names, agreed, strict=True) if is_chosen]


def broadcast_number(number: int) -> int:
    """Broadcasts the number of the first process to every process."""
    if jax.process_count() == 1:
        return number
    return int(multihost_utils.broadcast_one_to_all(np.array(number)))


def broadcast_rows(rows: Mapping[int, np.ndarray], count: int) -> dict[int, np.ndarray]:
    """Broadcasts the first process's values of some of `count` rows to every process."""
    if jax.process_count() == 1:
        return dict(rows)
    # Only the first process knows the width.
    width = broadcast_number(max(map(len, rows.values()), default=0))
    # All rows have this length, so one array holds them.
    table = np.full((count, width), np.nan, np.float32)
    for row, row_values in rows.items():
        table[row] = row_values
    table = multihost_utils.broadcast_one_to_all(table)
    return {row: table[row] for row in agree(range(count), rows)}

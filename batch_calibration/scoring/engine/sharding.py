"""Makes a mesh of devices from one line of text, and places arrays on it."""

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


def make_mesh(text: str) -> Mesh | None:
    """The mesh that `data:4,model:2` describes, over all devices of all processes; None for "".

    Rows are shared along `data`; heads, MLPs and vocabulary along `model`.

    Raises:
        InputError: another form, or another number of devices than there are.
    """
    if not text:
        return None
    sizes = dict.fromkeys(AXES, 1)  # an axis that is not named has one device
    for axis_size in text.split(","):
        name, _, size = axis_size.partition(":")
        if name.strip() not in AXES or not size.strip().isdecimal() or int(size) < 1:
            expected = "axes as data:4,model:2 (rows, weights)"
            raise InputError(key="mesh", expected=expected, got=repr(text))
        sizes[name.strip()] = int(size)
    device_count = jax.device_count()  # of all processes
    if math.prod(sizes.values()) != device_count:
        raise InputError(
            f"{text!r} is a mesh of {math.prod(sizes.values())} devices, but there "
            f"are {device_count}; give sizes whose product is {device_count}.",
            key="mesh",
        )
    return jax.make_mesh(tuple(sizes.values()), AXES, axis_types=(AxisType.Auto,) * 2)


def replicated(mesh: Mesh | None) -> NamedSharding | None:
    """Where an array lies that every device holds whole; None without a mesh."""
    return None if mesh is None else _sharding(mesh)


def replicate(array: jax.Array, home: NamedSharding | None) -> jax.Array:
    """An array of a compiled program, held whole by every device of `home`'s mesh."""
    if home is None:
        return array
    replicated_array: jax.Array = jax.lax.with_sharding_constraint(array, home)  # type: ignore[no-untyped-call]
    return replicated_array


def shard_rows(mesh: Mesh | None, arrays: Sequence[np.ndarray]) -> Sequence[jax.Array | np.ndarray]:
    """Arrays whose first axis the devices along `data` share, every process giving its own part."""
    if mesh is None:
        return arrays
    home = _sharding(mesh, "data")
    return [jax.make_array_from_callback(a.shape, home, a.__getitem__) for a in arrays]


def _sharding(mesh: Mesh, *axes: str) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*axes))  # type: ignore[no-untyped-call]  # jax has no type


def row_multiple(mesh: Mesh | None) -> int:
    """The number that a batch's rows must be a multiple of."""
    return 1 if mesh is None else mesh.shape["data"]


def agree(names: Sequence[T], chosen: Collection[T]) -> list[T]:
    """The choice of the first process among `names`, in every process."""
    if jax.process_count() == 1:
        return list(chosen)
    agreed = multihost_utils.broadcast_one_to_all(np.array([name in chosen for name in names]))
    return [name for name, is_chosen in zip(names, agreed, strict=True) if is_chosen]


def broadcast_number(number: int) -> int:
    """The number that the first process gives, in every process."""
    if jax.process_count() == 1:
        return number
    return int(multihost_utils.broadcast_one_to_all(np.array(number)))


def broadcast_rows(rows: Mapping[int, np.ndarray], count: int) -> dict[int, np.ndarray]:
    """Values of some of `count` rows that the first process has, in every process."""
    if jax.process_count() == 1:
        return dict(rows)
    # which the others cannot know
    width = broadcast_number(max(map(len, rows.values()), default=0))
    # one array: rows have no length of their own
    table = np.full((count, width), np.nan, np.float32)
    for row, row_values in rows.items():
        table[row] = row_values
    table = multihost_utils.broadcast_one_to_all(table)
    return {row: table[row] for row in agree(range(count), rows)}

"""Checks that a network fits in memory before its weights are read."""

import math
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike

from batch_calibration.errors import InputError, spell

CGROUP = Path("/sys/fs/cgroup")
GIGABYTE = 1e9
TOKENS = 2048
"""Token positions of a batch, and of a prefix, that must fit in memory with the weights."""
DOUBLED = 6
"""The number of times that the search for a fit doubles the devices."""


class Demand(NamedTuple):
    """The memory that a network needs.

    Attributes:
        parameters: The number of parameters.
        width: The hidden size.
        layers: The number of blocks.
        cached: Whether the network has a prefix cache of keys and values.
    """

    parameters: int
    width: int
    layers: int
    cached: bool

    def weights(self, size: int, devices: int) -> float:
        """Computes the bytes of weights per device, for numbers of `size` bytes."""
        return self.parameters * size / devices

    def work(self, size: int, devices: int) -> float:
        """Computes bytes per device, without weights, for a batch and a prefix of `TOKENS` tokens.

        Hidden states and the activations of a block are about ten float32 arrays of the width.
        Keys and values are at most two arrays of the width per layer.
        """
        cache = 2 * size * self.width * self.layers / devices if self.cached else 0  # bytes a token
        return TOKENS * (10 * 4 * self.width + cache)

    def total(self, size: int, devices: int) -> float:
        """Computes the total bytes per device."""
        return self.weights(size, devices) + self.work(size, devices)


def require(directory: Path, demand: Demand, dtype: DTypeLike, mesh: Mesh | None) -> None:
    """Checks that a network fits in the free memory of a device.

    Args:
        directory: The directory of the checkpoint, for the message.
        demand: The memory that the network needs.
        dtype: The dtype of its weights.
        mesh: The devices that share them; None for one device.

    Raises:
        InputError: The memory is too small; the message has needs, free memory and a remedy.
    """
    size, devices = np.dtype(dtype).itemsize, 1 if mesh is None else mesh.shape["model"]
    device = jax.devices()[0]
    # All devices of a CPU share its memory.
    shared = mesh.local_mesh.size if mesh is not None and device.platform == "cpu" else 1
    free = available(device) / shared
    if demand.total(size, devices) <= free:
        return
    raise InputError(
        f"{directory}: in {np.dtype(dtype).name} its {demand.parameters:,} weights take "
        f"{_gigabytes(demand.weights(size, devices))} per device and the work on a batch "
        f"{_gigabytes(demand.work(size, devices))}, but {_gigabytes(free)} are free; "
        f"{_advice(demand, size, devices, free, meshes=device.platform != 'cpu')}."
    )


def _advice(demand: Demand, size: int, devices: int, free: float, *, meshes: bool) -> str:
    """Describes settings that fit (half precision, more devices), or the memory that is needed."""
    fits = []
    # First with this dtype, then with two bytes per number; each with the fewest devices.
    for narrow in (size, 2)[: 2 if size > 2 else 1]:
        first = 0 if narrow < size else 1  # skips the settings that were rejected
        for doubled in range(first, DOUBLED + 1 if meshes else 1):
            n = devices * 2**doubled
            if (total := demand.total(narrow, n)) <= free:
                keys = [spell("dtype", "bfloat16")] * (narrow < size)
                keys += [f"{spell('mesh', f'model:{n}')} on {n} of these devices"] * (n > devices)
                fits.append(f"{' with '.join(keys)} ({_gigabytes(total)} per device)")
                break
    if fits:
        return f"use {' or '.join(fits)}"
    lacking = _gigabytes(demand.total(2, devices))
    narrowly = f", with {spell('dtype', 'bfloat16')}" if size > 2 else ""
    return f"use a device with {lacking} free{narrowly}, or a smaller checkpoint"


def _gigabytes(number: float) -> str:
    return f"{number / GIGABYTE:,.1f} GB"


def available(device: jax.Device) -> float:
    """Returns the free bytes of a device; infinity if this is not known."""
    if device.platform == "cpu":
        return min(_system(), _control_group(), _process())
    stats = device.memory_stats() or {}
    return float(stats.get("bytes_limit", math.inf) - stats.get("bytes_in_use", 0))


def _system() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    meminfo = dict(line.split(":", 1) for line in lines if ":" in line)
    available = meminfo.get("MemAvailable")  # such as " 8123456 kB"
    return float(available.split()[0]) * 1024 if available else math.inf


def _control_group() -> float:
    """Returns the bytes that the container's limit leaves; the page cache counts as free."""
    try:
        limit = float((CGROUP / "memory.max").read_text())
        used = float((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no control group, or "max": no limit
        return math.inf
    return limit - used + float(stat.get("inactive_file", 0))  # the kernel frees these pages


def _process() -> float:
    """Returns the bytes of address space that `ulimit -v` leaves."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError):
        return math.inf
    return math.inf if limit < 0 else float(limit - pages * resource.getpagesize())  # -1: no limit

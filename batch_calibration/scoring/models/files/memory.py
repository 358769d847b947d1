"""Refuses a network that does not fit the memory, before it is read."""

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
"""Token positions of a batch, and of a prefix, that fit in memory with the weights."""
DOUBLED = 6
"""Times that the number of devices is doubled in the search for a fit."""


class Demand(NamedTuple):
    """The memory that a network needs.

    Attributes:
        parameters: How many numbers it has.
        width: Hidden size.
        layers: Blocks.
        cached: Whether it keeps keys and values of a prefix.
    """

    parameters: int
    width: int
    layers: int
    cached: bool

    def weights(self, size: int, devices: int) -> float:
        """Bytes of weights a device, in numbers of `size` bytes, over so many devices."""
        return self.parameters * size / devices

    def work(self, size: int, devices: int) -> float:
        """Bytes a device, weights apart, for a batch and a prefix of `TOKENS` tokens each.

        Hidden states and what a block makes of them are some ten float32 arrays of the width;
        keys and values are at most two of the width in each layer.
        """
        cache = 2 * size * self.width * self.layers / devices if self.cached else 0  # bytes a token
        return TOKENS * (10 * 4 * self.width + cache)

    def total(self, size: int, devices: int) -> float:
        """Bytes a device in all."""
        return self.weights(size, devices) + self.work(size, devices)


def require(directory: Path, demand: Demand, dtype: DTypeLike, mesh: Mesh | None) -> None:
    """Refuse a network that takes more than a device has left.

    Args:
        directory: the checkpoint's, for the sentence.
        demand: what the network asks for.
        dtype: what its numbers are held in.
        mesh: devices that share them, or None for one.

    Raises:
        InputError: with what is needed, what is there, and what would fit.
    """
    size, devices = np.dtype(dtype).itemsize, 1 if mesh is None else mesh.shape["model"]
    device = jax.devices()[0]
    # Devices on CPUs share one memory.
    shared = mesh.local_mesh.size if mesh is not None and device.platform == "cpu" else 1
    free = available(device) / shared
    if demand.total(size, devices) <= free:
        return
    raise InputError(
        f"{directory}: in {np.dtype(dtype).name} its {demand.parameters:,} weights take "
        f"{_gigabytes(demand.weights(size, devices))} a device and the work on a batch "
        f"{_gigabytes(demand.work(size, devices))}, but {_gigabytes(free)} are free; "
        f"{_advice(demand, size, devices, free, meshes=device.platform != 'cpu')}."
    )


def _advice(demand: Demand, size: int, devices: int, free: float, *, meshes: bool) -> str:
    """A remedy that fits: half the width of numbers, more devices, both; or what is lacking."""
    fits = []
    # First at this width, then in numbers of two bytes; of each the fewest devices.
    for narrow in (size, 2)[: 2 if size > 2 else 1]:
        first = 0 if narrow < size else 1  # the very demand that was refused is not tried again
        for doubled in range(first, DOUBLED + 1 if meshes else 1):
            n = devices * 2**doubled
            if (total := demand.total(narrow, n)) <= free:
                keys = [spell("dtype", "bfloat16")] * (narrow < size)
                keys += [f"{spell('mesh', f'model:{n}')} on {n} of these devices"] * (n > devices)
                fits.append(f"{' with '.join(keys)} ({_gigabytes(total)} a device)")
                break
    if fits:
        return f"what fits is {' or '.join(fits)}"
    lacking = _gigabytes(demand.total(2, devices))
    narrowly = f", with {spell('dtype', 'bfloat16')}" if size > 2 else ""
    return f"take a device with {lacking} free{narrowly}, or a smaller checkpoint"


def _gigabytes(number: float) -> str:
    return f"{number / GIGABYTE:,.1f} GB"


def available(device: jax.Device) -> float:
    """Bytes that can still be had on a device; infinity where it is not known."""
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
    """The bytes that the container's limit leaves, the page cache not counted as used."""
    try:
        limit = float((CGROUP / "memory.max").read_text())
        used = float((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such group, or "max": no limit
        return math.inf
    return limit - used + float(stat.get("inactive_file", 0))  # which the kernel gives back


def _process() -> float:
    """The bytes that `ulimit -v` leaves of the address space."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError):
        return math.inf
    return math.inf if limit < 0 else float(limit - pages * resource.getpagesize())  # -1: no limit

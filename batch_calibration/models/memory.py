"""Refuses a network that does not fit the memory, before it is read."""

import math
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike

from batch_calibration.errors import InputError

CGROUP = Path("/sys/fs/cgroup")
GIGABYTE = 1e9


def require(directory: Path, parameters: int, dtype: DTypeLike, mesh: Mesh | None) -> None:
    """Refuse weights that take more than a device has left.

    Args:
        directory: the checkpoint's, for the sentence.
        parameters: how many numbers the network has.
        dtype: what they are held in.
        mesh: devices that share them, or None for one.

    Raises:
        InputError: with what is needed, what is there, and what would fit.
    """
    size = np.dtype(dtype).itemsize
    parts = 1 if mesh is None else mesh.shape["model"]
    needed, there = parameters * size / parts, available(jax.devices()[0])
    if needed <= there:
        return
    halved = " bfloat16 takes half of that;" if size > 2 and needed <= 2 * there else ""
    raise InputError(
        f"{directory}: its {parameters:,} weights take {needed / GIGABYTE:,.1f} GB a device, "
        f"{there / GIGABYTE:,.1f} GB are free;{halved} share it over more devices (mesh), or take "
        "a smaller checkpoint."
    )


def available(device: jax.Device) -> float:
    """Bytes that can still be had on a device; infinity where nobody says."""
    stats = None if device.platform == "cpu" else device.memory_stats()
    if stats:
        limit, used = stats.get("bytes_limit", math.inf), stats.get("bytes_in_use", 0)
        return float(limit - used)
    return min(_system(), _control_group(), _process()) if device.platform == "cpu" else math.inf


def _system() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return float(found["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in found else math.inf


def _control_group() -> float:
    """What the container's limit leaves, the page cache not counted as used."""
    try:
        limit = float((CGROUP / "memory.max").read_text())
        used = float((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such group, or "max": no limit
        return math.inf
    return limit - used + float(stat.get("inactive_file", 0))


def _process() -> float:
    """What `ulimit -v` leaves of the address space."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError):
        return math.inf
    return math.inf if limit < 0 else float(limit - pages * resource.getpagesize())

"""How many token positions a batch may have: as many as a device's memory holds beside the rest."""

import jax
import numpy as np
from flax import nnx
from jax.experimental import multihost_utils

from batch_calibration.errors import InputError
from batch_calibration.scoring.models.files import memory
from batch_calibration.scoring.models.files.checkpoint import Checkpoint

CPU_POSITIONS = 1024
"""Positions on CPUs, where a batch should stay in the caches."""
MAX_POSITIONS, MIN_POSITIONS = 65536, 128
"""Positions on accelerators: more would be no faster, and a sequence is no shorter."""
BUDGETED_KEYS = 2048
"""Keys of a prefix and a sequence that memory is laid out for where logits are kept."""


def budget(checkpoint: Checkpoint, logits: bool) -> int:
    """Token positions of a batch on the devices that hold a checkpoint.

    `logits` says that attention keeps a float32 logit for each head and pair at once.
    """
    if jax.default_backend() == "cpu":
        return CPU_POSITIONS
    config, mesh = checkpoint.config, checkpoint.mesh
    state = jax.tree_util.tree_leaves_with_path(nnx.state(checkpoint.model))
    # Outputs of all matrices, a layer's share of them.
    outputs = [leaf.shape[-1] for path, leaf in state if "kernel" in jax.tree_util.keystr(path)]
    written = sum(outputs) // config.layers
    keys = min(BUDGETED_KEYS, config.positions) if logits else 0  # no longer than the longest
    size = 4 if checkpoint.dtype == "float32" else 2  # bytes of a number
    a_position = position_bytes(config.width, written, config.heads * keys, size) + keys  # the mask
    rows = 1 if mesh is None else mesh.shape["data"]  # which share the rows
    # All processes run the same programs, so the batches of the one with the least memory.
    free = multihost_utils.process_allgather(np.float32(memory.available(jax.local_devices()[0])))
    return rows * positions(float(np.min(free)), a_position)


def position_bytes(width: int, written: int, pairs: int, size: int) -> int:
    """Bytes that a position takes while a layer runs, and its hidden state until it is read.

    Twice what the layer's matrices write for it (a result and what is made of it, such as rotated
    queries or the MLP's product), the residual and its norm in float32, and of each logit itself
    and its exponential.

    Args:
        width: Hidden size.
        written: Numbers that the matrices of one layer write for a position.
        pairs: Logits of attention that are kept for a position.
        size: Bytes of a number.

    >>> position_bytes(width=1024, written=12_288, pairs=0, size=2)  # Qwen3-0.6B, no logits kept
    63488
    """
    return size * (2 * written + 3 * width) + 8 * width + 8 * pairs


def positions(free: float, a_position: int) -> int:
    """The power of two of positions that half of the free bytes hold, within the two bounds.

    Half, because a second batch waits while one runs, and programs need room of their own.

    >>> positions(100e9, 63_488), positions(2e9, 63_488), positions(1e6, 63_488)
    (65536, 8192, 128)
    """
    fit = min(free / 2 / a_position, MAX_POSITIONS)  # free may be infinite
    return max(MIN_POSITIONS, 1 << (int(fit).bit_length() - 1)) if fit >= 1 else MIN_POSITIONS


def halve(positions: int, error: Exception, length: int) -> int:
    """Half the positions if a batch was out of memory; other errors go on.

    Args:
        positions: Those of the batch that failed.
        error: What was raised.
        length: Positions of one sequence of the batch.

    Raises:
        InputError: the batch was a single sequence.
    """
    if "RESOURCE_EXHAUSTED" not in str(error):  # XLA's name for it
        raise error
    if positions < 2 * length:
        raise InputError(
            f"the device's memory does not hold one sequence of {length} tokens beside the "
            "network; use a larger device, a mesh (config.mesh), or a narrower config.dtype."
        ) from error
    return positions // 2

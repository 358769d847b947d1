"""Rotary positions: reads them from a config, computes their frequencies, rotates heads."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.models.family import RawConfig

SCALINGS = {
    "default": (),
    "linear": ("factor",),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
}
"""The rope types there are, and the numbers that each needs."""
KEYS = {"type", "rope_type", "rope_theta", "partial_rotary_factor", *SCALINGS["llama3"]}


def flatten(raw: RawConfig) -> RawConfig:
    """A raw config with `rope_theta`, `rope_type`, `rope_scaling` and `partial_rotary_factor`.

    Files nest them in `rope_scaling` (older) or `rope_parameters` (transformers 5).
    """
    given = raw.get("rope_scaling") or raw.get("rope_parameters") or {}
    if not isinstance(given, dict):
        raise InputError(f"config.json: expected rope parameters as an object, got {given!r}.")
    kind = given.get("rope_type", given.get("type", "default"))
    if not isinstance(kind, str) or kind not in SCALINGS:
        raise InputError(f"config.json: {InputError.unknown('rope type', kind, SCALINGS)}")
    given = {
        "rope_theta": raw.get("rope_theta", 10_000.0),
        "partial_rotary_factor": raw.get("partial_rotary_factor", 1.0),
        "original_max_position_embeddings": raw.get("max_position_embeddings"),
    } | given
    lacking = [key for key in SCALINGS[kind] if given.get(key) is None]
    unknown = sorted(given.keys() - KEYS)
    if lacking or unknown:
        problem = f"lack {lacking[0]}" if lacking else f"have {unknown[0]}, unknown here"
        raise InputError(
            f"config.json: the parameters of rope type {kind!r} {problem}; fetch the file again."
        )
    return raw | {
        "rope_theta": given["rope_theta"],
        "rope_type": kind,
        "rope_scaling": tuple(given[key] for key in SCALINGS[kind]),
        "partial_rotary_factor": given["partial_rotary_factor"],
    }


def frequencies(
    size: int, theta: float, kind: str = "default", scaling: tuple[float, ...] = ()
) -> tuple[float, ...]:
    """Radians per position `[size / 2]`, `theta^(-2i / size)`, of `size` rotated numbers.

    `linear` divides them all by a factor; `llama3` only those that turn fewer than
    `low_freq_factor` times in the length the network was first trained for, those above
    `high_freq_factor` not at all, and blends between.
    """
    found = theta ** -(np.arange(0, size, 2) / size)
    if kind == "linear":
        found = found / scaling[0]
    elif kind == "llama3":
        factor, low, high, length = scaling
        if low >= high:
            raise InputError(
                f"config.json: expected low_freq_factor below high_freq_factor, got {low} and "
                f"{high}; fetch the file again."
            )
        share = np.clip((found * length / (2 * math.pi) - low) / (high - low), 0, 1)
        found = found * (share + (1 - share) / factor)
    return tuple(found.tolist())


def angles(
    positions: jax.Array, frequencies: tuple[float, ...], dtype: jnp.dtype
) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine `[b, t, 1, r]` at `positions [b, t]` of `r` frequencies."""
    angle = positions[..., None, None].astype(jnp.float32) * jnp.array(frequencies, jnp.float32)
    return jnp.cos(angle).astype(dtype), jnp.sin(angle).astype(dtype)


def rotate(x: jax.Array, angle: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Rotate the first `2r` numbers of each head in `x [b, t, heads, d]`, `i` paired with `i + r`.

    `angle` is a cosine and a sine `[b, t, 1, r]`; the other numbers stay as they are.
    """
    cos, sin = angle
    r = cos.shape[-1]
    first, second, rest = x[..., :r], x[..., r : 2 * r], x[..., 2 * r :]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin, rest], axis=-1)

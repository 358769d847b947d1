"""Rotary positions: reads their parameters, computes frequencies, rotates heads."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scoring.models.family import RawConfig, misfit, misread

NEEDED: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
}
"""The known rope types, and the parameters that each requires."""
OPTIONAL: dict[str, tuple[str, ...]] = {
    "yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    "longrope": ("attention_factor", "factor"),
}
UNREAD = {"attn_factor"}
"""Parameters in files of Qwen3 and others that transformers does not read."""
PARTIAL = "partial_rotary_factor"
ORIGINAL = "original_max_position_embeddings"
KEYS = ("rope_theta", "rope_scaling", "rope_parameters", PARTIAL, ORIGINAL)
"""Keys of `config.json` that `flatten` reads."""


@dataclass(frozen=True, kw_only=True)
class Rope:
    """The rope parameters of a config, under their names in Hugging Face files.

    `positions` is the config's longest sequence. `original_max_position_embeddings` is the sequence
    length of the first training; it defaults to `positions`.
    """

    rope_type: str = "default"
    rope_theta: float = 10_000.0
    positions: int = 2048
    original_max_position_embeddings: float = 2048
    partial_rotary_factor: float = 1.0  # the rotated fraction of each head
    factor: float | None = None
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    attention_factor: float | None = None
    beta_fast: float | None = None  # turns in the original length; None: 32
    beta_slow: float | None = None  # turns in the original length; None: 1
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True
    short_factor: tuple[float, ...] = ()
    long_factor: tuple[float, ...] = ()

    @property
    def longest(self) -> int:
        """The longest sequence for which one set of frequencies holds.

        In longer sequences than the original length, `longrope` rotates all positions by other
        frequencies, also in a shared prefix: it divides by `long_factor` instead of `short_factor`.
        """
        original = int(self.original_max_position_embeddings)
        return min(self.positions, original) if self.rope_type == "longrope" else self.positions


Angle = tuple[jax.Array, jax.Array]
"""Cosine and sine `[b, t, 1, r]` of the angles by which `r` pairs of numbers are rotated."""


class Frequencies(NamedTuple):
    """Radians per position of each rotated pair, and the factor of cosines and sines."""

    radians: tuple[float, ...]
    scale: float = 1.0


def flatten(raw: RawConfig, share: object = 1.0, original: int | None = None) -> RawConfig:
    """Returns a raw config with `rope` (a `Rope`) and `partial_rotary_factor`.

    Files nest the parameters in `rope_scaling` (older) or `rope_parameters` (transformers 5).
    As in transformers, the nested object takes precedence over keys at the top level, except for
    `original_max_position_embeddings`.

    Args:
        raw: A raw config.
        share: The default of `partial_rotary_factor`.
        original: The default of `original_max_position_embeddings`.
    """
    parameters = raw.get("rope_scaling") or raw.get("rope_parameters") or {}
    if not isinstance(parameters, dict):
        raise InputError.at("config.json", "rope parameters as an object", f"{parameters!r}")
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if not isinstance(kind, str) or kind not in NEEDED:
        raise InputError(f"config.json: {InputError.unknown('rope type', kind, NEEDED)}")
    positions = raw.get("max_position_embeddings")
    allowed = {"type", "rope_type", "rope_theta", PARTIAL, ORIGINAL}
    allowed |= {*NEEDED[kind], *OPTIONAL.get(kind, ())}
    lacking = [key for key in NEEDED[kind] if parameters.get(key) is None]
    unknown = sorted(parameters.keys() - allowed - UNREAD)
    if lacking or unknown:
        got = f"parameters that lack {lacking[0]}" if lacking else f"the unknown key {unknown[0]}"
        expected = f"the parameters of rope type {kind!r}"
        raise InputError.at("config.json", expected, got, "fetch the file again")
    merged = {"rope_theta": raw.get("rope_theta", 10_000.0), ORIGINAL: positions}
    merged[PARTIAL] = raw.get(PARTIAL, share)
    unread = {"type", *UNREAD}
    merged |= {key: p for key, p in parameters.items() if p is not None and key not in unread}
    # Only for this key does the top level take precedence over the nested object.
    if (top := raw.get(ORIGINAL, original)) is not None:
        merged[ORIGINAL] = top
    merged |= {"rope_type": kind, "positions": positions}
    # The loader reports an invalid longest sequence.
    rope = _checked(merged) if type(positions) is int and positions > 0 else Rope()
    return raw | {PARTIAL: merged[PARTIAL], "rope": rope}


def flatten_by_kind(raw: RawConfig, local_theta: object) -> RawConfig:
    """Returns a raw config with `rope` for layers with full attention, `local_rope` for the others.

    Transformers 5 nests the parameters of both kinds in `rope_parameters`. The older `rope_scaling`
    holds only the parameters of layers with full attention.

    Args:
        raw: A raw config with `rope_theta`.
        local_theta: The default base of layers with a window.
    """
    nested = raw.get("rope_parameters")
    by_kind = nested if isinstance(nested, dict) else {}
    local_kind, full_kind = "sliding_attention", "full_attention"
    if by_kind.keys() - {local_kind, full_kind}:
        raise misread("rope_parameters", [*by_kind], f"{local_kind!r} and {full_kind!r}")
    scaling = raw.get("rope_scaling")
    if isinstance(scaling, dict) and ("rope_type" not in scaling or by_kind):
        expected = "a rope_type in it, and no rope_parameters for kinds of layers"
        raise misread("rope_scaling", scaling, expected, "keep one of the two, with a rope_type")
    length = {"max_position_embeddings": raw["max_position_embeddings"]}
    local: RawConfig = {"rope_theta": local_theta, "rope_parameters": by_kind.get(local_kind)}
    full = {"rope_theta": raw["rope_theta"], "rope_scaling": scaling}
    full |= {"rope_parameters": by_kind.get(full_kind)}
    ropes = {"local_rope": flatten(local | length)["rope"], "rope": flatten(full | length)["rope"]}
    for name, rope in ropes.items():
        if isinstance(rope, Rope) and (rope.partial_rotary_factor != 1 or not rope.truncate):
            expected = "1 and True, the only values that transformers supports"
            got, remedy = (rope.partial_rotary_factor, rope.truncate), "use another checkpoint"
            raise misread(f"({PARTIAL}, truncate) of {name}", got, expected, remedy)
    return {key: setting for key, setting in raw.items() if key != "rope_parameters"} | ropes


def _checked(parameters: RawConfig) -> Rope:
    """Checks the types of the parameters and returns them as a `Rope`.

    Raises:
        InputError: A parameter has another type or an impossible value.
    """
    checked: dict[str, Any] = {}
    types = get_type_hints(Rope)
    for field in fields(Rope):
        given = parameters.get(field.name, field.default)
        parameter = tuple(given) if isinstance(given, list) else given
        if expected := parameter is not field.default and misfit(types[field.name], parameter):
            raise misread(field.name, given, expected.removesuffix(", or null"))  # nulls are gone
        checked[field.name] = parameter
    rope = Rope(**checked)
    if not rope.partial_rotary_factor <= 1:
        raise misread(PARTIAL, rope.partial_rotary_factor, "a fraction of each head, at most 1")
    if rope.rope_type == "llama3" and rope.low_freq_factor >= rope.high_freq_factor:
        got = f"{rope.low_freq_factor} and {rope.high_freq_factor}"
        raise InputError.at("config.json", "low_freq_factor below high_freq_factor", got)
    return rope


def frequencies(size: int, rope: Rope, is_long: bool = False) -> Frequencies:
    """Computes radians per position, `theta^(-2i / r)`, for the `r` rotated numbers of a head.

    * `linear` divides all of them by `factor`.
    * `llama3` divides those with fewer than `low_freq_factor` turns in the original length, keeps
      those with more than `high_freq_factor`, and interpolates between.
    * `yarn` (Peng et al. 2023) interpolates between the pairs with `beta_fast` and `beta_slow`
      turns, and scales cosines and sines.
    * `longrope` (Ding et al. 2024) divides each by its own factor, which depends on whether the
      sequence `is_long`, and scales cosines and sines.
    * `dynamic` changes nothing up to the config's longest sequence.

    `r` is `partial_rotary_factor` times `size`, the size of a head.
    """
    size = int(size * rope.partial_rotary_factor)  # the rotated numbers of a head
    radians = rope.rope_theta ** -(np.arange(0, size, 2) / size)
    original, factor = rope.original_max_position_embeddings, rope.factor or 1.0
    scale: float = 1.0
    if rope.rope_type == "linear":
        radians = radians / factor
    elif rope.rope_type == "llama3":
        low, high = rope.low_freq_factor, rope.high_freq_factor
        # The interpolation weight of the unchanged frequency, from its turns in that length.
        share = np.clip((radians * original / (2 * math.pi) - low) / (high - low), 0, 1)
        radians = radians * (share + (1 - share) / factor)
    elif rope.rope_type == "yarn":
        radians = radians * (1 + _yarn_ramp(size, rope) * (1 / factor - 1))
        scale = rope.attention_factor or _yarn_scale(rope, factor)
    elif rope.rope_type == "longrope":
        name = "long_factor" if is_long else "short_factor"
        factors = rope.long_factor if is_long else rope.short_factor
        if len(factors) != len(radians):
            expected = f"{len(radians)} numbers in {name}"
            raise InputError.at("config.json", expected, len(factors), "fetch it again")
        radians = radians / np.array(factors)
        factor = rope.factor or rope.positions / original
        # Ding et al. 2024: this scale keeps attention over a longer context as sharp as before.
        default_scale = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
        scale = rope.attention_factor or default_scale
    return Frequencies(tuple(radians.tolist()), scale)


def _yarn_ramp(size: int, rope: Rope) -> np.ndarray:
    """Returns a ramp over pairs, from 0 for fast rotations to 1 for slow ones."""

    def pair(turns: float) -> float:
        """Returns the fractional index of the pair with so many turns in the original length."""
        length = rope.original_max_position_embeddings / (turns * 2 * math.pi)
        return size * math.log(length) / (2 * math.log(rope.rope_theta))

    low, high = pair(rope.beta_fast or 32), pair(rope.beta_slow or 1)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    width = high - low if high != low else 1e-3  # a step if both ends are equal
    return np.asarray(np.clip((np.arange(size // 2) - low) / width, 0, 1))


def _yarn_scale(rope: Rope, factor: float) -> float:
    # Peng et al. 2023, equation 22: 0.1 ln(factor) + 1 was fitted to perplexities.
    def scale(by: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0

    if rope.mscale and rope.mscale_all_dim:
        return scale(rope.mscale) / scale(rope.mscale_all_dim)
    return scale(1.0)


def angles(positions: jax.Array, frequencies: Frequencies, dtype: jnp.dtype) -> Angle:
    """Computes cosine and sine `[b, t, 1, r]` of `r` frequencies at `positions [b, t]`."""
    radians = jnp.array(frequencies.radians, jnp.float32)  # [r]
    angle = positions[..., None, None].astype(jnp.float32) * radians  # [b, t, 1, r]
    cos, sin = jnp.cos(angle) * frequencies.scale, jnp.sin(angle) * frequencies.scale
    return cos.astype(dtype), sin.astype(dtype)  # computed in float32, as in transformers


def turn(
    positions: jax.Array, frequencies: Frequencies, dtype: jnp.dtype, interleaved: bool = False
) -> Callable[[jax.Array], jax.Array]:
    """Makes the function that rotates heads at `positions [b, t]`; see `rotate`."""
    angle = angles(positions, frequencies, dtype)
    return partial(rotate, angle=angle, interleaved=interleaved)


def rotate(heads: jax.Array, angle: Angle, interleaved: bool = False) -> jax.Array:
    """Rotates the first `2r` numbers of each head in `heads [b, t, heads, d]`; the others stay.

    `angle` is a cosine and a sine `[b, t, 1, r]`. Number `i` is paired with `i + r`; if the pairs
    are `interleaved`, `2i` is paired with `2i + 1`.
    """
    cos, sin = angle
    r = cos.shape[-1]  # pairs
    rotated, unrotated = heads[..., : 2 * r], heads[..., 2 * r :]
    if interleaved:
        first, second = rotated[..., ::2], rotated[..., 1::2]
        pairs = jnp.stack([first * cos - second * sin, second * cos + first * sin], axis=-1)
        return jnp.concatenate([pairs.reshape(rotated.shape), unrotated], axis=-1)
    swapped = jnp.concatenate([rotated[..., r:], rotated[..., :r]], axis=-1)
    # One product over whole heads: number i becomes x_i cos - x_(i+r) sin, and number i + r
    # becomes x_(i+r) cos + x_i sin.
    cosines, sines = jnp.concatenate([cos, cos], axis=-1), jnp.concatenate([-sin, sin], axis=-1)
    rotated = rotated * cosines + swapped * sines
    return jnp.concatenate([rotated, unrotated], axis=-1) if unrotated.shape[-1] else rotated

"""A Pallas kernel for TPUs: attention over a shared prefix and within packed sequences.

Queries run in blocks over blocks of keys, with a running maximum and normalizer (Milakov and
Gimelshein 2018), so that no logits reach the device's main memory. The keys of the prefix are read
from one copy for all sequences. The mask of a tree is computed from one number per key.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, PartitionSpec

from batch_calibration.scoring.models.attention import SMALLEST, AttentionOptions, Heads

LANES = 128
"""Numbers in a vector register's row: lengths are padded to a multiple of it."""
MAX_KEYS = 640
"""The most keys of a block."""
MAX_LOGITS = 1 << 19
"""The most logits of a block, 2 MB in float32; several derived arrays lie beside them."""
MEMORY = 64 << 20
"""Bytes of on-chip memory that the kernel may use, of 128 MB (64 on v5p)."""


class Sizes(NamedTuple):
    """The sizes of a grid step: queries of each head, keys of a sequence, keys of the prefix."""

    queries: int
    keys: int
    prefix: int


def block_sizes(heads_per_group: int, slots: int, prefix: int) -> Sizes:
    """Chooses the largest blocks within the bounds, for lengths that are multiples of `LANES`.

    >>> block_sizes(2, 640, 256), block_sizes(1, 4096, 0)
    (Sizes(queries=320, keys=640, prefix=256), Sizes(queries=1024, keys=512, prefix=0))
    """

    def largest(length: int, step: int, most: int) -> int:
        sizes = range(step, min(length, max(step, most)) + 1, step)
        return max((size for size in sizes if length % size == 0), default=0)

    keys, of_prefix = largest(slots, LANES, MAX_KEYS), largest(prefix, LANES, MAX_KEYS)
    # 16 queries fill the rows of a register in 16 bits.
    queries = largest(slots, 16, MAX_LOGITS // heads_per_group // max(keys, of_prefix))
    return Sizes(queries, keys, of_prefix)


Prefix = tuple[jax.Array, jax.Array]


def packed_attention(
    heads: Heads,
    ends: jax.Array,
    positions: jax.Array,
    prefix: Prefix | None,
    *,
    mesh: Mesh | None = None,
    interpret: bool = False,
) -> jax.Array:
    """Computes attention `[b, t, heads, d]` of packed sequences, in one softmax with the prefix.

    Args:
        heads: Queries, keys, values, options and sinks of the sequences.
        ends: `[b, t]`, slot `i` sees slot `j` if `j <= i < ends[j]`, as in `Layout`.
        positions: `[b, t]`, for windows.
        prefix: Cached keys and values, as in `prefix_attention`; None without a prefix.
        mesh: The devices that share rows (`data`) and heads (`model`); None for one device.
        interpret: Whether the kernel is interpreted, on any device.
    """
    groups = heads.k.shape[2]
    if prefix is None:
        prefix = _no_prefix(heads)
    keys, values, first, count = _near_end(*prefix, heads.options.window)
    run = partial(_attend, options=heads.options, interpret=interpret)
    bounds = jnp.stack([first, count]).astype(jnp.int32)
    arrays = (heads.q, heads.k, heads.v, keys, values[..., :-1], ends, positions, bounds)
    sinks = jnp.full(heads.q.shape[2], SMALLEST) if heads.sinks is None else heads.sinks
    if mesh is None:
        return run(*arrays, sinks)
    # A prefill has one row, which every device along `data` computes.
    rows = "data" if len(heads.q) % mesh.shape["data"] == 0 else None
    split = "model" if groups % mesh.shape["model"] == 0 else None
    spec = PartitionSpec
    wide, cached, slots = spec(rows, None, split), spec(None, split), spec(rows)  # type: ignore
    each = (wide, wide, wide, cached, cached, slots, slots, spec(), spec(split))  # type: ignore
    sharded: Callable[..., jax.Array] = jax.shard_map(
        run, mesh=mesh, in_specs=each, out_specs=wide, check_vma=False
    )
    return sharded(*arrays, sinks)


def _no_prefix(heads: Heads) -> Prefix:
    """Returns a cache without positions."""
    groups, d = heads.k.shape[2:]
    return jnp.zeros((0, groups, d), heads.k.dtype), jnp.zeros((0, groups, d + 1), heads.v.dtype)


def _near_end(
    keys: jax.Array, values: jax.Array, window: int | None
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Returns the last keys and values of a prefix that a window reaches, and their positions.

    The positions are the first one's and the number of positions of the whole prefix.
    """
    count = (values[:, 0, -1] > 0).sum()
    size = min(window or len(keys), len(keys))
    first = jnp.clip(count - size, 0)
    keys, values = (jax.lax.dynamic_slice_in_dim(array, first, size) for array in (keys, values))
    return keys, values, first, count


def _attend(
    q: jax.Array, k: jax.Array, v: jax.Array, old_k: jax.Array, old_v: jax.Array,
    ends: jax.Array, positions: jax.Array, bounds: jax.Array, sinks: jax.Array,
    *, options: AttentionOptions, interpret: bool,
) -> jax.Array:  # fmt: skip
    """Pads and transposes the arrays of one device, and runs the kernel over a grid of blocks."""
    b, t, heads, d = q.shape
    groups = k.shape[2]
    rep = heads // groups
    q, k, v, ends, positions = (_pad(array, 1) for array in (q, k, v, ends, positions))
    old_k, old_v = _pad(old_k, 0), _pad(old_v, 0)
    slots, s = q.shape[1], len(old_k)
    sizes = block_sizes(rep, slots, s)
    old, own = s // max(1, sizes.prefix), slots // sizes.keys  # blocks of keys

    def own_block(i: jax.Array, j: jax.Array) -> jax.Array:
        """Returns the block of own keys of a step; steps without one repeat a neighbor's block."""
        last = jax.lax.div((i + 1) * sizes.queries - 1, sizes.keys)  # later keys are hidden
        return jnp.clip(j - old, 0, last)

    of_queries = pl.BlockSpec((1, 1, rep, sizes.queries, d), lambda b, g, i, j, _: (b, g, 0, i, 0))
    of_keys = pl.BlockSpec((1, 1, sizes.keys, d), lambda b, g, i, j, _: (b, g, own_block(i, j), 0))
    row = pl.BlockSpec((1, 1, sizes.keys), lambda b, g, i, j, _: (b, 0, own_block(i, j)))
    column = pl.BlockSpec((1, sizes.queries, 1), lambda b, g, i, j, _: (b, i, 0))
    of_sinks = pl.BlockSpec((1, rep, 1, 1), lambda b, g, i, j, _: (g, 0, 0, 0))
    by_group = q.reshape(b, slots, groups, rep, d).transpose(0, 2, 3, 1, 4)
    given = [by_group, k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3), ends[:, None]]
    given += [positions[:, None], positions[..., None]]
    given += [sinks.astype(jnp.float32).reshape(groups, rep, 1, 1)]
    specs = [of_queries, of_keys, of_keys, row, row, column, of_sinks]
    if old:
        of_old = pl.BlockSpec(
            (1, sizes.prefix, d), lambda b, g, i, j, _: (g, jnp.minimum(j, old - 1), 0)
        )
        specs += [of_old, of_old]
        given += [old_k.transpose(1, 0, 2), old_v.transpose(1, 0, 2)]
    rows = rep * sizes.queries
    pairs = slots * (s + sizes.keys * _blocks_seen(slots, sizes) / (slots // sizes.queries))
    kernel = partial(_kernel, options=options, sizes=sizes, old=old)
    mean: jax.Array = pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(b, groups, slots // sizes.queries, old + own),
            in_specs=specs,
            out_specs=of_queries,
            scratch_shapes=[pltpu.VMEM((rows, n), jnp.float32) for n in (1, 1, d)],
        ),
        out_shape=jax.ShapeDtypeStruct(by_group.shape, q.dtype),  # type: ignore[no-untyped-call]
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary"),
            vmem_limit_bytes=MEMORY,
        ),
        cost_estimate=pl.CostEstimate(
            flops=int(4 * b * heads * d * pairs),
            transcendentals=int(b * heads * pairs),
            bytes_accessed=_bytes_moved(by_group, k, sizes, old),
        ),
        interpret=interpret,
    )(bounds, *given)
    mean = mean.transpose(0, 3, 1, 2, 4).reshape(b, slots, heads, d)
    return mean[:, :t]


def _pad(array: jax.Array, axis: int) -> jax.Array:
    """Pads an axis with zeros to a multiple of `LANES`; a key that ends at 0 is seen by no slot."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % LANES)
    return jnp.pad(array, widths)


def _blocks_seen(slots: int, sizes: Sizes) -> int:
    """Counts the blocks of own keys that all blocks of queries read."""
    lasts = range(sizes.queries - 1, slots, sizes.queries)
    return sum(last // sizes.keys + 1 for last in lasts)


def _bytes_moved(q: jax.Array, k: jax.Array, sizes: Sizes, old: int) -> int:
    """Counts the bytes of queries, means and blocks of keys and values that a call moves."""
    b, groups, _, slots, d = q.shape
    turns = slots // sizes.queries
    # A block stays on the chip if the next step needs the same one.
    own = k.shape[1] if sizes.keys == slots else sizes.keys * _blocks_seen(slots, sizes)
    prefix = sizes.prefix if old == 1 else turns * old * sizes.prefix
    return q.dtype.itemsize * (2 * q.size + 2 * b * groups * d * (own + prefix))


def _kernel(
    bounds: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array, ends: jax.Array,
    places: jax.Array, query_places: jax.Array, sinks: jax.Array, *rest: jax.Array,
    options: AttentionOptions, sizes: Sizes, old: int,
) -> None:  # fmt: skip
    """Adds a block of keys to the running softmax of a block of queries.

    All arrays but `options`, `sizes` and `old` are references; `rest` holds the prefix's keys and
    values, if there is one, the means, the running maximum, normalizer and sum of values.
    """
    *prefix, means, top, norm, total = rest
    i, j = pl.program_id(2), pl.program_id(3)
    _, _, rep, queries, d = q.shape
    scale = d**-0.5 if options.scale is None else options.scale
    exact = jax.lax.Precision.HIGHEST if q.dtype == jnp.float32 else None

    @pl.when(j == 0)
    def _begin() -> None:
        # The sink is a key with value 0.
        sink = jnp.broadcast_to(sinks[0], (rep, queries, 1)).reshape(-1, 1)
        top[...] = sink
        norm[...] = jnp.where(sink > SMALLEST, 1.0, 0.0)
        total[...] = jnp.zeros_like(total)

    def add(keys: jax.Array, values: jax.Array, seen: jax.Array) -> None:
        """Adds `keys [s, d]` that the queries see, `seen [queries, s]`."""
        logits = jax.lax.dot_general(
            q[0, 0].reshape(rep * queries, d), keys, (((1,), (1,)), ((), ())), precision=exact,
            preferred_element_type=jnp.float32,
        ) * scale  # fmt: skip
        if options.cap is not None:
            logits = options.cap * jnp.tanh(logits / options.cap)
        logits = logits.reshape(rep, queries, -1)
        logits = jnp.where(seen[None], logits, SMALLEST).reshape(rep * queries, -1)
        higher = jnp.maximum(top[...], logits.max(axis=-1, keepdims=True))
        weights, kept = jnp.exp(logits - higher), jnp.exp(top[...] - higher)
        norm[...] = kept * norm[...] + weights.sum(axis=-1, keepdims=True)
        total[...] = kept * total[...] + jax.lax.dot_general(
            weights.astype(values.dtype), values, (((1,), (0,)), ((), ())), precision=exact,
            preferred_element_type=jnp.float32,
        )  # fmt: skip
        top[...] = higher

    def near(key_places: jax.Array) -> jax.Array:
        """Checks which keys at `key_places [1, s]` lie in the queries' window."""
        return query_places[0] - key_places < (options.window or 1 << 30)

    if prefix:
        start = bounds[0] + j * sizes.prefix

        @pl.when((j < old) & (start < bounds[1]))
        def _add_prefix() -> None:
            shape = (queries, sizes.prefix)
            place = start + jax.lax.broadcasted_iota(jnp.int32, shape, 1)
            add(prefix[0][0], prefix[1][0], (place < bounds[1]) & near(place))

    first, own = i * queries, (j - old) * sizes.keys  # slots

    @pl.when((j >= old) & (own < first + queries))
    def _add_own() -> None:
        shape = (queries, sizes.keys)
        slot = first + jax.lax.broadcasted_iota(jnp.int32, shape, 0)
        key_slot = own + jax.lax.broadcasted_iota(jnp.int32, shape, 1)
        add(k[0, 0], v[0, 0], (key_slot <= slot) & (slot < ends[0]) & near(places[0]))

    @pl.when(j == pl.num_programs(3) - 1)
    def _end() -> None:
        mean = total[...] / norm[...]
        means[0, 0] = mean.reshape(rep, queries, d).astype(means.dtype)

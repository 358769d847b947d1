"""Layers with stacked weights, which one compiled body runs: deep networks compile in less time."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from batch_calibration.scoring.models.attention import Attend, Kept

BACKENDS = ("tpu",)
"""Backends on which layers are scanned (decision 35). They were not measured on GPUs yet."""


class ScannedBlocks(nnx.Module):
    """Blocks in periods of a few kinds, such as Gemma 3's five windows and one full attention.

    Attributes:
        bodies: A block for each place in a period, with weights `[periods, ...]`.
        rest: The blocks after the last whole period.
    """

    def __init__(self, bodies: Sequence[nnx.Module], rest: Sequence[nnx.Module]):
        self.bodies, self.rest = nnx.List(bodies), nnx.List(rest)

    def __call__(
        self, h: jax.Array, attend: Attend, terms: Iterable[tuple[object, ...]], kept: Kept
    ) -> jax.Array:
        """Runs all blocks on `h [b, t, d]`; `terms` are the additional arguments of each block.

        `kept` receives what `attend` appends to it in each layer, in the order of the layers.
        """
        graphs, states = zip(*map(nnx.split, self.bodies), strict=True)
        period, periods = len(graphs), len(jax.tree.leaves(states[0])[0])
        terms = list(islice(terms, period * periods + len(self.rest)))

        def run_period(h: jax.Array, given: Any) -> tuple[jax.Array, Kept]:
            first, weights = given
            kept.clear()  # `attend` keeps tracers, which the loop returns stacked
            for place, (graph, state) in enumerate(zip(graphs, weights, strict=True)):
                h = nnx.merge(graph, state)(h, first + place, attend, *terms[place])
            return h, list(kept)

        firsts = period * jnp.arange(periods)
        h, made = jax.lax.scan(run_period, h, (firsts, states))
        kept.clear()
        for number in range(periods):
            kept += [(keys[number], values[number]) for keys, values in made]
        for layer, block in enumerate(self.rest, period * periods):
            h = block(h, layer, attend, *terms[layer])
        return h


def stack_blocks(
    blocks: Sequence[nnx.Module], terms: Sequence[tuple[object, ...]], *, frees: bool = False
) -> ScannedBlocks | None:
    """Stacks blocks that repeat with the shortest period; None if they do not repeat.

    Args:
        blocks: The blocks of a network.
        terms: The additional arguments of each block. Equal ones must be the same object, such as
            the rotation of all layers with a window.
        frees: Whether the weights of a layer are freed as soon as they are stacked.
    """
    parts = list(map(nnx.split, blocks))
    kinds = [(graph, tuple(map(id, given))) for (graph, _), given in zip(parts, terms, strict=True)]
    count = len(blocks)
    repeats = (p for p in range(1, count // 2 + 1) if kinds[p:] == kinds[: count - p])
    period = next(repeats, 0)
    if not period:
        return None
    last = count - count % period  # the blocks after it form no whole period
    bodies = []
    for place in range(period):
        states = [state for _, state in parts[place:last:period]]
        stacked = jax.tree.map(lambda *leaves: _stack(leaves, frees), *states)
        bodies.append(nnx.merge(parts[place][0], stacked))
    return ScannedBlocks(bodies, blocks[last:])


def _stack(leaves: Sequence[jax.Array], frees: bool) -> jax.Array:
    """Stacks the weights of several layers; on a mesh, each device stacks its own part."""
    home = getattr(leaves[0], "sharding", None)
    if isinstance(home, NamedSharding):
        home = NamedSharding(home.mesh, PartitionSpec(None, *home.spec))  # type: ignore
        stacked: jax.Array = jax.jit(lambda *arrays: jnp.stack(arrays), out_shardings=home)(*leaves)
    else:
        stacked = jnp.stack(leaves)
    if frees:
        stacked.block_until_ready()
        for leaf in leaves:
            leaf.delete()
    return stacked

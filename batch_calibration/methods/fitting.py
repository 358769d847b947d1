"""Learns a method's bias from blocks of rows and removes it, for one context or for many."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from batch_calibration.arrays import read_rows
from batch_calibration.calibration.base import Calibrator, floored, weights_of
from batch_calibration.errors import InputError
from batch_calibration.methods.table import METHODS, Method, Options, get_method
from batch_calibration.typing import Key, Labels, ProbeRows, Rows, Scores, State, Weight


class Evidence(NamedTuple):
    """A block of rows to learn from; a plain pair `(log_probs, labels)` serves as well.

    Attributes:
        log_probs: [m k], in nats.
        labels: [m]; -1 means unknown.
        weight: [m]; 0 means absent.
    """

    log_probs: ProbeRows
    labels: Labels | None = None
    weight: Weight | None = None


Blocks = Mapping[str, Evidence | Sequence[ArrayLike | None]]
"""Name -> a block of rows, an `Evidence` or the tuple of its parts."""


def make_calibrator(method: Method, *, floor: float | None = None, **options: object) -> Calibrator:
    """The method with its options chosen.

    Args:
        method: a row of `METHODS`.
        floor: scores below it, minus infinity too, are raised to it, in nats.
        **options: what `method.make` takes.

    >>> fit, apply = make_calibrator(METHODS["icl"], floor=-9.0)
    >>> rows = jnp.array([[-1.0, -jnp.inf]])
    >>> apply(fit(rows), rows).tolist()
    [[-1.0, -9.0]]
    """
    return floored(method.make(**options), floor)


def gather(method: Method, blocks: Blocks) -> Evidence:
    """The rows a method learns from, one after the other.

    Labels are kept of the blocks that its probe names as labeled; all others are hidden (-1): no
    method may see those of the test rows.

    Raises:
        InputError: a block that the method's probe names is missing.
    """
    missing = [name for name in method.probe.blocks if name not in blocks]
    if missing:
        raise InputError(
            f"The probe '{method.probe.name}' reads the blocks {', '.join(method.probe.blocks)}; "
            f"{', '.join(missing)} did not come, only {', '.join(blocks) or 'none'}: score the "
            f"missing inputs first."
        )
    # A method without a probe still reads the number of labels from some rows.
    names = method.probe.blocks or tuple(blocks)[:1]
    parts = [Evidence(*read_rows(*blocks[name])) for name in names]
    labels = [
        jnp.asarray(part.labels, jnp.int32)
        if name in method.probe.labeled and part.labels is not None
        else jnp.full(part.log_probs.shape[0], -1, jnp.int32)
        for name, part in zip(names, parts, strict=True)
    ]
    weights = [weights_of(part.log_probs, part.weight) for part in parts]
    return Evidence(
        jnp.concatenate([part.log_probs for part in parts]),
        jnp.concatenate(labels),
        jnp.concatenate(weights),
    )


def fit(
    method: Method,
    blocks: Blocks,
    *,
    key: Key | None = None,
    floor: float | None = None,
    **options: object,
) -> State:
    """Learns a method's state from the blocks its probe names.

    Args:
        method: a row of `METHODS`.
        blocks: name -> `(log_probs[m k], labels[m] or None)`, or with a weight[m] as third.
        key: a `jax.random` key, for methods that need one.
        floor: scores below it are raised to it, in nats.
        **options: what `method.make` takes.

    Returns:
        The state, for the `apply` of `make_calibrator`.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> fit(METHODS["bc"], {"test": (rows, None)}).bias.tolist()
    [-1.5, -2.75]
    """
    return make_calibrator(method, floor=floor, **options).fit(*gather(method, blocks), key=key)


class Corrected(NamedTuple):
    """What a method learned, and the test scores without that bias."""

    state: State
    scores: Scores


def correct(
    method: Method,
    blocks: Blocks,
    log_probs: Rows,
    *,
    key: Key | None = None,
    floor: float | None = None,
    **options: object,
) -> Corrected:
    """Learns from the blocks and removes the bias from `log_probs`: fit, then apply.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> correct(METHODS["bc"], {"test": (rows, None)}, rows).scores.tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    chosen = make_calibrator(method, floor=floor, **options)
    state = chosen.fit(*gather(method, blocks), key=key)
    return Corrected(state, chosen.apply(state, log_probs))


def compare(
    blocks: Blocks,
    *,
    methods: Sequence[str] | None = None,
    key: Key | None = None,
    options: Mapping[str, Options] | None = None,
) -> dict[str, Corrected]:
    """Many methods on many contexts: name -> state and scores[c n k] of the "test" block.

    Pure, so `jax.jit(compare, static_argnames="methods")` makes it one compiled call. Contexts
    with fewer rows are padded, with weight 0.

    Args:
        blocks: name -> `(log_probs[c m k], labels[c m] or None, weight[c m] or None)`.
        methods: names from `METHODS`; by default those that need no key.
        key: a `jax.random` key, if one of them needs it.
        options: method -> what its `make` takes, such as `{"bc_running": {"batch_size": 8}}`.

    >>> rows = jnp.array([[[-1.0, -3.0], [-2.0, -2.5]]])
    >>> compare({"test": (rows,)}, methods=("icl", "bc"))["bc"].scores.shape
    (1, 2, 2)
    """
    contexts = {name: Evidence(*block) for name, block in blocks.items()}
    if "test" not in contexts:
        raise InputError(
            f"compare corrects the block 'test', which did not come, only "
            f"{', '.join(contexts) or 'none'}: name the rows to correct 'test'."
        )
    if methods is None:
        methods = [name for name, method in METHODS.items() if not method.needs_key]

    def one(name: str) -> Corrected:
        method, chosen = get_method(name), (options or {}).get(name, {})
        read = dict.fromkeys(("test", *method.probe.blocks))
        named = {part: contexts[part] for part in read if part in contexts}

        def context(parts: dict[str, Evidence]) -> Corrected:
            return correct(method, parts, parts["test"].log_probs, key=key, **chosen)  # type: ignore

        done = jax.lax.map(context, named) if method.looped else jax.vmap(context)(named)
        return Corrected(*done)

    return {name: one(name) for name in methods}

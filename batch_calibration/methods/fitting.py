"""Learns a method's bias from blocks of rows and removes it, for one context or for many."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays.frames import names_of
from batch_calibration.arrays.numbers import read_floats, read_rows, usual_jax
from batch_calibration.calibration.base import Calibrator, floored
from batch_calibration.errors import InputError
from batch_calibration.methods.table import METHODS, Method, Options, get_method, in_place
from batch_calibration.typing import Key, Labels, ProbeRows, Scores, State, Weight


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

Result = TypeVar("Result")
Arrays = TypeVar("Arrays")  # what a block is: an `Evidence`, or an array alone


def make_calibrator(method: Method, *, floor: float | None = None, **options: object) -> Calibrator:
    """The method with its options chosen, for arrays of jax or numpy.

    Args:
        method: a row of `METHODS`.
        floor: scores below it, minus infinity too, are raised to it, in nats.
        **options: what `METHODS[name].make` takes.

    >>> fit, apply = make_calibrator(METHODS["icl"], floor=-9.0)
    >>> rows = jnp.array([[-1.0, -jnp.inf]])
    >>> apply(fit(rows), rows).tolist()
    [[-1.0, -9.0]]
    """
    # The factory for arrays of jax; `make` would read them again.
    calibrator = method.factory(**in_place(options))
    return calibrator if floor is None else floored(calibrator, floor)


def gather(
    method: Method,
    blocks: Blocks,
    read: Callable[..., Evidence] = Evidence,
    *,
    arrays: ModuleType = jnp,
) -> Evidence:
    """The rows a method learns from, the blocks of its probe in their order.

    Labels are kept of the blocks that its probe names as labeled; all others are hidden (-1): no
    method may see the labels of the test rows.

    Args:
        method: a row of `METHODS`.
        blocks: name -> its rows.
        read: a `reader` where blocks hold arrays of other kinds than jax's and numpy's.
        arrays: numpy, for a result on the host.

    Raises:
        InputError: a block that the method's probe names is missing.
    """
    # Other blocks may be there too: callers give all of a context, most methods read one.
    if not set(method.probe.blocks) <= set(blocks):
        missing = ", ".join(name for name in method.probe.blocks if name not in blocks)
        raise InputError(
            f"The probe '{method.probe.name}' reads the blocks {', '.join(method.probe.blocks)}; "
            f"{missing} did not come, only {', '.join(blocks) or 'none'}: score the "
            f"missing inputs first."
        )
    # A method without a probe still reads the number of labels from some rows.
    names = method.probe.blocks or tuple(blocks)[:1]
    rows, labels, weights = [], [], []
    for name in names:
        block = read(*blocks[name])
        rows.append(arrays.asarray(block.log_probs))
        is_read = name in method.probe.labeled and block.labels is not None
        unknown = arrays.full(len(block.log_probs), -1, np.int32)  # [m]
        # No method may see the labels of a block that its probe does not name as labeled.
        labels.append(arrays.asarray(block.labels if is_read else unknown, np.int32))
        present = arrays.ones(len(block.log_probs), np.float32)
        weights.append(present if block.weight is None else arrays.asarray(block.weight))
    # [sum of all m, k]
    return Evidence(*map(arrays.concatenate, (rows, labels, weights)))


def reader(*sources: object) -> Callable[..., Evidence]:
    """A function that reads blocks of arrays of any kind as arrays of jax, checked.

    Args:
        *sources: scores; the first frame among them settles the columns of all frames.
    """
    columns = next((names for source in sources if (names := names_of(source))), None)

    def read_evidence(log_probs: object, labels: object = None, weight: object = None) -> Evidence:
        return Evidence(*read_rows(log_probs, labels, weight, columns=columns))

    return read_evidence


def over_contexts(
    method: Method, function: Callable[[dict[str, Arrays]], Result], blocks: Mapping[str, Arrays]
) -> Result:
    """A function of one context's blocks [m k], over the leading axis of blocks [c m k].

    Args:
        method: a `looped` one runs contexts sequentially, others run all together.
        function: its results are stacked.
        blocks: name -> rows of all contexts.
    """
    over_all = partial(jax.lax.map, function) if method.looped else jax.vmap(function)
    results: Result = over_all(dict(blocks))
    return results


@usual_jax
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
        **options: what `METHODS[name].make` takes.

    Returns:
        The state, for the `apply` of `make_calibrator`.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> fit(METHODS["bc"], {"test": (rows, None)}).bias.tolist()
    [-1.5, -2.75]
    """
    calibrator = make_calibrator(method, floor=floor, **options)
    read = reader(*(block[0] for block in blocks.values()))
    return calibrator.fit(*gather(method, blocks, read), key=key)


class Corrected(NamedTuple):
    """The state that a method learned, and the test scores without that bias."""

    state: State
    scores: Scores


@usual_jax
def correct(
    method: Method,
    blocks: Blocks,
    log_probs: ArrayLike,
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
    calibrator = make_calibrator(method, floor=floor, **options)
    read = reader(log_probs, *(block[0] for block in blocks.values()))
    state = calibrator.fit(*gather(method, blocks, read), key=key)
    return Corrected(state, calibrator.apply(state, read_floats(log_probs)))


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

    corrected = {}
    for name in methods:
        method, chosen = get_method(name), (options or {}).get(name, {})
        # Each block once: BC's probe is the test block.
        read = dict.fromkeys(("test", *method.probe.blocks))
        # A block that is not there is left to `gather`, whose sentence names the probe.
        named = {block: contexts[block] for block in read if block in contexts}

        # The defaults bind this turn of the loop; jax calls the function later.
        def correct_one(
            blocks: dict[str, Evidence], method: Method = method, chosen: Options = chosen
        ) -> Corrected:
            return correct(method, blocks, blocks["test"].log_probs, key=key, **chosen)  # type: ignore

        corrected[name] = over_contexts(method, correct_one, named)
    return corrected

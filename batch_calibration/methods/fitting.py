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
    """A block of rows to learn from; a plain pair `(log_probs, labels)` is accepted, too.

    Attributes:
        log_probs: [m k], in nats.
        labels: [m]; -1 means unknown.
        weight: [m]; 0 means absent.
    """

    log_probs: ProbeRows
    labels: Labels | None = None
    weight: Weight | None = None


Blocks = Mapping[str, Evidence | Sequence[ArrayLike | None]]
"""Name -> a block of rows: an `Evidence`, or a tuple of its parts."""

Result = TypeVar("Result")
Arrays = TypeVar("Arrays")  # the type of a block: an `Evidence` or an array


def make_calibrator(method: Method, *, floor: float | None = None, **options: object) -> Calibrator:
    """Returns the method with its options chosen, for arrays of jax or numpy.

    Args:
        method: a row of `METHODS`.
        floor: lower scores, with minus infinity, are raised to it, in nats.
        **options: the options of `METHODS[name].make`.

    >>> fit, apply = make_calibrator(METHODS["icl"], floor=-9.0)
    >>> rows = jnp.array([[-1.0, -jnp.inf]])
    >>> apply(fit(rows), rows).tolist()
    [[-1.0, -9.0]]
    """
    # The factory takes arrays of jax; `make` would read and check them again.
    calibrator = method.factory(**in_place(options))
    return calibrator if floor is None else floored(calibrator, floor)


def gather(
    method: Method,
    blocks: Blocks,
    read: Callable[..., Evidence] = Evidence,
    *,
    arrays: ModuleType = jnp,
) -> Evidence:
    """Concatenates the blocks of a method's probe, in order: the rows that the method learns from.

    The labels of a block are kept only if the probe lists the block as labeled. All other labels
    become -1, because no method may see the labels of the test rows.

    Args:
        method: a row of `METHODS`.
        blocks: name -> its rows.
        read: a `reader` for blocks with other arrays than jax's and numpy's.
        arrays: the array module of the result; numpy keeps it on the host.

    Raises:
        InputError: a block that the method's probe names is missing.
    """
    # `blocks` may hold more: callers pass all blocks of a context, and most methods read one.
    if not set(method.probe.blocks) <= set(blocks):
        missing = ", ".join(name for name in method.probe.blocks if name not in blocks)
        raise InputError(
            f"The probe '{method.probe.name}' reads the blocks {', '.join(method.probe.blocks)}; "
            f"{missing} is missing (there are {', '.join(blocks) or 'none'}): score the missing "
            "inputs first."
        )
    # A method without a probe still needs some rows for the number of labels.
    names = method.probe.blocks or tuple(blocks)[:1]
    rows, labels, weights = [], [], []
    for name in names:
        block = read(*blocks[name])
        rows.append(arrays.asarray(block.log_probs))
        is_read = name in method.probe.labeled and block.labels is not None
        unknown = arrays.full(len(block.log_probs), -1, np.int32)  # [m]
        # No method may see the labels of a block that its probe does not list as labeled.
        labels.append(arrays.asarray(block.labels if is_read else unknown, np.int32))
        present = arrays.ones(len(block.log_probs), np.float32)
        weights.append(present if block.weight is None else arrays.asarray(block.weight))
    # [sum of all m, k]
    return Evidence(*map(arrays.concatenate, (rows, labels, weights)))


def reader(*sources: object) -> Callable[..., Evidence]:
    """Returns a function that reads and checks blocks with arrays of any kind.

    Args:
        *sources: scores; the first frame among them gives the columns of all frames.
    """
    columns = next((names for source in sources if (names := names_of(source))), None)

    def read_evidence(log_probs: object, labels: object = None, weight: object = None) -> Evidence:
        return Evidence(*read_rows(log_probs, labels, weight, columns=columns))

    return read_evidence


def over_contexts(
    method: Method, function: Callable[[dict[str, Arrays]], Result], blocks: Mapping[str, Arrays]
) -> Result:
    """Maps a function of one context's blocks [m k] over the leading axis of blocks [c m k].

    Args:
        method: a `looped` method runs contexts sequentially; other methods are vmapped.
        function: the function of one context; its results are stacked.
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
    """Learns a method's state from the blocks of its probe.

    Args:
        method: a row of `METHODS`.
        blocks: name -> `(log_probs[m k], labels[m] or None)`, optionally with weight[m] as third.
        key: a `jax.random` key, for methods that need a key.
        floor: lower scores are raised to it, in nats.
        **options: the options of `METHODS[name].make`.

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
    """The state that a method learned, and the corrected test scores."""

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
    """Corrects `log_probs` with a bias learned from the blocks: fit, then apply.

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
    """Corrects the "test" block of many contexts by many methods: name -> state and scores[c n k].

    The function is pure, so that `jax.jit(compare, static_argnames="methods")` compiles it as one
    program. Pad contexts with fewer rows by rows of weight 0.

    Args:
        blocks: name -> `(log_probs[c m k], labels[c m] or None, weight[c m] or None)`.
        methods: names from `METHODS`; by default the methods without a key.
        key: a `jax.random` key, if a method needs it.
        options: method -> options of its `make`, such as `{"bc_running": {"batch_size": 8}}`.

    >>> rows = jnp.array([[[-1.0, -3.0], [-2.0, -2.5]]])
    >>> compare({"test": (rows,)}, methods=("icl", "bc"))["bc"].scores.shape
    (1, 2, 2)
    """
    contexts = {name: Evidence(*block) for name, block in blocks.items()}
    if "test" not in contexts:
        raise InputError(
            f"compare corrects the block 'test', which is missing (there are "
            f"{', '.join(contexts) or 'none'}): name the rows to correct 'test'."
        )
    if methods is None:
        methods = [name for name, method in METHODS.items() if not method.needs_key]

    corrected = {}
    for name in methods:
        method, chosen = get_method(name), (options or {}).get(name, {})
        # Each block only once: the test block is also BC's probe.
        read = dict.fromkeys(("test", *method.probe.blocks))
        # `gather` refuses a missing block, because its message names the probe.
        named = {block: contexts[block] for block in read if block in contexts}

        # The defaults bind the loop's current values, because jax calls the function later.
        def correct_one(
            blocks: dict[str, Evidence], method: Method = method, chosen: Options = chosen
        ) -> Corrected:
            return correct(method, blocks, blocks["test"].log_probs, key=key, **chosen)  # type: ignore

        corrected[name] = over_contexts(method, correct_one, named)
    return corrected

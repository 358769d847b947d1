"""Compiles programs of methods: how much XLA optimizes decides how long it takes."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import jax
import numpy as np

from batch_calibration.methods.fitting import Evidence, correct
from batch_calibration.methods.table import Options, get_method

FrozenOptions = tuple[tuple[str, tuple[tuple[str, object], ...]], ...]
"""Method and its options, as tuples: a compiled program is kept under them."""
LEVEL = "xla_backend_optimization_level"
WITHOUT_EMITTERS: dict[str, Any] = {LEVEL: 0, "xla_cpu_use_fusion_emitters": False}
"""For milliseconds of work: compiled in two thirds of the time, the same but for last bits."""

Function = TypeVar("Function", bound=Callable[..., object])


def jit_methods(function: Function, *, looped: bool) -> Function:
    """`jax.jit` of a function with keywords `methods` and `options`, as those of `compare`.

    A program is kept for each choice of them and each shape of the other arguments.

    Args:
        function: what corrects by methods, all of which loop over contexts, or none of which does.
        looped: whether they do: such programs run for seconds, and are optimized a little. Level 1
            is below the usual 2, which takes the CPU's compiler longer and makes them no faster.
    """
    return cast(Function, _jit_methods(function, looped))


@cache
def _jit_methods(function: Callable[..., Any], looped: bool) -> Callable[..., Any]:
    def with_options(
        *args: Any, methods: tuple[str, ...], options: FrozenOptions, **keywords: Any
    ) -> Any:
        by_method = {name: dict(pairs) for name, pairs in options}
        return function(*args, methods=methods, options=by_method, **keywords)

    compiled = _jit(with_options, ("methods", "options"), 1 if looped else 0)

    def run(
        *args: Any, methods: Sequence[str], options: Mapping[str, Options], **keywords: Any
    ) -> Any:
        frozen = tuple((name, tuple(chosen.items())) for name, chosen in options.items())
        return compiled(*args, methods=tuple(methods), options=frozen, **keywords)

    return run


def jit_quickly(function: Function, *static: str) -> Function:
    """`jax.jit` for milliseconds of work, compiled in two thirds of the time.

    Args:
        function: of module level, as its compiled programs are kept.
        *static: the names of its static arguments.
    """
    return cast(Function, _jit(function, static, 0))


@cache  # one for each function, which keeps its compiled programs
def _jit(function: Callable[..., Any], static: tuple[str, ...], level: int) -> Callable[..., Any]:
    options = _quick_options() if level == 0 else {LEVEL: level}
    return jax.jit(function, static_argnames=static, compiler_options=options)


@cache
def _quick_options() -> dict[str, Any]:
    """`WITHOUT_EMITTERS`, or what is left of it where this version of XLA does not know it all."""
    try:
        jax.jit(lambda: 0.0).lower().compile(WITHOUT_EMITTERS)
    except jax.errors.JaxRuntimeError:
        return {LEVEL: 0}
    return WITHOUT_EMITTERS


def pad_rows(block: Evidence) -> Evidence:
    """A block [m k] up to the next power of two: padding has label -1 and weight 0.

    Blocks of different lengths then share compiled programs.

    >>> block = pad_rows(Evidence(np.zeros((3, 2), np.float32), np.array([0, 1, 1], np.int32)))
    >>> block.labels.tolist(), block.weight.tolist()
    ([0, 1, 1, -1], [1.0, 1.0, 1.0, 0.0])
    """
    count = len(block.log_probs)
    missing = (1 << (count - 1).bit_length()) - count
    labels = np.full(count, -1, np.int32) if block.labels is None else block.labels
    weight = np.ones(count, np.float32) if block.weight is None else block.weight
    return Evidence(
        np.pad(np.asarray(block.log_probs, np.float32), ((0, missing), (0, 0))),
        np.pad(np.asarray(labels, np.int32), (0, missing), constant_values=-1),
        np.pad(np.asarray(weight, np.float32), (0, missing)),
    )


def correct_quickly(name: str, blocks: Mapping[str, Evidence], options: Options) -> np.ndarray:
    """Test scores [n k] of one context, corrected in one compiled program.

    Its operations would else be compiled one by one for each shape. Not for methods whose probe
    rows belong to single test rows: blocks are padded apart.

    >>> rows = np.array([[-1.0, -3.0], [-2.0, -2.5]], np.float32)
    >>> correct_quickly("bc", {"test": Evidence(rows)}, {}).tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    names = dict.fromkeys(("test", *get_method(name).probe.blocks))
    padded = {block: pad_rows(blocks[block]) for block in names if block in blocks}
    run = jit_quickly(_correct, "name", "options")
    scores = run(padded, name=name, options=tuple(options.items()))
    return np.asarray(scores)[: len(blocks["test"].log_probs)]


def _correct(
    blocks: dict[str, Evidence], *, name: str, options: tuple[tuple[str, Any], ...]
) -> jax.Array:
    return correct(get_method(name), blocks, blocks["test"].log_probs, **dict(options)).scores

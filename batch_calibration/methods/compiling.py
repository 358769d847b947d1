"""Compiles programs of methods: how much XLA optimizes decides how long it takes."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import jax

from batch_calibration.methods.table import Options

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

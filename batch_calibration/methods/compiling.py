"""Compiles programs of many methods: how much XLA optimizes decides how long it takes."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import jax

FrozenOptions = tuple[tuple[str, tuple[tuple[str, object], ...]], ...]
"""Method -> its options, as tuples: a compiled program is kept under them."""
LEVEL = "xla_backend_optimization_level"
WITHOUT_EMITTERS = {LEVEL: 0, "xla_cpu_use_fusion_emitters": False}
"""For milliseconds of work: compiled in two thirds of the time, the same but for last bits."""

Function = TypeVar("Function", bound=Callable[..., object])


def jit_methods(function: Function, *, looped: bool) -> Function:
    """`jax.jit` of a function whose arguments `methods` and `options` are static.

    Args:
        function: what corrects by methods, all of which loop over contexts, or none of which does.
        looped: whether they do: such programs run for seconds, and are optimized a little. Level 1
            is below the usual 2, which takes the CPU's compiler longer and makes them no faster.
    """
    return cast(Function, _jit(function, looped))


@cache  # one for each function, which keeps its compiled programs
def _jit(function: Callable[..., Any], looped: bool) -> Callable[..., Any]:
    options: dict[str, Any] = {LEVEL: 1}
    if not looped:
        options = WITHOUT_EMITTERS if _knows(WITHOUT_EMITTERS) else {LEVEL: 0}
    return jax.jit(function, static_argnames=("methods", "options"), compiler_options=options)


def _knows(options: dict[str, Any]) -> bool:
    """Whether this version of XLA has the options."""
    try:
        jax.jit(lambda: 0.0).lower().compile(options)
    except jax.errors.JaxRuntimeError:
        return False
    return True

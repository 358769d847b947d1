"""Starts the workers of a sweep: the flags that say how, and the launcher that they name."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from absl import flags

from batch_calibration.errors import InputError

if TYPE_CHECKING:
    from batch_calibration.study.workers import Launcher

# They are flags of the program that imports this module.
flags.disclaim_key_flags()

LAUNCHER = flags.DEFINE_enum(
    "launcher", "local", ["local", "slurm", "ray"],
    "what starts workers: processes of this machine, Slurm, or a Ray cluster",
)  # fmt: skip
WORKERS = flags.DEFINE_integer("workers", 2, "how many share the sweep", lower_bound=1)


def _number(name: str, what: str, least: int = 1) -> "flags.FlagHolder[int | None]":
    return flags.DEFINE_integer(name, None, what, lower_bound=least)


OPTIONS: list[flags.FlagHolder[Any]] = [
    _number("gpus", "GPUs for each worker, of several processes or nodes for each of these", 0),
    _number("processes", "local: of each worker, joined by jax.distributed"),
    _number("cpus", "slurm, ray: cores for each worker"),
    _number("minutes", "slurm: of each job, before it is started again"),
    _number("memory", "slurm: gigabytes for each node"),
    _number("hosts", "slurm: nodes of each worker, joined by jax.distributed"),
    _number("at_once", "slurm: most jobs that run at a time"),
    flags.DEFINE_string("partition", None, "slurm: the partition"),
    flags.DEFINE_list("options", None, "slurm: NAME=VALUE of sbatch, comma-separated"),
    flags.DEFINE_string("address", None, "ray: of the cluster, such as auto; none makes one here"),
    flags.DEFINE_list("resources", None, "ray: NAME=NUMBER for each worker, comma-separated"),
    _number("grace", "seconds that workers have to stop", 0),
]
"""Flags of launchers, by the names of their fields."""


def configured_launcher() -> "Launcher":
    """The launcher that the flags name.

    Raises:
        InputError: an option that this launcher does not have, or cannot be read.
    """
    made = _launcher(LAUNCHER.value)
    fields = {field.name for field in dataclasses.fields(made)}  # type: ignore[arg-type]
    given = {one.name: one.value for one in OPTIONS if one.value is not None}
    for name in given.keys() - fields:
        mine = ", ".join(f"--{one.name}" for one in OPTIONS if one.name in fields)
        raise InputError(
            f"--{name}: --launcher={LAUNCHER.value} has no such option; leave it out. It has "
            f"{mine}."
        )
    for name in ("options", "resources"):
        if name in given:
            given[name] = _pairs(name, given[name])
    return made(workers=WORKERS.value, **given)


def _launcher(name: str) -> "Callable[..., Launcher]":
    """The class of a launcher; the packages of others are not imported."""
    from experiments.launchers.local import Local
    from experiments.launchers.ray import Ray
    from experiments.launchers.slurm import Slurm

    return {"local": Local, "slurm": Slurm, "ray": Ray}[name]


def _pairs(name: str, words: list[str]) -> dict[str, str | float]:
    pairs = dict[str, str | float]()
    for word in words:
        key, _, value = word.partition("=")
        try:
            pairs[key] = float(value) if name == "resources" else value
        except ValueError:
            value = ""
        if not key or not value:
            raise InputError(
                where=f"--{name}", expected="NAME=VALUE, comma-separated", got=f"{word!r}"
            )
    return pairs

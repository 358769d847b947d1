"""Starts the workers of a sweep: the flags that say how, and the launcher that they name."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import flags

from batch_calibration.errors import InputError

if TYPE_CHECKING:
    from batch_calibration.study.workers import Launcher

# They are flags of the program that imports this module.
flags.disclaim_key_flags()

OPTIONS = (
    "gpus", "processes", "cpus", "minutes", "memory", "hosts", "at_once", "partition", "options",
    "address", "resources", "grace",
)  # fmt: skip
"""Flags of launchers: the names of their fields."""


def define_flags() -> None:
    """The flags of a program that starts workers."""
    number, text, several = flags.DEFINE_integer, flags.DEFINE_string, flags.DEFINE_list
    flags.DEFINE_enum(
        "launcher", "local", ["local", "slurm", "ray"],
        "what starts workers: processes of this machine, Slurm, or a Ray cluster",
    )  # fmt: skip
    number("workers", 2, "how many share the sweep", lower_bound=1)
    gpus = "GPUs for each worker, of several processes or nodes for each of these"
    number("gpus", None, gpus, lower_bound=0)
    processes = "local: of each worker, joined by jax.distributed"
    number("processes", None, processes, lower_bound=1)
    number("cpus", None, "slurm, ray: cores for each worker", lower_bound=1)
    number("minutes", None, "slurm: of each job, before it is started again", lower_bound=1)
    number("memory", None, "slurm: gigabytes for each node", lower_bound=1)
    hosts = "slurm: nodes of each worker, joined by jax.distributed"
    number("hosts", None, hosts, lower_bound=1)
    number("at_once", None, "slurm: most jobs that run at a time", lower_bound=1)
    text("partition", None, "slurm: the partition")
    several("options", None, "slurm: NAME=VALUE of sbatch, comma-separated")
    text("address", None, "ray: of the cluster, such as auto; none makes one here")
    several("resources", None, "ray: NAME=NUMBER for each worker, comma-separated")
    number("grace", None, "seconds that workers have to stop", lower_bound=0)


def configured_launcher() -> "Launcher":
    """The launcher that the flags name.

    Raises:
        InputError: an option that this launcher does not have, or cannot be read.
    """
    launcher = flags.FLAGS["launcher"].value
    made = _launcher(launcher)
    fields = {field.name for field in dataclasses.fields(made)}  # type: ignore[arg-type]
    given = {name: flags.FLAGS[name].value for name in OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given.keys() - fields:
        mine = ", ".join(f"--{name}" for name in OPTIONS if name in fields)
        raise InputError(
            f"--{name}: --launcher={launcher} has no such option; leave it out. It has {mine}."
        )
    for name in ("options", "resources"):
        if name in given:
            given[name] = _pairs(name, given[name])
    return made(workers=flags.FLAGS["workers"].value, **given)


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

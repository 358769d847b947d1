"""Launchers of a sweep's workers: processes of this machine, Slurm, or a Ray cluster."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from batch_calibration.errors import InputError, refuse_unknown

if TYPE_CHECKING:
    from batch_calibration.studies.workers import Launcher

NAMES = ("local", "slurm", "ray")
HELP = f"what starts workers: {', '.join(NAMES[:-1])} or {NAMES[-1]}"
GPUS = "GPUs for each worker, of several processes or nodes for each of these"


FLAGS = {
    "gpus": (int, GPUS),
    "processes": (int, "local: of each worker, joined by jax.distributed"),
    "cpus": (int, "slurm, ray: cores for each worker"),
    "minutes": (int, "slurm: of each job, before it is started again"),
    "memory": (int, "slurm: gigabytes for each node"),
    "hosts": (int, "slurm: nodes of each worker, joined by jax.distributed"),
    "at_once": (int, "slurm: most jobs that run at a time"),
    "partition": (str, "slurm: the partition"),
    "options": (str, "slurm: NAME=VALUE of sbatch, comma-separated"),
    "address": (str, "ray: of the cluster, such as auto; none makes one here"),
    "resources": (str, "ray: NAME=NUMBER for each worker, comma-separated"),
    "grace": (int, "seconds that workers have to stop"),
}
"""Flags by the names of the launchers' fields, their kind and meaning; no launcher has all."""
LISTS = ("options", "resources")
MAY_BE_ZERO = ("gpus", "grace")


def make_launcher(name: str, workers: int, flags: Mapping[str, object]) -> "Launcher":
    """The launcher of a name.

    Args:
        name: one of `NAMES`.
        workers: how many it starts.
        flags: some of `FLAGS`, lists as texts with commas; None where the default holds.

    Raises:
        InputError: a flag that this launcher does not have, or whose value cannot be.
    """
    refuse_unknown("launcher", name, NAMES)
    # What these need of others' packages they import when they start.
    from batch_calibration.cli.launchers.local import Local
    from batch_calibration.cli.launchers.ray import Ray
    from batch_calibration.cli.launchers.slurm import Slurm

    launchers: dict[str, type[Local | Ray | Slurm]] = {"local": Local, "slurm": Slurm, "ray": Ray}
    fields = {field.name for field in dataclasses.fields(launchers[name])}
    options = dict[str, object]()
    for flag, setting in {"workers": workers, **flags}.items():
        if setting is None:
            continue
        if flag not in fields:
            allowed = ", ".join(f"--{field}" for field in FLAGS if field in fields)
            raise InputError(
                f"--{flag}: --launcher={name} has no such option; leave it out. It has {allowed}."
            )
        minimum = 0 if flag in MAY_BE_ZERO else 1
        if isinstance(setting, int) and setting < minimum:
            raise InputError.at(f"--{flag}", f"{minimum} or more", setting)
        options[flag] = _read_pairs(flag, str(setting)) if flag in LISTS else setting
    launcher: Launcher = launchers[name](**options)  # type: ignore[arg-type]
    return launcher


def ended_early(worker: str, reason: str, log: object = "") -> str:
    """A sentence on a worker that ended without a report."""
    more = f"; {log} says more" if log else ""
    rest = "What was finished is kept: give the same command again for the rest."
    return f"{worker} ended early ({reason}){more}. {rest}"


def _read_pairs(flag: str, text: str) -> dict[str, str | float]:
    pairs = dict[str, str | float]()
    for pair in filter(None, text.split(",")):  # a comma at the end is harmless
        name, _, setting = pair.partition("=")
        try:
            pairs[name] = float(setting) if flag == "resources" else setting
        except ValueError:
            setting = ""  # refused below
        if not name or not setting:
            raise InputError.at(f"--{flag}", "NAME=VALUE, comma-separated", repr(pair))
    return pairs

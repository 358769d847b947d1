"""Launchers of a sweep's workers: processes of this machine, Slurm, or a Ray cluster."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from batch_calibration.errors import InputError, refuse_unknown, spell

if TYPE_CHECKING:
    from batch_calibration.studies.workers import Launcher

NAMES = ("local", "slurm", "ray")
HELP = f"launcher of the workers: {', '.join(NAMES[:-1])} or {NAMES[-1]}"
GPUS = "GPUs for each worker, or for each of its processes or nodes"


FLAGS = {
    "gpus": (int, GPUS),
    "processes": (int, "local: processes of each worker, joined by jax.distributed"),
    "cpus": (int, "slurm, ray: cores for each worker"),
    "minutes": (int, "slurm: time limit of each job, after which it is requeued"),
    "memory": (int, "slurm: gigabytes for each node"),
    "hosts": (int, "slurm: nodes of each worker, joined by jax.distributed"),
    "at_once": (int, "slurm: maximum number of jobs that run at the same time"),
    "partition": (str, "slurm: name of the partition"),
    "options": (str, "slurm: NAME=VALUE options of sbatch, comma-separated"),
    "address": (str, "ray: cluster address or auto (default: RAY_ADDRESS, or a local cluster)"),
    "resources": (str, "ray: NAME=NUMBER for each worker, comma-separated"),
    "grace": (int, "seconds that workers have to stop before they are killed"),
}
"""Field of a launcher -> its type and help text; no launcher has all fields."""
LISTS = ("options", "resources")
MAY_BE_ZERO = ("gpus", "grace")


def make_launcher(name: str, workers: int, flags: Mapping[str, object]) -> "Launcher":
    """Returns the launcher with this name.

    Args:
        name: One of `NAMES`.
        workers: Number of workers to start.
        flags: Values of some of `FLAGS`, lists as comma-separated texts; None for the default.

    Raises:
        InputError: The launcher does not have a flag, or a value is invalid.
    """
    refuse_unknown("launcher", name, NAMES)
    # Optional dependencies are imported only when a launcher starts.
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
            allowed = ", ".join(spell(field) for field in FLAGS if field in fields)
            sentence = f"{spell(flag)}: --launcher={name} does not take it; leave it out."
            raise InputError(f"{sentence} It takes {allowed}.")
        minimum = 0 if flag in MAY_BE_ZERO else 1
        if isinstance(setting, int) and setting < minimum:
            raise InputError.at(spell(flag), f"{minimum} or more", setting)
        options[flag] = _read_pairs(flag, str(setting)) if flag in LISTS else setting
    launcher: Launcher = launchers[name](**options)  # type: ignore[arg-type]
    return launcher


def ended_early(worker: str, reason: str, log: object = "") -> str:
    """Returns the message about a worker that ended without a report."""
    more = f"; see {log}" if log else ""
    rest = "Finished work is kept: run the same command again to do the rest."
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
            raise InputError.at(spell(flag), "NAME=VALUE, comma-separated", repr(pair))
    return pairs

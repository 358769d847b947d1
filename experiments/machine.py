"""The machine a program runs on: programs once compiled are kept, several processes work as one."""

import hashlib
import os
import platform
import sys
from pathlib import Path

from absl import flags

from batch_calibration.errors import InputError

COORDINATOR = flags.DEFINE_string(
    "coordinator",
    None,
    "work as one of several processes: HOST:PORT of process 0, the same for all, or auto under "
    "SLURM and on TPU pods, which find each other",
)
PROCESSES = flags.DEFINE_integer("processes", None, "how many processes there are", lower_bound=1)
PROCESS = flags.DEFINE_integer("process", None, "number of this one, from 0", lower_bound=0)


def keep_programs() -> None:
    """Keep compiled programs in the user's cache directory, a folder for each kind of processor.

    `JAX_COMPILATION_CACHE_DIR` names another directory; empty, it keeps nothing.
    """
    import jax
    from platformdirs import user_cache_path

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        directory = user_cache_path("batch-calibration") / "programs" / _machine()
        jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def set_up() -> None:
    """Keep compiled programs, and join the other processes, if there are any."""
    import jax

    keep_programs()
    if COORDINATOR.value is None:
        if PROCESSES.value is not None or PROCESS.value is not None:
            raise InputError("--processes and --process need --coordinator=HOST:PORT or auto.")
        return
    given = PROCESSES.value is not None and PROCESS.value is not None
    if COORDINATOR.value != "auto" and not given:
        raise InputError(
            "--coordinator=HOST:PORT: expected --processes and --process with it; give both, or "
            "--coordinator=auto under SLURM or on a TPU pod."
        )
    try:
        if COORDINATOR.value == "auto":
            jax.distributed.initialize()
        else:
            jax.distributed.initialize(COORDINATOR.value, PROCESSES.value, PROCESS.value)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"--coordinator={COORDINATOR.value}: the processes did not find each other "
            f"({str(error).splitlines()[0]}); start all of them, with one address."
        ) from error
    if jax.process_index():
        # The first process speaks for all.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115


def _machine() -> str:
    """A name for the processor's features: compiled programs depend on them."""
    about = platform.machine() + platform.processor()
    cpus = Path("/proc/cpuinfo")
    if cpus.is_file():
        lines = cpus.read_text(encoding="utf-8", errors="replace").splitlines()
        about += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(about.encode()).hexdigest()[:12]

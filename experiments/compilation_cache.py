"""Keeps compiled programs on disk, so that the next run of any program finds them."""

import hashlib
import os
import platform
from pathlib import Path


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


def _machine() -> str:
    """A name for the processor's features: compiled programs depend on them."""
    about = platform.machine() + platform.processor()
    cpus = Path("/proc/cpuinfo")
    if cpus.is_file():
        lines = cpus.read_text(encoding="utf-8", errors="replace").splitlines()
        about += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(about.encode()).hexdigest()[:12]

"""Prepares a process that computes: its memory, its compiled programs, its peer processes.

Compiled programs are cached on disk, so that the next run of any program finds them.

JAX writes cache entries in place: another process may read half an entry, and a killed process
leaves half an entry forever. So each process gives JAX a private folder with links to the shared
entries. New complete entries are moved to the shared folder in one step: at the end of the
process, or by the next process on this machine. The name of a shared entry begins with a checksum;
damaged entries are removed, because not every compression that JAX uses detects damage.
"""

import atexit
import ctypes
import hashlib
import importlib
import os
import platform
import shutil
import sys
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from batch_calibration.errors import InputError, answering
from batch_calibration.files import ended, is_day_old, process_name

COORDINATOR = "HOST:PORT of process 0, the same for all, or auto under SLURM and on TPU pods"
FLAGS = {
    "coordinator": (str, COORDINATOR),
    "processes": (int, "number of processes"),
    "process": (int, "index of this process, from 0"),
}
"""Flags of a program that may be one of several processes: their type and help text."""
M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
"""Option numbers of glibc's mallopt, from malloc.h."""
ARENAS = 4
"""One arena for each busy thread: two for batches, one for their layout, one for compilation."""
SHARED = "checked"
"""Name of the folder with the entries that all processes share."""


def use_few_arenas() -> None:
    """Makes all threads share a few memory arenas; call it before JAX starts its threads.

    By default, glibc gives each thread its own arena, which keeps freed memory, so that memory
    grows with the number of rows. With a single arena, compiling threads would wait for each other.
    Large arrays are kept in the arenas, too; otherwise each batch would return its memory to the
    system and request it again page by page. The environment variable `MALLOC_ARENA_MAX` takes
    precedence. Other C libraries are left unchanged.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        # CDLL(None) gives the symbols of this process, which include glibc's.
        if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
            mallopt(M_ARENA_MAX, ARENAS)
            mallopt(M_MMAP_MAX, 0)
            mallopt(M_TRIM_THRESHOLD, -1)  # never


def set_up(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Sets up the cache of compiled programs, and joins the other processes, if there are any.

    Args:
        coordinator: HOST:PORT of process 0, or "auto" if processes find each other. None for a
            single process.
        processes: Number of processes.
        process: Index of this process, from 0.

    Raises:
        InputError: The flags contradict each other, or the processes cannot connect.
    """
    use_few_arenas()  # before JAX is imported, which starts threads
    import jax

    keep_programs()
    if coordinator is None:
        # Without an address, JAX would ignore them, and each process would do all the work.
        if processes is not None or process is not None:
            raise InputError("--processes and --process need --coordinator=HOST:PORT or auto.")
        return
    if coordinator != "auto" and (processes is None or process is None):
        expected = "--processes and --process, or auto under SLURM or on a TPU pod"
        raise InputError.at("--coordinator=HOST:PORT", expected)
    # With "auto", JAX reads all three from the cluster's environment.
    address = () if coordinator == "auto" else (coordinator, processes, process)
    where, remedy = f"--coordinator={coordinator}", "start all of them with the same address"
    expected = "processes that can connect to each other"
    with answering((RuntimeError, ValueError), where, expected, remedy):
        jax.distributed.initialize(*address)
    if jax.process_index():
        # Only the first process prints.
        # The file stays open until the process ends.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115


def keep_programs() -> None:
    """Caches compiled programs in the user's cache directory, by kind of processor.

    If `JAX_COMPILATION_CACHE_DIR` is set, JAX uses that directory itself; if it is empty, nothing
    is cached. Nothing is cached either if the cache directory is not writable.
    """
    import jax

    # A program that cannot be read or written is compiled again, so no warning is needed.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")
    config: Any = jax.config
    # An empty variable counts, too: it turns the cache off.
    is_named = "JAX_COMPILATION_CACHE_DIR" in os.environ
    chosen = config.jax_compilation_cache_dir
    if not is_named and chosen and Path(chosen).is_dir():
        # This process is set up already. (Sharing removes its folder; then a new one is made.)
        return
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    if is_named:
        return
    # XLA's caches would be inside this directory, and its path would change each program's key.
    config.update("jax_persistent_cache_enable_xla_caches", "none")
    with suppress(OSError):
        own = _own_folder()
        shared = own.with_name(SHARED)
        shared.mkdir(parents=True, exist_ok=True)
        for sibling in shared.parent.iterdir():
            # A process that was killed could not share: on this machine, or elsewhere a day ago.
            with suppress(OSError):  # another process may remove the folder at the same time
                if sibling != shared and (ended(sibling.name) or is_day_old(sibling)):
                    _share(sibling)
        own.mkdir(exist_ok=True)
        for name in os.listdir(shared):
            with suppress(OSError):  # an entry that cannot be linked is skipped
                _take(f"{shared}/{name}", str(own))
        config.update("jax_compilation_cache_dir", str(own))
        atexit.register(_share, own)


def share_programs() -> None:
    """Moves the programs that this process compiled to the shared folder.

    `keep_programs` sets up a new folder afterwards. A process calls this function when it exits,
    unless it is killed or exits without `atexit`.
    """
    _share(_own_folder())


def _own_folder() -> Path:
    return programs_folder("programs") / process_name()


def programs_folder(name: str) -> Path:
    """Returns a folder of the user's cache directory for programs of this kind of processor."""
    from platformdirs import user_cache_path

    return user_cache_path("batch-calibration") / name / _machine()


def _share(folder: Path) -> None:
    """Moves a process's new cache entries to the shared folder, and removes its own folder."""
    shared = folder.with_name(SHARED)
    # Another process may do the same at the same time.
    with suppress(OSError):
        known = {_key(entry) for entry in shared.iterdir()}
        for entry in list(folder.iterdir()):  # a list, because entries leave the folder
            with suppress(OSError):
                if entry.name not in known and (checksum := _checksum(entry)):
                    entry.replace(shared / f"{checksum}-{entry.name}")
        # Two processes that ended at the same time may have moved the same entry.
        keys = set[str]()
        for entry in sorted(shared.iterdir()):
            if _key(entry) in keys:
                entry.unlink(missing_ok=True)
            keys.add(_key(entry))
    shutil.rmtree(folder, ignore_errors=True)


def _key(entry: Path) -> str:
    """Returns JAX's name for a shared entry."""
    return entry.name.partition("-")[2]


def _take(entry: str, folder: str) -> None:
    """Links a shared entry into a process's folder by JAX's name; removes it if it is damaged."""
    # Paths are strings, because pathlib would take longer than reading hundreds of entries.
    checksum, _, key = os.path.basename(entry).partition("-")
    content = b""
    with suppress(OSError), open(entry, "rb", buffering=0) as file:  # a folder, a dead link
        content = file.read()
    if not content or checksum != f"{zlib.crc32(content):08x}":
        shutil.rmtree(entry) if os.path.isdir(entry) else os.unlink(entry)
        return
    try:
        os.link(entry, os.path.join(folder, key))
    except FileExistsError:  # two processes shared it at the same time
        pass
    except OSError:  # a file system without links
        shutil.copyfile(entry, os.path.join(folder, key))


def _checksum(entry: Path) -> str:
    """Writes an entry to the disk; returns its checksum, or "" if JAX could not read the entry."""
    with entry.open("rb") as file:
        # Without this, a power failure could leave a name without its content.
        os.fsync(file.fileno())
        content = file.read()
    with suppress(Exception):  # each library raises its own kind of error
        _decompress()(content)
        return f"{zlib.crc32(content):08x}"
    return ""


def _decompress() -> Callable[[bytes], bytes]:
    """Returns the decompressor for JAX's entries from the first installed library."""
    for name in ("compression.zstd", "zstandard"):
        with suppress(ImportError):
            decompress: Callable[[bytes], bytes] = importlib.import_module(name).decompress
            return decompress
    return zlib.decompress


def _machine() -> str:
    """Returns a name for the processor features and the JAX version, on which programs depend."""
    import jax

    features = platform.machine() + platform.processor() + jax.__version__
    cpus = Path("/proc/cpuinfo")
    if cpus.is_file():
        lines = cpus.read_text(encoding="utf-8", errors="replace").splitlines()
        # All cores are assumed to have the features of the first.
        features += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(features.encode()).hexdigest()[:12]  # 12 hex digits, as part of a path

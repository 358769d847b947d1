"""Prepares a process that computes: its memory, its compiled programs, the others it joins.

Compiled programs are kept on disk, so that the next run of any program finds them.

JAX writes an entry of its cache in place: another process may read half of one, and a process that
is killed leaves half of one for ever. So each process gives JAX a folder of its own, which begins
with links to the entries of all, and what is new and whole in it is moved to them in one step: at
the end of the process, or by the next that starts on this machine. There an entry's name begins
with a checksum: what the disk damaged is dropped, as not every compression that JAX uses notices.
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

FLAGS = {
    "coordinator": (
        str, "work as one of several processes: HOST:PORT of process 0, the same for all, or auto "
        "under SLURM and on TPU pods, which find each other"
    ),
    "processes": (int, "how many processes there are"),
    "process": (int, "number of this one, from 0"),
}  # fmt: skip
"""Flags of a program that may be one of several processes: their kind, and what they mean."""
M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
"""glibc's numbers of the options, from its malloc.h."""
ARENAS = 4
"""One for each thread that works hard: two batches, what lays them out, what compiles."""
SHARED = "checked"
"""The name of the folder whose entries all processes begin with."""


def use_few_arenas() -> None:
    """Have all threads share a few arenas from now on; to be called before JAX starts its threads.

    glibc gives each thread an arena of its own, and each keeps what was freed in it: memory grows
    with the rows, though none of it is in use. In a single arena, threads that compile would wait
    for each other. Large arrays lie in the arenas, too: else each batch would give them back to the
    system and fetch them again, page by page. The environment's `MALLOC_ARENA_MAX` goes first, and
    with another C library nothing is done.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        # The symbols of this process, glibc's among them.
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(M_ARENA_MAX, ARENAS)
            mallopt(M_MMAP_MAX, 0)
            mallopt(M_TRIM_THRESHOLD, -1)  # never


def set_up(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Keep compiled programs, and join the other processes, if there are any.

    Args:
        coordinator: HOST:PORT of process 0, "auto" where processes find each other; None for one
            process alone.
        processes: how many there are.
        process: number of this one, from 0.

    Raises:
        InputError: flags that do not go together; processes that do not find each other.
    """
    use_few_arenas()  # before JAX is imported, which starts threads
    import jax

    keep_programs()
    if coordinator is None:
        # Without an address they would be ignored, and each process would do all the work.
        if processes is not None or process is not None:
            raise InputError("--processes and --process need --coordinator=HOST:PORT or auto.")
        return
    if coordinator != "auto" and (processes is None or process is None):
        expected = "--processes and --process with it"
        remedy = "give both, or --coordinator=auto under SLURM or on a TPU pod"
        raise InputError.at("--coordinator=HOST:PORT", expected, remedy=remedy)
    # With "auto" the cluster's environment tells JAX all three.
    address = () if coordinator == "auto" else (coordinator, processes, process)
    where, remedy = f"--coordinator={coordinator}", "start all of them, with one address"
    expected = "processes that find each other"
    with answering((RuntimeError, ValueError), where, expected, remedy):
        jax.distributed.initialize(*address)
    if jax.process_index():
        # The first process speaks for all.
        # Open until the process ends.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115


def keep_programs() -> None:
    """Keep compiled programs in the user's cache directory, a folder for each kind of processor.

    `JAX_COMPILATION_CACHE_DIR` names another directory, in which JAX itself reads and writes;
    empty, it keeps nothing. Where the cache directory cannot be written, nothing is kept.
    """
    import jax

    # No program depends on an entry: one that cannot be read or written is compiled anew.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")
    config: Any = jax.config
    # Also where it is empty: then nothing is kept.
    is_named = "JAX_COMPILATION_CACHE_DIR" in os.environ
    chosen = config.jax_compilation_cache_dir
    if not is_named and chosen and Path(chosen).is_dir():
        # The process this runs in has chosen already. (Once shared, a folder is gone: made anew.)
        return
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    if is_named:
        return
    # Their directory lies in that of the programs and would be part of each program's key.
    config.update("jax_persistent_cache_enable_xla_caches", "none")
    with suppress(OSError):
        own = _own_folder()
        shared = own.with_name(SHARED)
        shared.mkdir(parents=True, exist_ok=True)
        for sibling in shared.parent.iterdir():
            # Of a process that was killed before it could share, here or, a day ago, elsewhere.
            with suppress(OSError):  # another process may remove it at once
                if sibling != shared and (ended(sibling.name) or is_day_old(sibling)):
                    _share(sibling)
        own.mkdir(exist_ok=True)
        for name in os.listdir(shared):
            with suppress(OSError):  # or drop this one
                _take(f"{shared}/{name}", str(own))
        config.update("jax_compilation_cache_dir", str(own))
        atexit.register(_share, own)


def share_programs() -> None:
    """Give what this process compiled to all; `keep_programs` has it go on with what all have.

    A process that ends calls it by itself, unless it is killed, or ends without `atexit`.
    """
    _share(_own_folder())


def _own_folder() -> Path:
    return programs_folder("programs") / process_name()


def programs_folder(name: str) -> Path:
    """A folder of the user's cache directory for programs of this kind of processor."""
    from platformdirs import user_cache_path

    return user_cache_path("batch-calibration") / name / _machine()


def _share(folder: Path) -> None:
    """Move a process's new entries to the common folder, and remove its own."""
    shared = folder.with_name(SHARED)
    # Another process may do the same at once.
    with suppress(OSError):
        known = {_key(entry) for entry in shared.iterdir()}
        for entry in list(folder.iterdir()):  # a list, as entries leave the folder
            with suppress(OSError):
                if entry.name not in known and (checksum := _checksum(entry)):
                    entry.replace(shared / f"{checksum}-{entry.name}")
        # Two processes that ended at once have both moved theirs.
        keys = set[str]()
        for entry in sorted(shared.iterdir()):
            if _key(entry) in keys:
                entry.unlink(missing_ok=True)
            keys.add(_key(entry))
    shutil.rmtree(folder, ignore_errors=True)


def _key(entry: Path) -> str:
    """JAX's name of a shared entry."""
    return entry.name.partition("-")[2]


def _take(entry: str, folder: str) -> None:
    """Give a shared entry JAX's name in a process's folder, or drop it where it is damaged."""
    # Of text: for hundreds of entries each path's own functions would take longer than reading.
    checksum, _, key = os.path.basename(entry).partition("-")
    content = b""
    with suppress(OSError), open(entry, "rb", buffering=0) as file:  # a folder, a dead link
        content = file.read()
    if not content or checksum != f"{zlib.crc32(content):08x}":
        shutil.rmtree(entry) if os.path.isdir(entry) else os.unlink(entry)
        return
    try:
        os.link(entry, os.path.join(folder, key))
    except FileExistsError:  # two processes shared it at once
        pass
    except OSError:  # a file system without links
        shutil.copyfile(entry, os.path.join(folder, key))


def _checksum(entry: Path) -> str:
    """The checksum of an entry that JAX could read, flushed to the disk; else empty."""
    with entry.open("rb") as file:
        # After a power failure a name without its content would pass for an entry.
        os.fsync(file.fileno())
        content = file.read()
    try:
        _decompress()(content)
    # Each library has an error of its own.
    except Exception:
        return ""
    return f"{zlib.crc32(content):08x}"


def _decompress() -> Callable[[bytes], bytes]:
    """The compressor of JAX's entries: the first of these that is installed."""
    for name in ("compression.zstd", "zstandard"):
        with suppress(ImportError):
            decompress: Callable[[bytes], bytes] = importlib.import_module(name).decompress
            return decompress
    return zlib.decompress


def _machine() -> str:
    """A name for what entries depend on: the processor's features and the version of JAX."""
    import jax

    features = platform.machine() + platform.processor() + jax.__version__
    cpus = Path("/proc/cpuinfo")
    if cpus.is_file():
        lines = cpus.read_text(encoding="utf-8", errors="replace").splitlines()
        # One core stands for all.
        features += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(features.encode()).hexdigest()[:12]  # 12 hex digits, as part of a path

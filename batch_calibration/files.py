"""Files that are written whole or not at all, and what JSON holds."""

import os
from pathlib import Path

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
"""A value that JSON can hold."""


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` under a temporary name, flush it to the disk, then rename it to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)

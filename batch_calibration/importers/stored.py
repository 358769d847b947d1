"""Our own score tables: a file that `ScoreTable.save` wrote, or a working folder of them."""

from pathlib import Path

from batch_calibration.errors import InputError
from batch_calibration.scores import KEY, ScoreTable, load

START = f'{{"__metadata__":{{"{KEY}"'.encode()
"""How the header of such a file begins."""


def tables(path: Path) -> list[ScoreTable] | None:
    """The tables of a file or a working folder, as they are; None where it holds none of ours."""
    if path.is_dir():
        found = sorted((path / "scores").glob("*.safetensors"))
        if not found:
            raise InputError(
                where=path,
                expected="a file of scores, or a working folder with scores/ in it",
                got="a folder without",
            )
        return [load(file) for file in found]
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = file.read(min(size, len(START)))
    except OSError:
        return None
    return [load(path)] if header == START else None

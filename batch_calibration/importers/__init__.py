"""Other people's scores: files, logs and frames read as score tables, one importer a format."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.importers import llama_cpp, openai, sglang, vllm
from batch_calibration.importers.base import Imported, Reading, to_table, to_tables
from batch_calibration.scores import ScoreTable

__all__ = ["IMPORTERS", "Imported", "Importer", "Reading", "read", "to_table", "to_tables"]


class Importer(NamedTuple):
    """A format.

    Attributes:
        recognizes: path and first bytes of a file -> whether it is of this format.
        read: a file and what is said of it -> what is in it.
        source: where the format is documented.
    """

    recognizes: Callable[[Path, bytes], bool]
    read: Callable[[Path, Reading], list[Imported]]
    source: str


IMPORTERS: dict[str, Importer] = {
    "vllm": Importer(
        vllm.recognizes,
        vllm.read,
        "https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html",
    ),
    "openai": Importer(
        openai.recognizes, openai.read, "https://platform.openai.com/docs/api-reference"
    ),
    "sglang": Importer(
        sglang.recognizes, sglang.read, "https://docs.sglang.ai/basic_usage/native_api.html"
    ),
    "llama.cpp": Importer(
        llama_cpp.recognizes,
        llama_cpp.read,
        "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
    ),
}
"""Format -> importer; of those that recognize a file, the first one reads it."""


def read(path: str | Path, reading: Reading | None = None) -> list[ScoreTable]:
    """The score tables in a file of any known format.

    Args:
        path: the file.
        reading: what is said of it.

    Raises:
        InputError: a sentence on what is wrong with it.
    """
    reading = reading or Reading()
    return to_tables(find(Path(path), reading).read(Path(path), reading), reading)


def find(path: Path, reading: Reading) -> Importer:
    """The importer of a file: the one named, or the first that recognizes it."""
    if reading.format:
        if reading.format not in IMPORTERS:
            raise InputError.unknown("format", reading.format, IMPORTERS)
        return IMPORTERS[reading.format]
    try:
        with path.open("rb") as file:
            start = file.read(65_536)
    except OSError as error:
        raise InputError(
            f"{path}: expected a file of scores, which cannot be read ({error.strerror})."
        ) from error
    for importer in IMPORTERS.values():
        if importer.recognizes(path, start):
            return importer
    raise InputError(
        f"{path}: its format is not known; name it with --format: {', '.join(IMPORTERS)}."
    )

"""Importers, one per format: read files, logs and frames of other programs as score tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.errors import InputError, refuse_unknown, spell
from batch_calibration.files.rows import beginning
from batch_calibration.importers import (
    array_files,
    frames,
    helm,
    inspect_ai,
    lighteval,
    lm_eval,
    server_logs,
    text_files,
)
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.compressed import plain_copy
from batch_calibration.importers.frames import tables_of
from batch_calibration.importers.tables import join_shards, own_tables, to_tables
from batch_calibration.scores import ScoreTable

__all__ = ["IMPORTERS", "Imported", "Importer", "Reading", "read", "read_shards", "tables_of"]


class Importer(NamedTuple):
    """The functions that recognize and read one format.

    Attributes:
        recognizes: Checks from a file's path and first bytes whether it has this format.
        read: Reads the scores of a file, given the user's description of it.
    """

    recognizes: Callable[[Path, bytes], bool]
    read: Callable[[Path, Reading], list[Imported]]


FOREIGN = (
    (rb"version https://git-lfs", "a pointer of Git LFS, not the file", "run git lfs pull"),
    (
        rb"\x80[\x02-\x05]",
        "a pickle, which may run code and is never read",
        "write its table as CSV, Parquet or .npz",
    ),
    (
        rb"PK\x03\x04[\s\S]{26}[^/]+/data\.pkl",
        "a file of torch, which may run code and is never read",
        "write its tensor [rows, labels] as .npz: import numpy, torch; "
        "numpy.savez('scores.npz', scores=torch.load('scores.pt').float().numpy())",
    ),
    (
        rb"[^\n]*\"g1_(winner|judgment)\"",
        "FastChat's verdicts, which have no probabilities",
        "ask the judge again for the log-probabilities of its verdicts, and use these",
    ),
    (
        rb"[\s\[]*(?=.*\"choice\")(?=.*\"probabilities\"\s*:\s*\{)",
        "answers of a decision model",
        "write a column for each option, and content-free rows to a separate file",
    ),
)
"""Files without usable scores: a pattern of their first bytes, their kind, and a remedy."""


def _of_server(server: str) -> Importer:
    recognizes, read = partial(server_logs.recognizes, server), partial(server_logs.read, server)
    return Importer(recognizes, read)


# Formats of logs come before formats of tables, because a log may also be JSON Lines or a zip.
IMPORTERS: dict[str, Importer] = {
    # https://github.com/EleutherAI/lm-evaluation-harness/blob/main/docs/interface.md
    "lm_eval": Importer(lm_eval.recognizes, lm_eval.read),
    # https://huggingface.co/docs/lighteval/saving-and-reading-results
    "lighteval": Importer(lighteval.recognizes, lighteval.read),
    # https://inspect.aisi.org.uk/eval-logs.html
    "inspect_ai": Importer(inspect_ai.recognizes, inspect_ai.read),
    # https://crfm-helm.readthedocs.io/en/latest/tutorial/
    "helm": Importer(helm.recognizes, helm.read),
    **{server: _of_server(server) for server in server_logs.PATTERNS},
    # https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
    "npz": Importer(array_files.is_npz, partial(array_files.read, array_files.load_npz)),
    "npy": Importer(array_files.is_npy, partial(array_files.read, array_files.load_npy)),
    # https://huggingface.co/docs/safetensors
    "safetensors": Importer(
        array_files.is_safetensors, partial(array_files.read, array_files.load_safetensors)
    ),
    # https://parquet.apache.org/docs/file-format/
    "parquet": Importer(frames.is_parquet, partial(frames.read, frames.load_parquet)),
    # https://arrow.apache.org/docs/format/Columnar.html
    "arrow": Importer(frames.is_arrow, partial(frames.read, frames.load_arrow)),
    "json": Importer(text_files.is_json, text_files.read_json),  # https://jsonlines.org
    # https://fasttext.cc/docs/en/supervised-tutorial.html
    "fasttext": Importer(text_files.is_fasttext, text_files.read_fasttext),
    "csv": Importer(text_files.is_delimited, text_files.read_delimited),  # RFC 4180
}
"""Format -> importer; the first importer that recognizes a file reads it."""


@usual_jax
def read(path: str | Path, reading: Reading | None = None) -> list[ScoreTable]:
    """Reads the score tables in a file of any known format.

    Args:
        path: The file, plain or compressed (gzip, Zstandard), or a working folder. Score tables of
            this package are loaded unchanged.
        reading: The user's description of the file.

    Raises:
        InputError: The file cannot be read as scores.
    """
    reading = reading or Reading()
    with plain_copy(Path(path)) as file:
        tables = own_tables(file)
        if tables is not None:
            return tables
        return to_tables(find_importer(file, reading).read(file, reading), reading)


def read_shards(paths: Sequence[str | Path], reading: Reading | None = None) -> list[ScoreTable]:
    """Reads files that are parts (shards) of one data set as one file.

    Args:
        paths: The files. Rows are numbered across all files, in this order.
        reading: The user's description, the same for all files.

    Raises:
        InputError: The files have different labels, a file has several contexts or is a score
            table of this package, or `read` raises an error.
    """
    reading, shards = reading or Reading(), list[Imported]()
    for path in map(Path, paths):
        with plain_copy(path) as file:
            is_foreign = own_tables(file) is None
            contexts = find_importer(file, reading).read(file, reading) if is_foreign else []
        if len(contexts) != 1:
            expected = "a shard of one data set, with the rows of one context"
            got = f"{len(contexts)} contexts" if contexts else "a score table"
            raise InputError.at(path, expected, got, f"leave {spell('shards')} out")
        shards += contexts
    return to_tables([join_shards(shards)], reading)


def find_importer(path: Path, reading: Reading) -> Importer:
    """Returns the importer that `reading` names, or the first that recognizes the file."""
    if reading.format:
        refuse_unknown("format", reading.format, IMPORTERS)
        return IMPORTERS[reading.format]
    start = beginning(path)
    for pattern, kind, remedy in FOREIGN:
        if re.match(pattern, start):
            raise InputError.at(path, "a file of scores", kind, remedy)
    for importer in IMPORTERS.values():
        if importer.recognizes(path, start):
            return importer
    raise InputError(
        f"{path}: its format is not known; name it with {spell('format')}: {', '.join(IMPORTERS)}."
    )

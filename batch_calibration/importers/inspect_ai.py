"""Logs of Inspect (inspect_ai), `.eval` and `.json`, of questions answered by a letter or word.

A sample's `output.choices[0].logprobs` has, for each token that the model wrote, the likeliest ones
there, where the model was asked for them. The scores are those where the answer stands.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.choices import to_imported
from batch_calibration.importers.inspect_samples import AnswerPosition, read_sample, score_samples
from batch_calibration.importers.local_copies import check_archive
from batch_calibration.importers.rows import Row
from batch_calibration.importers.text_files import (
    fields,
    members,
    parse_object,
    read_text,
    text_or_empty,
)
from batch_calibration.responses import value_at

HEADERS = ("header.json", "_journal/start.json")
"""Names of a log's header: of one that is finished, and of one that was stopped."""
ZSTANDARD = 93  # the method's number in zip files
MAX_BYTES = 1 << 28  # of one sample or header, beyond which it is none


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file is a log: a zip named `.eval`, or JSON that begins as one does."""
    if start.startswith(b"PK"):
        return path.suffix == ".eval"
    return bool(re.match(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:', start))


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a log's samples, of the first epoch."""
    header: Mapping[str, Json] = {}
    rows: list[Row] = []
    positions: list[AnswerPosition] = []
    later_epochs = failed = 0
    for where, sample in _header_and_samples(path):
        if "eval" in sample and "id" not in sample:
            header = fields(sample.get("eval"))
        elif sample.get("epoch", 1) != 1:  # the same question again, sampled anew
            later_epochs += 1
        elif sample.get("error") or value_at(sample, "output", "error"):
            failed += 1
        else:
            row, position = read_sample(sample, where, reading)
            rows.append(row)
            positions.append(position)
    notes = []
    if failed:
        notes.append(f"{failed:,} samples ended in an error and are left out.")
    if later_epochs:
        notes.append(f"{later_epochs:,} samples of later epochs are left out.")
    rows, answer_notes = score_samples(rows, positions, str(path), reading)
    notes = answer_notes + notes
    version = text_or_empty(value_at(header, "packages", "inspect_ai"))
    context: dict[str, Json] = {
        "task": reading.task or text_or_empty(header.get("task")) or path.stem,
        "scorer": f"inspect_ai {version}".strip(),
        "model": text_or_empty(header.get("model")),
        "data": text_or_empty(value_at(header, "dataset", "name")),
    }
    context = {name: text for name, text in context.items() if text}
    return to_imported(rows, str(path), reading, context, notes)


def _header_and_samples(path: Path) -> Iterator[tuple[str, dict[str, Json]]]:
    """The header, then each sample, with its place in words."""
    if path.suffix != ".eval":
        log = parse_object(read_text(path), str(path))
        yield str(path), {"eval": log.get("eval")}
        for i, sample in enumerate(members(log.get("samples"))):
            yield f"{path}, sample {i}", fields(sample)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path)
            names = archive.namelist()
            header = [name for name in HEADERS if name in names][:1]  # a finished log has both
            samples = [name for name in names if re.fullmatch(r"samples/[^/]+\.json", name)]
            for name in [*header, *samples]:
                where, member = f"{path}, {name}", archive.getinfo(name)
                if member.file_size > MAX_BYTES:  # a small zip may unpack to any size
                    raise InputError(f"{where}: longer than any sample; it is not read.")
                text = _decompress(archive, member, path).decode("utf-8-sig")
                yield where, parse_object(text, where)
    except InputError:
        raise
    except OSError as error:
        raise InputError(where=path, expected=f"a log, which cannot be read ({error})") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        raise InputError(f"{path}: no whole log ({shown(str(error))}); copy it again.") from error


def _decompress(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> bytes:
    """A file of an archive; Zstandard, which Inspect writes, zipfile reads from Python 3.14 on."""
    if member.compress_type != ZSTANDARD:
        return archive.read(member)
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            f"{path}: it is compressed by Zstandard, which needs pyarrow; pip install "
            "'batch-calibration[data]', or inspect log convert --to json --output-dir DIR LOG."
        ) from error
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(30)  # the fixed part, in each member again
        # Lengths of the name and of other fields, which stand between the header and the data.
        lengths = [int.from_bytes(header[at : at + 2], "little") for at in (26, 28)]
        file.seek(sum(lengths), 1)  # 1: from here on
        compressed = file.read(member.compress_size)
    with pyarrow.CompressedInputStream(pyarrow.BufferReader(compressed), "zstd") as stream:
        # Its own frame may hold more than the zip declares.
        content = bytes(stream.read(member.file_size + 1))
    if len(content) > member.file_size:
        raise zipfile.BadZipFile(f"{member.filename} unpacks to more than {member.file_size} bytes")
    return content

"""Logs of Inspect (inspect_ai), `.eval` and `.json`, of questions answered by a letter or word.

A sample's `output.choices[0].logprobs` has, for each token that the model wrote, the likeliest ones
there, where the model was asked for them. The scores are those where the answer stands.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, parse_json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.choices import Row, by_columns, target_of, to_imported
from batch_calibration.importers.first_tokens import scored
from batch_calibration.importers.json_parts import fields, text
from batch_calibration.importers.responses import add
from batch_calibration.importers.top_k import AROUND

HEADERS = ("header.json", "_journal/start.json")
ZSTANDARD = 93
LONGEST = 1 << 30
"""Bytes of one sample or header beyond which it is none."""


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file is a log: a zip named `.eval`, or JSON that begins as one does."""
    if start.startswith(b"PK"):
        return path.suffix == ".eval"
    text = start.removeprefix(b"\xef\xbb\xbf")
    return bool(re.match(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:', text))


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a log's samples, of the first epoch.

    Raises:
        InputError: no log; answers without log-probabilities; shuffled choices; what `to_imported`
            refuses.
    """
    header: Mapping[str, Json] = {}
    rows: list[Row] = []
    lists: list[dict[str, float]] = []
    before: list[int] = []
    epochs = failed = 0
    for where, value in _values(path):
        if "eval" in value and "id" not in value:
            header = fields(value.get("eval"))
            continue
        if value.get("epoch", 1) != 1:
            epochs += 1
            continue
        if value.get("error"):
            failed += 1
            continue
        labels = _labels(value, where, reading)
        top, place = _list_of_answer(value, labels, where)
        lists.append(top)
        before.append(place)
        rows.append(_row(value, labels, where, reading))
    notes = []
    if any(before):
        notes.append(
            f"The scores are of the token where the answer stands, after {max(before):,} tokens at "
            "most that the model wrote itself: they are given what it wrote."
        )
    if failed:
        notes.append(f"{failed:,} samples ended in an error and are left out.")
    if epochs:
        notes.append(f"{epochs:,} samples of later epochs are left out.")
    about: dict[str, Json] = {"task": reading.task or text(header.get("task")) or path.stem}
    version = text(fields(header.get("packages")).get("inspect_ai"))
    about["scorer"] = f"inspect_ai {version}".strip()
    about |= {"model": model} if (model := text(header.get("model"))) else {}
    about |= {"data": data} if (data := text(fields(header.get("dataset")).get("name"))) else {}
    values = scored(rows, lists, str(path), reading) if rows else []
    return to_imported(values, str(path), reading, about, notes)


def _values(path: Path) -> Iterator[tuple[str, dict[str, Json]]]:
    """The header, then each sample, with its place in words."""
    try:
        if path.suffix != ".eval":
            log = _parse(path.read_bytes(), str(path))
            yield str(path), {"eval": log.get("eval")}
            samples = log.get("samples")
            for i, sample in enumerate(samples if isinstance(samples, list) else []):
                yield f"{path}, sample {i}", fields(sample)
            return
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            header = [name for name in HEADERS if name in names][:1]
            of = [name for name in names if re.fullmatch(r"samples/[^/]+\.json", name)]
            for name in [*header, *of]:
                if archive.getinfo(name).file_size > LONGEST:
                    raise InputError(f"{path}, {name}: longer than any sample; it is not read.")
                data = _member(archive, archive.getinfo(name), path)
                yield f"{path}, {name}", _parse(data, f"{path}, {name}")
    except OSError as error:
        raise InputError(where=path, expected=f"a log, which cannot be read ({error})") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: no whole log ({shown(str(error))}); copy it again.") from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> bytes:
    """A file of an archive; Zstandard, which Inspect writes, zipfile reads from Python 3.14 on."""
    if info.compress_type != ZSTANDARD:
        return archive.read(info)
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            f"{path}: it is compressed by Zstandard, which needs pyarrow; pip install "
            "'batch-calibration[data]', or inspect log convert --to json --output-dir DIR LOG."
        ) from error
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(30)
        # Lengths of the name and of other fields, which stand between the header and the data.
        between = [int.from_bytes(header[at : at + 2], "little") for at in (26, 28)]
        file.seek(sum(between), 1)
        data = file.read(info.compress_size)
    with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd") as stream:
        return bytes(stream.read(LONGEST))


def _parse(data: bytes, where: str) -> dict[str, Json]:
    try:
        value = parse_json(data.decode("utf-8-sig"))
    except ValueError as error:
        raise InputError(f"{where}: no JSON ({str(error)[:200]}); is it cut short?") from error
    if not isinstance(value, dict):
        raise InputError(where=where, expected="a JSON object", got=shown(value))
    return value


def _labels(sample: Mapping[str, Json], where: str, reading: Reading) -> tuple[str, ...]:
    """The answers of a sample: letters of its choices, or what a person names."""
    choices = sample.get("choices")
    if isinstance(choices, list) and choices:
        if len(choices) > 26:
            raise InputError(where=where, expected="at most 26 choices", got=len(choices))
        return tuple(chr(65 + i) for i in range(len(choices)))
    if len(reading.labels) > 1:
        return reading.labels
    raise InputError(
        f"{where}: the sample has no choices; say --labels=yes,no, the answers of the task."
    )


def _list_of_answer(
    sample: Mapping[str, Json], labels: Sequence[str], where: str
) -> tuple[dict[str, float], int]:
    """The likeliest tokens where the answer stands, and how many tokens stand before it.

    The answer is the last token that is one of the labels, as in "ANSWER: B"; the first token where
    none is.
    """
    outputs = fields(sample.get("output")).get("choices")
    first = fields(outputs[0]) if isinstance(outputs, list) and outputs else {}
    content = fields(first.get("logprobs")).get("content")
    tokens = [fields(one) for one in content] if isinstance(content, list) else []
    answers = {name.casefold() if len(name) > 1 else name for name in labels}

    def is_answer(token: Mapping[str, Json]) -> bool:
        word = text(token.get("token")).strip(AROUND)
        return (word.casefold() if len(word) > 1 else word) in answers

    place = max((i for i, token in enumerate(tokens) if is_answer(token)), default=0)
    listed = tokens[place].get("top_logprobs") if tokens else None
    if not isinstance(listed, list) or not listed:
        raise InputError(
            f"{where}: the log has no log-probabilities of other tokens; evaluate again with "
            "--logprobs --top-logprobs 20, with a provider that gives them."
        )
    row: dict[str, float] = {}
    for one in listed:
        add(row, fields(one).get("token"), fields(one).get("logprob"), where)
    return row, place


def _row(sample: Mapping[str, Json], labels: tuple[str, ...], where: str, reading: Reading) -> Row:
    scores = [fields(one) for one in fields(sample.get("scores")).values()]
    if any("were shuffled" in text(one.get("explanation")) for one in scores):
        raise InputError(
            f"{where}: the choices were shuffled for the model, and the log's letters are those "
            "before; evaluate with shuffled data in place of shuffled choices."
        )
    known = {**fields(sample.get("metadata")), **sample}
    target = target_of(known, sample.get("target"), where, reading, what="sample")
    if isinstance(target, str) and target.strip().upper() in labels:
        target = target.strip().upper()
    values = {"C": True, "I": False, 1: True, 0: False}
    value = scores[0].get("value") if len(scores) == 1 else None
    right = values.get(value) if isinstance(value, str | int | float) else None
    columns = by_columns(known, where, reading, what="sample")
    return Row(str(sample.get("id")), (), labels, target, right, columns=columns)

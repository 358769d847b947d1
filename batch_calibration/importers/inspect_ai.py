"""Logs of Inspect (inspect_ai), `.eval` and `.json`, of questions answered by a letter or word.

A sample's `output.choices[0].logprobs` has, for each token that the model wrote, the likeliest ones
there, where the model was asked for them. The scores are those where the answer stands.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.choices import (
    Row,
    by_columns,
    score_by_first_tokens,
    target_of,
    to_imported,
)
from batch_calibration.importers.text_files import (
    fields,
    members,
    parse_object,
    read_text,
    text_or_empty,
)
from batch_calibration.importers.unpacking import check_archive
from batch_calibration.importers.written_answers import find_answer, names_label
from batch_calibration.responses import add_token, fold, value_at

HEADERS = ("header.json", "_journal/start.json")
"""Names of a log's header: of one that is finished, and of one that was stopped."""
ZSTANDARD = 93
"""The method's number in zip files."""
MAX_BYTES = 1 << 28
"""Of one sample or header, beyond which it is none."""
MAX_TOKENS_AT_ONCE = 4
"""Tokens that an answer without an explanation may have."""
IS_RIGHT = {"C": True, "I": False, 1: True, 0: False}
"""Values of a score -> whether the answer is right."""


@dataclass(frozen=True)
class Place:
    """Where a sample's answer stands.

    Attributes:
        before: tokens that the model wrote before it, None where the place cannot be told.
        size: tokens that the model wrote.
        names_label: whether any label stands in what it wrote.
        log_probs: the likeliest tokens there, or at the beginning where the place is not known.
    """

    before: int | None
    size: int
    names_label: bool
    log_probs: Mapping[str, float]


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file is a log: a zip named `.eval`, or JSON that begins as one does."""
    if start.startswith(b"PK"):
        return path.suffix == ".eval"
    text = start.removeprefix(b"\xef\xbb\xbf")
    return bool(re.match(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:', text))


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a log's samples, of the first epoch."""
    header: Mapping[str, Json] = {}
    rows: list[Row] = []
    places: list[Place] = []
    later_epochs = failed = 0
    for where, sample in _header_and_samples(path):
        if "eval" in sample and "id" not in sample:
            header = fields(sample.get("eval"))
        elif sample.get("epoch", 1) != 1:  # the same question again, sampled anew
            later_epochs += 1
        elif sample.get("error") or value_at(sample, "output", "error"):
            failed += 1
        else:
            labels = _labels(sample, where, reading)
            rows.append(_row(sample, labels, where, reading))
            places.append(_place(sample, labels, where))
    notes = []
    if failed:
        notes.append(f"{failed:,} samples ended in an error and are left out.")
    if later_epochs:
        notes.append(f"{later_epochs:,} samples of later epochs are left out.")
    rows, places, answer_notes = _answered(rows, places, str(path))
    notes = answer_notes + notes
    version = text_or_empty(value_at(header, "packages", "inspect_ai"))
    context: dict[str, Json] = {
        "task": reading.task or text_or_empty(header.get("task")) or path.stem,
        "scorer": f"inspect_ai {version}".strip(),
        "model": text_or_empty(header.get("model")),
        "data": text_or_empty(value_at(header, "dataset", "name")),
    }
    context = {name: text for name, text in context.items() if text}
    scored = (
        score_by_first_tokens(rows, [place.log_probs for place in places], str(path), reading)
        if rows
        else []
    )
    return to_imported(scored, str(path), reading, context, notes)


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


def _labels(sample: Mapping[str, Json], where: str, reading: Reading) -> tuple[str, ...]:
    """The answers of a sample: letters of its choices, or what a person names."""
    choices = members(sample.get("choices"))
    if choices:
        if len(choices) > 26:
            raise InputError(where=where, expected="at most 26 choices", got=len(choices))
        return tuple(chr(65 + i) for i in range(len(choices)))  # A, B, C ...
    if len(reading.labels) > 1:
        return reading.labels
    raise InputError(
        f"{where}: the sample has no choices; say --labels=yes,no, the answers of the task."
    )


def _place(sample: Mapping[str, Json], labels: Sequence[str], where: str) -> Place:
    """Where a sample's answer stands."""
    content = value_at(sample, "output", "choices", 0, "logprobs", "content")
    tokens = list(map(fields, members(content)))
    written = [text_or_empty(token.get("token")) for token in tokens]
    # Of several scorers none is the log's own.
    scores = list(map(fields, fields(sample.get("scores")).values()))
    answer = text_or_empty(scores[0].get("answer")).strip() if len(scores) == 1 else ""
    recorded = next((name for name in labels if fold(name) == fold(answer)), "")
    # What is one token is the answer, whatever it says.
    before = 0 if len(tokens) == 1 else find_answer(written, labels, recorded)
    listed = members(tokens[before or 0].get("top_logprobs")) if tokens else []
    if not listed:
        raise InputError(
            f"{where}: the log has no log-probabilities of other tokens; evaluate again with "
            "--logprobs --top-logprobs 20, with a provider that gives them."
        )
    log_probs: dict[str, float] = {}
    for likely in listed:
        add_token(log_probs, value_at(likely, "token"), value_at(likely, "logprob"), where)
    return Place(before, len(tokens), names_label("".join(written), labels), log_probs)


def _answered(
    rows: list[Row], places: list[Place], where: str
) -> tuple[list[Row], list[Place], list[str]]:
    """The samples whose answer has a place, and notes on the others and on what stands before."""
    told = {place.before for place in places if place.before is not None}
    longest = max((place.size for place in places), default=0)
    # Where the others answer by their first token, it is the place of an answer that is no label.
    is_at_once = told == {0} or (not told and longest <= MAX_TOKENS_AT_ONCE)
    is_kept = [
        place.before is not None or (is_at_once and not place.names_label) for place in places
    ]
    open_count = is_kept.count(False)
    if rows and open_count == len(rows):
        raise InputError(
            where=where,
            expected="samples that name one of their labels after 'ANSWER:', or one label alone",
            got=f"none in {open_count:,} samples",
            remedy="evaluate again with a prompt that asks for 'ANSWER: $LETTER'",
        )
    notes = []
    if any(told):
        notes.append(
            f"The scores are of the token where the answer stands, after {max(told):,} tokens at "
            "most that the model wrote itself: they are given what it wrote."
        )
    if open_count:
        notes.append(
            f"{open_count:,} of {len(rows):,} samples name no answer, or several without "
            "'ANSWER:' before one, and are left out."
        )
    return list(compress(rows, is_kept)), list(compress(places, is_kept)), notes


def _row(sample: Mapping[str, Json], labels: tuple[str, ...], where: str, reading: Reading) -> Row:
    """A sample without scores."""
    scores = list(map(fields, fields(sample.get("scores")).values()))
    if any("were shuffled" in text_or_empty(score.get("explanation")) for score in scores):
        raise InputError(
            f"{where}: the choices were shuffled for the model, and the log's letters are those "
            "before; evaluate with shuffled data in place of shuffled choices."
        )
    known_fields = {**fields(sample.get("metadata")), **sample}
    target = target_of(known_fields, sample.get("target"), where, reading, kind="sample")
    if isinstance(target, str) and target.strip().upper() in labels:
        target = target.strip().upper()  # letters, however the data set writes them
    # Of several scorers none is the log's own.
    grade = scores[0].get("value") if len(scores) == 1 else None
    right = IS_RIGHT.get(grade) if isinstance(grade, str | int | float) else None
    columns = by_columns(known_fields, where, reading, kind="sample")
    return Row(str(sample.get("id")), (), labels, target, right, columns=columns)

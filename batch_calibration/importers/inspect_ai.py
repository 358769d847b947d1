"""Reads logs of Inspect (inspect_ai), `.eval` and `.json`, with answers of one letter or word.

If the evaluation requested log-probabilities, a sample's `output.choices[0].logprobs` lists the
most probable tokens at the position of each written token. The scores come from the list at the
answer's position.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from batch_calibration.errors import InputError, answering, extra, spell
from batch_calibration.files import Json, list_at, object_at, text_at, value_at
from batch_calibration.files.rows import parse_object, read_text
from batch_calibration.importers import questions
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import numbered_names
from batch_calibration.importers.compressed import check_archive, open_zstandard
from batch_calibration.responses.answers import MAX_TOKENS_AT_ONCE, find_place, names_label
from batch_calibration.responses.servers import read_tokens
from batch_calibration.responses.top_k import AROUND, fold

HEADERS = ("header.json", "_journal/start.json")
"""Names of the header in a finished log and in a log of a stopped evaluation."""
ZSTANDARD = 93  # the number of this compression method in zip files
CONVERT = f"{extra('data')}, or inspect log convert --to json --output-dir DIR LOG"


Sample = Mapping[str, Json]  # a sample's object in the log, or a part of it


def recognizes(path: Path, start: bytes) -> bool:
    """Checks whether a file is a log: a zip named `.eval`, or JSON that begins like a log."""
    if start.startswith(b"PK"):
        return path.suffix == ".eval"
    return bool(re.match(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:', start))


def read(path: Path, reading: Reading) -> list[Imported]:
    """Reads the scores of a log's samples in the first epoch."""
    header: Mapping[str, Json] = {}
    rows: list[questions.Row] = []
    positions: list[AnswerPosition] = []
    later_epochs = failed = 0
    for where, sample in _header_and_samples(path):
        if "eval" in sample and "id" not in sample:
            header = object_at(sample, "eval")
        elif sample.get("epoch", 1) != 1:  # repeats the question
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
    version = text_at(header, "packages", "inspect_ai")
    context: dict[str, Json] = {
        "task": reading.task or text_at(header, "task") or path.stem,
        "scorer": f"inspect_ai {version}".strip(),
        "model": text_at(header, "model"),
        "data": text_at(header, "dataset", "name"),
    }
    return questions.import_rows(rows, str(path), reading, context, notes)


def _header_and_samples(path: Path) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yields the header, then each sample, each after its location for messages."""
    if path.suffix != ".eval":
        log = parse_object(read_text(path), str(path))
        yield str(path), {"eval": log.get("eval")}
        for i, sample in enumerate(list_at(log, "samples")):
            yield f"{path}, sample {i}", object_at(sample)
        return
    kinds = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError)
    with answering(kinds, path, "an intact log", "copy it again"), zipfile.ZipFile(path) as archive:
        check_archive(archive, path)
        names = archive.namelist()
        header = [name for name in HEADERS if name in names][:1]  # a finished log has both
        samples = [name for name in names if re.fullmatch(r"samples/[^/]+\.json", name)]
        for name in [*header, *samples]:
            where, member = f"{path}, {name}", archive.getinfo(name)
            text = _decompress(archive, member, path).decode("utf-8-sig")
            yield where, parse_object(text, where)


def _decompress(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> bytes:
    """Returns the bytes of an archive's member.

    Inspect writes Zstandard, which zipfile cannot read before Python 3.14.
    """
    if member.compress_type != ZSTANDARD:
        return archive.read(member)
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(30)  # the fixed part of the member's local header
        # The name and extra fields lie between the header and the data; these are their lengths.
        lengths = [int.from_bytes(header[at : at + 2], "little") for at in (26, 28)]
        file.seek(sum(lengths), 1)  # 1: relative to the current position
        compressed = file.read(member.compress_size)
    with open_zstandard(io.BytesIO(compressed), path, CONVERT) as stream:
        # The compressed frame may hold more bytes than the zip declares.
        content = bytes(stream.read(member.file_size + 1))
    if len(content) > member.file_size:
        raise zipfile.BadZipFile(f"{member.filename} unpacks to more than {member.file_size} bytes")
    return content


IS_RIGHT = {"C": True, "I": False, 1: True, 0: False}
"""Value of a score -> True if the answer is right."""
SCORER = "label_bias"  # this package's scorer in Inspect (integrations/inspect_ai.py)
SHUFFLED = "Choices were shuffled"
"""The beginning of an explanation by Inspect's choice scorer, which repeats the prompt."""


@dataclass(frozen=True)
class AnswerPosition:
    """The position of a sample's answer among the tokens that the model wrote.

    Attributes:
        before: The number of tokens before the answer, or None for an unknown position.
        size: The number of all tokens.
        names_label: True if the tokens name any label.
        log_probs: The most probable tokens at the answer's position, or at the first token if the
            position is unknown, with their log-probabilities in nats.
        written: The written token at the same position, without the signs around it.
    """

    before: int | None
    size: int
    names_label: bool
    log_probs: Mapping[str, float]
    written: str


def read_sample(
    sample: Sample, where: str, reading: Reading, order: Sequence[int] | None = None
) -> tuple[questions.Row, AnswerPosition]:
    """Returns a sample's question as a row without scores, and the position of its answer.

    Args:
        sample: The sample's object in the log.
        where: Its location, for messages.
        reading: The user's description of the log; its labels are the answers of a sample without
            choices.
        order: The index of the choice under each letter in the prompt, if a solver shuffled the
            choices. None takes it from the explanation of Inspect's choice scorer.

    Raises:
        InputError: The sample has no log-probabilities, or neither choices nor labels, or its
            choices were shuffled in an unknown order.
    """
    labels = _labels(sample, where, reading)
    # This package's own scorer is skipped, because its answer is the label with the best score.
    graded = object_at(sample, "scores").items()
    grades = [object_at(grade) for name, grade in graded if not name.startswith(SCORER)]
    if order is None:
        order = _shown_order(sample, grades, where)
    # Letter in the log -> letter in the prompt that the model saw.
    seen = {labels[choice]: letter for letter, choice in zip(labels, order or (), strict=False)}
    # With several scorers, it is unknown which one is authoritative.
    grade = grades[0] if len(grades) == 1 else {}
    answer = text_at(grade, "answer").strip()
    recorded = next((name for name in labels if fold(name) == fold(answer)), "")
    position = _answer_position(sample, labels, seen.get(recorded, recorded), where, reading.at)
    if not seen:
        _refuse_other_letter(sample, position, labels, where)
    known_fields = {**object_at(sample, "metadata"), **sample}
    target = questions.target_of(known_fields, sample.get("target"), where, reading, kind="sample")
    if isinstance(target, list) and len(target) == 1:
        target = target[0]
    if isinstance(target, str) and target.strip().upper() in labels:
        target = target.strip().upper()  # data sets may write small letters
        target = seen.get(target, target)
    value = grade.get("value")
    right = IS_RIGHT.get(value) if isinstance(value, str | int | float) else None
    columns = questions.by_columns(known_fields, where, reading, kind="sample")
    row_id = str(sample.get("id"))
    return questions.Row(row_id, (), labels, target, right, columns=columns), position


def score_samples(
    rows: Sequence[questions.Row], positions: Sequence[AnswerPosition], where: str, reading: Reading
) -> tuple[list[questions.Row], list[str]]:
    """Returns the samples that have an answer, with scores, and notes on omitted samples."""
    answered, answered_positions, notes = keep_answered(rows, positions, where)
    lists = [position.log_probs for position in answered_positions]
    return questions.score_by_first_tokens(answered, lists, where, reading), notes


def keep_answered(
    rows: Sequence[questions.Row], positions: Sequence[AnswerPosition], where: str
) -> tuple[list[questions.Row], list[AnswerPosition], list[str]]:
    """Returns the samples that have an answer, the positions of these answers, and notes.

    The notes are on omitted samples and on tokens before the answers.
    """
    starts = {position.before for position in positions if position.before is not None}
    longest = max((position.size for position in positions), default=0)
    # If answers are first tokens in this log, an answer that is no label is a first token, too.
    is_at_once = starts == {0} or (not starts and longest <= MAX_TOKENS_AT_ONCE)
    is_kept = [p.before is not None or (is_at_once and not p.names_label) for p in positions]
    open_count = is_kept.count(False)
    if rows and open_count == len(rows):
        expected = "samples that name a label after 'ANSWER:', or exactly one label"
        remedy = f"locate it with {spell('at', 'last')} or 'json:KEY', or ask for 'ANSWER: $LETTER'"
        raise InputError.at(where, expected, f"none in {open_count:,} samples", remedy)
    notes = []
    if any(starts):
        notes.append(
            f"The scores are read at the answer's token, after up to {max(starts):,} tokens that "
            "the model wrote itself: they are conditional on these tokens."
        )
    if open_count:
        notes.append(
            f"{open_count:,} of {len(rows):,} samples name no answer, or several without "
            f"'ANSWER:' before one, and are left out ({spell('at')} sets where answers are)."
        )
    return list(compress(rows, is_kept)), list(compress(positions, is_kept)), notes


def _shown_order(sample: Sample, grades: Sequence[Sample], where: str) -> list[int] | None:
    """Returns the index of the choice under each letter in the prompt, or None without shuffling.

    If a solver shuffled the choices, Inspect's choice scorer repeats the prompt in its explanation.
    """
    explanations = [text_at(grade, "explanation") for grade in grades]
    explanation = next((text for text in explanations if SHUFFLED in text), "")
    if not explanation:
        return None
    texts = list(map(text_at, list_at(sample, "choices")))
    sent = explanation.partition(SHUFFLED)[2].partition("\n\n")[2]
    sent = sent.rpartition("\nShuffled answer:")[0] + "\n"
    order: list[int] = []
    for letter in numbered_names(len(texts)):
        left = [text for i, text in enumerate(texts) if i not in order]
        fitting = [text for text in left if sent.startswith(f"{letter}) {text}\n")]
        # If several texts fit, the longest is right. The index of a repeated text is ambiguous.
        longest = max(fitting, key=len, default="")
        if not fitting or texts.count(longest) > 1:
            expected = "a log that records the order of its shuffled choices"
            remedy = "shuffle the choices in the data set in place of the solver"
            raise InputError.at(where, expected, f"no unique choice under {letter}", remedy)
        order.append(texts.index(longest))
        sent = sent[len(f"A) {longest}\n") :]
    return order


def _labels(sample: Sample, where: str, reading: Reading) -> tuple[str, ...]:
    """Returns the possible answers: the letters of the choices, or the labels from the user."""
    choices = len(list_at(sample, "choices"))
    if choices > 26:
        raise InputError.at(where, "at most 26 choices", choices)
    if not choices and len(reading.labels) < 2:
        raise InputError(
            f"{where}: the sample has no choices; name the answers of the task, such as "
            f"{spell('labels', ('yes', 'no'))}."
        )
    return numbered_names(choices) if choices else reading.labels  # A, B, C ...


def _refuse_other_letter(
    sample: Sample, position: AnswerPosition, labels: Sequence[str], where: str
) -> None:
    """Raises an error if the answer's text names another letter than its tokens.

    A solver that shuffles choices rewrites the text of the answer with the letter in the data set.
    """
    text = text_at(sample, "output", "choices", 0, "message", "content")
    rewritten = re.fullmatch(r"ANSWER: ([A-Z])", text)
    written = fold(position.written)
    if rewritten and written != fold(rewritten[1]) and written in map(fold, labels):
        expected = f"the answer {rewritten[1]} among the tokens that the model wrote"
        got = f"{position.written!r}: choices were shuffled, and the order is not recorded"
        remedy = "keep the scores of Inspect's own scorer (inspect score --action append)"
        raise InputError.at(where, expected, got, remedy)


def _answer_position(
    sample: Sample, labels: Sequence[str], recorded: str, where: str, at: str
) -> AnswerPosition:
    """Finds the position of the answer; `recorded` is a scorer's label for it, "" if unknown."""
    tokens = list_at(sample, "output", "choices", 0, "logprobs", "content")
    written = [text_at(token, "token") for token in tokens]
    # A single token is always the answer, even if it is no label.
    before = 0 if len(tokens) == 1 else find_place(written, labels, at, None, recorded).token
    listed = list_at(tokens, before or 0, "top_logprobs")
    if not listed:
        remedy = "evaluate again with --logprobs --top-logprobs 20 and a provider that returns them"
        raise InputError.at(where, "log-probabilities of other tokens", "none", remedy)
    pairs = [(value_at(likely, "token"), value_at(likely, "logprob")) for likely in listed]
    token = written[before or 0].strip(f"{AROUND}Ġ▁")
    is_named = names_label("".join(written), labels)
    return AnswerPosition(before, len(tokens), is_named, read_tokens(pairs, where), token)

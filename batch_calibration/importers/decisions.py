"""Saved answers of decision models: a probability for each option of a typed question, one a line.

A line is `{"id", "choice", "probabilities": {option: p}, "gold"?, "question"?}`. Options are
columns in the order of their names, whatever the order they were declared in, so that neither a
score nor a prior depends on it. Lines with `"content_free": true` are the block "cc".

An unchanged response of POST /v1/systemone is read, too: `{"answers": {question: {"choice",
"probabilities"}}}`, with id, gold and other fields next to `answers`, or around it under
`response`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files import Json, object_at, parse_json
from batch_calibration.files.rows import json_rows
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.questions import Row, by_columns, read_flag

QUESTION, OPTIONS = "question", "options"
"""Columns of `Reading.by`: which question a line answers, and the names of its options."""
GOLD, CONTENT_FREE = "gold", "content_free"
MAX_SUM = 1.0 + 1e-3  # largest sum of the probabilities of a line, with rounding


class Decision(NamedTuple):
    """An answered question.

    Attributes:
        where: its place in words.
        number: among all decisions of the file, from 0.
        row: its options in the order of their names, with their scores; minus infinity for 0.
        choice: the option that was chosen, "" if the line does not say.
        is_content_free: whether the state that was asked about had no content.
    """

    where: str
    number: int
    row: Row
    choice: str
    is_content_free: bool


def recognizes(_: Path, start: bytes) -> bool:
    """True if the first line, as far as it is read, has a choice and probabilities by option."""
    first = start.lstrip(b" \t\r\n[").split(b"\n")[0].rstrip(b", \r]")
    try:
        line = parse_json(first.decode(errors="replace"))
    except ValueError:
        return False
    decisions = [decision for _, decision in _decisions_of(object_at(line), "")]
    have_choices = all("choice" in decision for decision in decisions)
    return have_choices and any(isinstance(row.get("probabilities"), dict) for row in decisions)


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a file of decisions, one context or several (`by=question`, `by=options`)."""
    groups: dict[tuple[str, ...], list[Decision]] = {}
    number, failed = 0, list[str]()
    names = [name for name in (QUESTION, OPTIONS) if name in reading.by]
    for where, line in json_rows(path):
        if line.get("error") and not isinstance(line.get("probabilities"), dict):
            failed.append(f"{where} ({shown(line['error'])})")
            number += 1
            continue
        for where_in_line, answer in _decisions_of(line, where):
            decision = _read_decision(answer, where_in_line, number, reading)
            key = tuple(decision.row.columns[name] for name in names)
            groups.setdefault(key, []).append(decision)
            number += 1
    if not groups:
        raise InputError.at(path, "a decision a line", failed[0] if failed else "none")
    contexts = [_import_decisions(group, path, reading) for group in groups.values()]
    if not failed:
        return contexts
    count, is_one = f"{len(failed):,}", len(failed) == 1
    what = "request failed and is" if is_one else "requests failed and are"
    note = f"{count} {what} left out, the first: {failed[0]}."
    return [replace(context, notes=(note, *context.notes)) for context in contexts]


def _decisions_of(line: Mapping[str, Json], where: str) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """The decisions of a line: itself, or the answers of a response with the fields around them.

    Answers that are scores or texts choose no option and are skipped.
    """
    answers = object_at(line.get("response", line)).get("answers")
    if "probabilities" in line or not isinstance(answers, dict):
        yield where, line
        return
    for name, answer in answers.items():
        decision = object_at(answer)
        if isinstance(decision.get("probabilities"), dict):
            line_fields = {key: line[key] for key in line if key not in ("response", "answers")}
            gold = line_fields.get(GOLD)
            if isinstance(gold, dict):  # question -> right option
                line_fields[GOLD] = gold.get(name)
            if len(answers) > 1 and "id" in line:
                line_fields["id"] = f"{line['id']} {name}"
            yield f"{where}, answer {name!r}", {QUESTION: name, **line_fields, **decision}


def _read_decision(line: Mapping[str, Json], where: str, number: int, reading: Reading) -> Decision:
    probabilities = line.get("probabilities")
    if not isinstance(probabilities, dict) or len(probabilities) < 2:
        expected = "the probabilities of two or more options, by name"
        raise InputError.at(where, expected, shown(probabilities))
    log_probs = {}
    for option in sorted(probabilities):
        log_probs[option] = _log(probabilities[option], f"{where}, option {shown(option)}")
    total = sum(map(math.exp, log_probs.values()))
    if total > MAX_SUM:
        raise InputError.at(where, "probabilities of sum 1", f"{total:.4g}")
    gold, choice = line.get(reading.gold or GOLD), line.get("choice")
    if gold is not None and str(gold) not in log_probs:
        raise InputError.at(
            where, f"the right option of {shown(list(log_probs))}", shown(gold), "null if unknown"
        )
    # A question without a name is named by its options.
    options = ", ".join(log_probs)
    line = {QUESTION: options, OPTIONS: options, **line}
    columns = by_columns(line, where, reading, kind="line")
    columns |= {QUESTION: str(line[QUESTION]), OPTIONS: str(line[OPTIONS])}
    name, target = str(line.get(reading.ids or "id", number)), None if gold is None else str(gold)
    row = Row(name, tuple(log_probs.values()), tuple(log_probs), target, columns=columns)
    is_content_free = read_flag(line.get(CONTENT_FREE))
    if is_content_free is None and line.get(CONTENT_FREE) is not None:
        got = shown(line[CONTENT_FREE])
        raise InputError.at(where, f"{CONTENT_FREE!r}: true or false", got, "correct it")
    choice = "" if choice is None else str(choice)
    return Decision(where, number, row, choice, is_content_free or False)


def _log(probability: Json, where: str) -> float:
    is_number = isinstance(probability, int | float) and not isinstance(probability, bool)
    if not is_number or not 0 <= probability <= MAX_SUM:  # type: ignore[operator]
        raise InputError.at(where, "a probability", shown(probability))
    return math.log(probability) if probability else -math.inf  # type: ignore[arg-type]


def _import_decisions(decisions: Sequence[Decision], path: Path, reading: Reading) -> Imported:
    """Decisions between the same options as scores."""
    options = decisions[0].row.choices
    content_free, answered = list[Decision](), list[Decision]()
    for decision in decisions:
        if decision.row.choices != options:
            column = OPTIONS if QUESTION in reading.by else QUESTION
            expected = f"the options {shown(list(options))}"
            remedy = f"say {spell('by', (*reading.by, column))}, which makes each {column} a "
            remedy += "context of its own"
            raise InputError.at(decision.where, expected, shown(list(decision.row.choices)), remedy)
        (content_free if decision.is_content_free else answered).append(decision)
    if not answered:
        raise InputError.at(path, "a decision with content", "content-free ones alone")
    rows = [decision.row for decision in answered]
    gold = np.array([-1 if r.target is None else options.index(str(r.target)) for r in rows])
    columns = {}
    for name in reading.by:
        columns[name] = [row.columns[name] for row in rows]
    blocks = {}
    if content_free:
        blocks["cc"] = np.array([decision.row.scores for decision in content_free])
    imported = Imported(
        str(path),
        np.array([row.scores for row in rows]),
        options,
        gold,
        tuple(row.id for row in rows),
        about={"task": reading.task or path.stem},
        columns=columns,
        blocks=blocks,
        notes=tuple(_notes(answered, reading)),
        file_rows=np.array([decision.number for decision in answered]),
    )
    return imported.take_labels(reading.labels)


def _notes(decisions: Sequence[Decision], reading: Reading) -> list[str]:
    """Notes on choices that are not the most probable option, and on several questions."""
    notes, differing = [], 0
    for _, _, row, choice, _ in decisions:
        scores = dict(zip(row.choices, row.scores, strict=True))
        differing += bool(choice) and scores.get(choice) != max(row.scores)
    if differing:
        notes.append(
            f"In {differing:,} of {len(decisions):,} decisions the choice is not the most probable "
            "option: it was drawn or corrected, and the probabilities may be as well."
        )
    questions = len({decision.row.columns[QUESTION] for decision in decisions})
    if questions > 1 and QUESTION not in reading.by:
        notes.append(
            f"{questions:,} questions share their options and are one context; "
            f"{spell('by', 'question')} "
            "makes each a context of its own."
        )
    return notes

"""Saved answers of decision models: a probability for each option of a typed question, one a line.

A line is `{"id", "choice", "probabilities": {option: p}, "gold"?, "question"?}`. Options are
columns in the order of their names, whatever the order they were declared in, so that neither a
score nor a prior depends on it. Lines with `"content_free": true` are the block "cc".

A response of POST /v1/systemone as it came is read, too: `{"answers": {question: {"choice",
"probabilities"}}}`, with id, gold and others beside `answers`, or around it under `response`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files import Json, parse_json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import choose_labels, renumber_labels
from batch_calibration.importers.choices import by_columns
from batch_calibration.importers.text_files import fields, json_rows

QUESTION, OPTIONS = "question", "options"
"""Columns of `Reading.by`: which question a line answers, and the names of its options."""
GOLD, CONTENT_FREE = "gold", "content_free"
MAX_SUM = 1.0 + 1e-3  # what the probabilities of a line may sum to, with rounding


@dataclass(frozen=True)
class Decision:
    """One line."""

    where: str  # its place in words
    id: str  # the row's name
    number: int  # among all decisions of the file, from 0
    # Option -> nats, in the order of the options' names; minus infinity for 0.
    log_probs: Mapping[str, float]
    choice: str  # the option that was chosen, "" where the line does not say
    gold: str  # the right option, "" where it is unknown
    is_content_free: bool  # whether the state that was asked about had no content
    columns: Mapping[str, str]  # values of the columns that `Reading.by` names

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options, sorted."""
        return tuple(self.log_probs)


def recognizes(_: Path, start: bytes) -> bool:
    """Whether the first line, or what is seen of it, has a choice and probabilities by option."""
    first = start.lstrip(b" \t\r\n[").split(b"\n")[0].rstrip(b", \r]")
    try:
        line = parse_json(first.decode(errors="replace"))
    except ValueError:
        return False
    decisions = [decision for _, decision in _decisions_of(fields(line), "")]
    have_choices = all("choice" in decision for decision in decisions)
    return have_choices and any(isinstance(row.get("probabilities"), dict) for row in decisions)


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a file of decisions: one context, or those of `by=question` or `by=options`."""
    decisions: list[Decision] = []
    for where, line in json_rows(path):
        for where_in_line, answer in _decisions_of(line, where):
            decisions.append(_read_line(answer, where_in_line, len(decisions), reading))
    if not decisions:
        raise InputError(where=path, expected="a decision a line", got="none")
    groups: dict[tuple[str, ...], list[Decision]] = {}
    for decision in decisions:
        names = [decision.columns[name] for name in (QUESTION, OPTIONS) if name in reading.by]
        groups.setdefault(tuple(names), []).append(decision)
    return [_to_imported(group, path, reading) for group in groups.values()]


def _decisions_of(line: Mapping[str, Json], where: str) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """The decisions of a line: itself, or the answers of a response, with what stands around them.

    Scores and texts are no choice between options, and are passed over.
    """
    response = fields(line.get("response", line))
    answers = response.get("answers")
    if "probabilities" in line or not isinstance(answers, dict):
        yield where, line
        return
    for name, answer in answers.items():
        decision = fields(answer)
        if isinstance(decision.get("probabilities"), dict):
            line_fields = {key: line[key] for key in line if key not in ("response", "answers")}
            gold = line_fields.get(GOLD)
            if isinstance(gold, dict):  # of several questions the right option of each
                line_fields[GOLD] = gold.get(name)
            if len(answers) > 1 and "id" in line:
                line_fields["id"] = f"{line['id']} {name}"
            yield f"{where}, answer {name!r}", {QUESTION: name, **line_fields, **decision}


def _read_line(line: Mapping[str, Json], where: str, number: int, reading: Reading) -> Decision:
    probabilities = line.get("probabilities")
    if not isinstance(probabilities, dict) or len(probabilities) < 2:
        raise InputError(
            where=where, expected="the probabilities of two or more options, by name",
            got=shown(probabilities),
        )  # fmt: skip
    log_probs = {}
    for option in sorted(probabilities):
        log_probs[option] = _log(probabilities[option], f"{where}, option {shown(option)}")
    total = sum(map(math.exp, log_probs.values()))
    if total > MAX_SUM:
        raise InputError(where=where, expected="probabilities of sum 1", got=f"{total:.4g}")
    gold = line.get(reading.gold or GOLD)
    if gold is not None and str(gold) not in log_probs:
        raise InputError(
            where=where, expected=f"the right option, one of {shown(list(log_probs))}",
            got=shown(gold), remedy="write null where it is not known",
        )  # fmt: skip
    # The names of the options stand for a question that has no name.
    options = ", ".join(log_probs)
    line = {QUESTION: options, OPTIONS: options, **line}
    columns = by_columns(line, where, reading, kind="line")
    columns |= {QUESTION: str(line[QUESTION]), OPTIONS: str(line[OPTIONS])}
    return Decision(
        where, str(line.get(reading.ids or "id", number)), number, log_probs,
        _text(line.get("choice")), _text(gold), line.get(CONTENT_FREE) is True, columns,
    )  # fmt: skip


def _text(name: Json) -> str:
    """A name as a text, "" for none: options may be numbers."""
    return "" if name is None else str(name)


def _log(probability: Json, where: str) -> float:
    is_number = isinstance(probability, int | float) and not isinstance(probability, bool)
    if not is_number or not 0 <= probability <= MAX_SUM:  # type: ignore[operator]
        raise InputError(where=where, expected="a probability", got=shown(probability))
    return math.log(probability) if probability else -math.inf  # type: ignore[arg-type]


def _to_imported(decisions: Sequence[Decision], path: Path, reading: Reading) -> Imported:
    """Decisions of the same options as scores."""
    options = decisions[0].options
    for decision in decisions:
        if decision.options != options:
            column = OPTIONS if QUESTION in reading.by else QUESTION
            raise InputError(
                where=decision.where, expected=f"the options {shown(list(options))}",
                got=shown(list(decision.options)),
                remedy=f"say {spell('by', (*reading.by, column))}, which makes each {column} a "
                "context of its own",
            )  # fmt: skip
    rows, content_free = list[Decision](), list[Decision]()
    for decision in decisions:
        (content_free if decision.is_content_free else rows).append(decision)
    if not rows:
        raise InputError(
            where=path, expected="a decision with content", got="content-free ones alone"
        )
    names, indices = choose_labels(str(path), options, reading.labels, are_named=True)
    gold = np.array([options.index(row.gold) if row.gold else -1 for row in rows])
    columns = {}
    for name in reading.by:
        columns[name] = [row.columns[name] for row in rows]
    return Imported(
        str(path),
        _scores(rows)[:, indices],
        names,
        renumber_labels(str(path), gold, options, indices),
        tuple(row.id for row in rows),
        about={"task": path.stem},
        columns=columns,
        blocks={"cc": _scores(content_free)[:, indices]} if content_free else {},
        notes=tuple(_notes(rows, reading)),
        file_rows=np.array([row.number for row in rows]),
    )


def _scores(decisions: Sequence[Decision]) -> np.ndarray:
    return np.array([list(decision.log_probs.values()) for decision in decisions])


def _notes(decisions: Sequence[Decision], reading: Reading) -> list[str]:
    """What the probabilities do not say: choices that are others, questions that are several."""
    notes, differing = [], 0
    for decision in decisions:
        likeliest = max(decision.log_probs.values())
        if decision.choice:
            differing += decision.log_probs.get(decision.choice) != likeliest
    if differing:
        notes.append(
            f"In {differing:,} of {len(decisions):,} decisions the choice is not the likeliest "
            "option: it was drawn or corrected, and the probabilities may be as well."
        )
    questions = len({decision.columns[QUESTION] for decision in decisions})
    if questions > 1 and QUESTION not in reading.by:
        notes.append(
            f"{questions:,} questions share their options and are one context; "
            f"{spell('by', 'question')} "
            "makes each a context of its own."
        )
    return notes

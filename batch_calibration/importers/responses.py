"""Saved answers of servers: JSON Lines of responses, or of requests with their responses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, parse_json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.top_k import scores_of_top_k

ID = "custom_id"
"""Field of a batch's lines that leads back to the request."""


@dataclass(frozen=True)
class Line:
    """One saved answer.

    Attributes:
        where: the file and the line, for sentences.
        body: the server's response.
        fields: what stands beside it: an id, the right label.
    """

    where: str
    body: Mapping[str, object]
    fields: Mapping[str, object] = field(default_factory=dict)

    def without_id(self) -> "Line":
        """The same of one row of several that a response scores, whose id is no row's."""
        return replace(self, fields={key: x for key, x in self.fields.items() if key != ID})


def holds(start: bytes, pattern: bytes) -> bool:
    """Whether the first bytes of a file are JSON in which `pattern` is found."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text[:1] in (b"{", b"[") and bool(re.search(pattern, text))


def read_lines(path: Path) -> list[Line]:
    """The responses in a file.

    A line is a response, or an object with the response under "response" beside other fields, as
    output files of batches have it ({"custom_id", "response": {"status_code", "body"}, "error"}),
    or a list [request, response, fields]. One response or a list of them over many lines is read
    too.

    Raises:
        InputError: no text; a line that is no JSON object; a request that failed.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(
            where=path, expected=f"saved responses, which cannot be read ({error.strerror})"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            where=path,
            expected="text in UTF-8",
            got=f"another byte at place {error.start}",
            remedy="save it as UTF-8",
        ) from error
    lines = [_line(value, where) for where, value in _values(text, str(path))]
    if not lines:
        raise InputError(where=path, expected="one response a line", got="none")
    return lines


def _values(text: str, where: str) -> Iterator[tuple[str, Json]]:
    """Each JSON value with its place: one a line, or the whole text."""
    numbered = [(i, one) for i, one in enumerate(text.split("\n"), 1) if one.strip()]
    if len(numbered) > 1 and numbered[0][1].strip() in ("{", "["):
        try:
            whole = parse_json(text)
        except ValueError as error:
            raise InputError(
                where=where,
                expected=f"JSON, which ends or breaks off ({error})",
                remedy="save it again",
            ) from error
        for i, value in enumerate(whole if isinstance(whole, list) else [whole]):
            yield f"{where}, response {i}", value
        return
    for i, one in numbered:
        try:
            yield f"{where}, line {i}", parse_json(one)
        except ValueError as error:
            last = (
                "; the file may have been cut short, drop the line" if i == numbered[-1][0] else ""
            )
            raise InputError(
                where=f"{where}, line {i}", expected=f"one JSON object ({error}){last}"
            ) from error


def _line(value: Json, where: str) -> Line:
    fields: dict[str, object] = {}
    if isinstance(value, list):
        # [request, response] or [request, response, fields], as parallel requesters save them.
        if not all(isinstance(part, dict) for part in value) or len(value) not in (2, 3):
            raise InputError(
                where=where, expected="a response or [request, response]", got=shown(value)
            )
        fields = dict(value[2]) if len(value) == 3 else {}  # type: ignore[arg-type]
        value = value[1]
    if not isinstance(value, dict):
        raise InputError(where=where, expected="a response as a JSON object", got=shown(value))
    body: object = value
    if isinstance(value.get("response"), dict):
        fields |= {key: part for key, part in value.items() if key != "response"}
        body = value["response"]
        if isinstance(body, dict) and isinstance(body.get("body"), dict):
            body = body["body"]
    else:
        fields = {**value, **fields}
    error = value.get("error") or (body.get("error") if isinstance(body, dict) else None)
    if error or not isinstance(body, dict):
        raise InputError(
            f"{where}: the request failed ({shown(error)}); ask again, or drop the line."
        )
    return Line(where, body, fields)


def imported(
    path: Path,
    lines: Sequence[Line],
    reading: Reading,
    scores: np.ndarray,
    *,
    scorer: str,
    bound: np.ndarray | None = None,
    full: bool = True,
    notes: tuple[str, ...] = (),
) -> Imported:
    """Scores [n, k] of `reading.labels` with what the lines [n] say beside them."""
    about: dict[str, Json] = {"task": reading.task or path.stem, "scorer": scorer}
    if isinstance(model := lines[0].body.get("model"), str):
        about["model"] = model
    ids = reading.ids or (ID if all(ID in line.fields for line in lines) else "")
    return Imported(
        str(path),
        scores,
        reading.labels,
        labels=_gold(lines, reading) if reading.gold else None,
        row_ids=tuple(_text(line, ids) for line in lines) if ids else None,
        bound=bound,
        about=about,
        columns={name: [_text(line, name) for line in lines] for name in reading.by},
        notes=notes,
        full=full,
    )


def of_top_k(
    path: Path,
    lines: Sequence[Line],
    rows: Sequence[Mapping[str, float]],
    reading: Reading,
    *,
    scorer: str,
    notes: tuple[str, ...] = (),
) -> Imported:
    """Scores of labels from the likeliest first tokens of each line.

    Raises:
        InputError: no labels are named; a label of which no row returned a token.
    """
    labels = named_labels(path, reading)
    top = scores_of_top_k(rows, labels, reading.tokens, str(path))
    never = [name for name in labels if not top.tokens[name]]
    if never:
        likely = list(dict.fromkeys(max(row, key=row.__getitem__) for row in rows))[:5]
        raise InputError(
            f"{path}: none of the {len(rows)} rows returned a token of the label "
            f"{shown(never[0])}; the likeliest returned are {shown(likely)}: name the tokens that "
            "mean it (tokens), ask for more tokens, or score the whole label."
        )
    taken = "; ".join(f"{name}: {', '.join(map(repr, of))}" for name, of in top.tokens.items())
    return imported(
        path,
        lines,
        reading,
        top.log_probs,
        scorer=scorer,
        bound=top.bound,
        notes=(f"Tokens taken for the labels: {taken}.", *notes),
    )


def named_labels(path: Path, reading: Reading) -> tuple[str, ...]:
    """The labels that a person names, which no response names."""
    if len(set(reading.labels)) < max(2, len(reading.labels)):
        raise InputError(
            where=path,
            expected="the labels as the model answers them, two or more and each once",
            got=f"{', '.join(reading.labels) or 'none'}",
            remedy="say --labels=yes,no",
        )
    return reading.labels


def number(value: object, where: str) -> float:
    """A log-probability; null is the sentinel for one that was not returned."""
    if value is None:
        return float("nan")
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise InputError(where=where, expected="a log-probability in nats", got=shown(value))


def add(row: dict[str, float], token: object, value: object, where: str) -> None:
    """Adds a token's probability to a row; tokens of one text are one, and one listed twice too."""
    if not isinstance(token, str):
        raise InputError(where=where, expected="the text of a token", got=shown(token))
    nats = number(value, where)
    if token not in row:
        row[token] = nats
    elif row[token] != nats:
        # Another token with this text; some servers list the sampled token a second time.
        row[token] = float(np.logaddexp(row[token], nats))


def found(value: object, *keys: str | int) -> object:
    """What stands at the end of a way through objects and lists, None where it breaks off."""
    for key in keys:
        if isinstance(key, str) and isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(key, int) and isinstance(value, list) and len(value) > key:
            value = value[key]
        else:
            return None
    return value


def _text(line: Line, name: str) -> str:
    """A field of a line; dots lead into it ("metadata.subject")."""
    value = line.fields.get(name, found(line.fields, *name.split(".")))
    if value is None:
        raise InputError(f"{line.where}: {InputError.unknown('field', name, line.fields)}")
    return str(value)


def _gold(lines: Sequence[Line], reading: Reading) -> np.ndarray:
    """The right label of each line: by name, or by index where no name is a number; -1 for null."""
    known = {name.strip(): j for j, name in enumerate(reading.labels)}
    if not any(name.lstrip("-").isdecimal() for name in known):
        known |= {str(j): j for j in range(-1, len(reading.labels))}
    values = [
        line.fields.get(reading.gold, found(line.fields, *reading.gold.split(".")))
        for line in lines
    ]
    if all(value is None for value in values):
        raise InputError(
            f"{lines[0].where}: {InputError.unknown('field', reading.gold, lines[0].fields)}"
        )
    gold = []
    for line, value in zip(lines, values, strict=True):
        label = -1 if value is None else known.get(str(value).strip())
        if label is None:
            raise InputError(
                where=line.where,
                expected=f"the right label in {reading.gold!r}, one of "
                f"{', '.join(reading.labels)}, its index where none is a number, or null",
                got=shown(value),
            )
        gold.append(label)
    return np.array(gold, np.int32)

"""Lines of saved responses: each response with what stands beside it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.text_files import fields, numbered_lines, parse_value, read_text
from batch_calibration.responses import value_at

ID = "custom_id"  # field of a batch's lines that leads back to the request
OF_RESPONSES = {
    "choices": list, "meta_info": dict, "completion_probabilities": list, "probs": list,
    "prompt_logprobs": list, "scores": list, "response": dict,
}  # fmt: skip
"""Fields that responses have and requests have not, or not of this type."""
SAME_NATS = 0.02
"""Differences between the log-probabilities that a server gives for one prompt, asked twice."""


@dataclass(frozen=True)
class SavedAnswer:
    """One saved answer."""

    where: str  # the file and the line, for sentences
    body: Mapping[str, object]  # the server's response
    # What stands beside it: an id, the right label.
    fields: Mapping[str, object] = field(default_factory=dict)
    number: int = 0  # how many answers stand before it in the file
    failure: str = ""  # what the server said where it did not answer, "" where it did
    # Where the response is from, of which this line is one choice; "" if it is whole.
    request: str = ""
    choice: int = 0  # which of its choices
    choices: int = 1  # how many it has

    def without_id(self) -> "SavedAnswer":
        """The same of one row of several that a response scores, whose id is no row's."""
        fields_left = {name: cell for name, cell in self.fields.items() if name != ID}
        return replace(self, fields=fields_left)

    def value(self, name: str) -> object:
        """A field beside the response; dots lead into it ("metadata.subject").

        Of a list with a member for each choice of the response it is that of this choice.
        """
        # A name with dots itself comes first.
        cell = self.fields.get(name, value_at(self.fields, *name.split(".")))
        is_of_choices = isinstance(cell, list) and len(cell) == self.choices
        return value_at(cell, self.choice) if is_of_choices else cell

    def is_shared(self, name: str) -> bool:
        """Whether a field is one for all choices of a response."""
        cell = self.fields.get(name, value_at(self.fields, *name.split(".")))
        return bool(self.request) and self.value(name) is cell

    def text(self, name: str) -> str:
        """The text of a field that has to be there."""
        cell = self.value(name)
        if cell is None:
            raise InputError.unknown("field", name, self.fields, where=self.where)
        return str(cell)


def read_lines(path: Path) -> list[SavedAnswer]:
    """The responses in a file, those that failed too.

    A line is a response, or an object with the response under "response" beside other fields, as
    output files of batches have it ({"custom_id", "response": {"status_code", "body"}, "error"}),
    or a list [request, response, fields], or a list of responses. One response or a list of them
    over many lines is read too.
    """
    lines: list[SavedAnswer] = []
    for where, document in _json_values(read_text(path), str(path)):
        is_batch = isinstance(document, list) and all(map(_is_response, document))
        for i, member in enumerate(document if is_batch else [document], 1):  # type: ignore[arg-type]
            line = _line(member, f"{where}, response {i}" if is_batch else where)
            lines.append(replace(line, number=len(lines)))
    if not lines:
        raise InputError(where=path, expected="one response a line", got="none")
    return lines


def _json_values(text: str, where: str) -> Iterator[tuple[str, Json]]:
    """Each JSON value with its place: one a line, or the whole text."""
    numbered = numbered_lines(text)
    if len(numbered) > 1 and numbered[0][1].strip() in ("{", "["):  # one value, indented
        document = parse_value(text, where)
        for i, member in enumerate(document if isinstance(document, list) else [document]):
            yield f"{where}, response {i}", member
        return
    for i, line in numbered:
        yield f"{where}, line {i}", parse_value(line, f"{where}, line {i}", "line")


def _is_response(document: Json) -> bool:
    """Whether a member of a list is a response, or failed; not a request or fields beside it."""
    members = fields(document)
    is_answer = any(isinstance(members.get(name), kind) for name, kind in OF_RESPONSES.items())
    return is_answer or bool(members.get("error"))


def _line(document: Json, where: str) -> SavedAnswer:
    """A response with what stands beside it, in each of the forms that `read_lines` names."""
    fields_beside: dict[str, object] = {}
    if isinstance(document, list):
        # [request, response] or [request, response, fields], as parallel requesters save them.
        if not all(isinstance(member, dict) for member in document) or len(document) not in (2, 3):
            raise InputError(
                where=where, expected="a response or [request, response]", got=shown(document)
            )
        fields_beside = {**fields(document[2])} if len(document) == 3 else {}
        document = document[1]
    if not isinstance(document, dict):
        raise InputError(where=where, expected="a response as a JSON object", got=shown(document))
    body: dict[str, Json] = document
    response = document.get("response")
    if isinstance(response, dict):
        fields_beside |= {name: cell for name, cell in document.items() if name != "response"}
        # OpenAI's batches have the response in a "body".
        body = fields(response.get("body")) or response
    else:
        fields_beside = {**document, **fields_beside}  # the response's own names are fields too
    error, status = document.get("error") or body.get("error"), value_at(response, "status_code")
    if not error and isinstance(status, int) and status >= 400:  # as HTTP says that it failed
        error = f"status {status}"
    return SavedAnswer(where, body, fields_beside, failure=shown(error) if error else "")


def split_choices(line: SavedAnswer) -> list[SavedAnswer]:
    """A line for each prompt of a request of completions, all of which wrote as many tokens.

    The choices of a chat are answers to one prompt, and stay one line.
    """
    choices = line.body.get("choices")
    if not isinstance(choices, list) or len(choices) < 2:
        return [line]
    prompt_is_beside = isinstance(line.body.get("prompt_logprobs"), list)
    if prompt_is_beside or any("message" in fields(choice) for choice in choices):
        return [line]
    count = len(choices)
    numbers = [value_at(choice, "index") for choice in choices]
    if numbers != [None] * count:  # else in the order of the prompts
        if sorted(map(str, numbers)) != sorted(map(str, range(count))):
            raise InputError(
                where=line.where,
                expected=f"choices whose index is 0 to {count - 1}, each once",
                got=shown(numbers),
                remedy="write the response as the server sent it",
            )
        choices = sorted(choices, key=lambda choice: int(choice["index"]))
    scored = list(map(_scored, choices))
    counts = [sum(map(partial(_are_alike, prompt), scored)) for prompt in scored]
    if min(counts) > 1:
        raise InputError(
            where=line.where,
            expected="one choice for each prompt of the request",
            got=f"{count} choices, each of which scores what another one does too",
            remedy="these are several answers to one prompt: ask with n=1, or keep one of them",
        )
    new = value_at(line.body, "usage", "completion_tokens")
    new = new if isinstance(new, int) else 0
    if new % count:
        raise InputError(
            where=line.where,
            expected="prompts that all wrote as many tokens",
            got=f"{new} new tokens of {count} prompts",
            remedy="it is not plain where each prompt ends; send each in a request of its own",
        )
    body = {"model": line.body.get("model"), "usage": {"completion_tokens": new // count}}
    prompts = []
    for i, choice in enumerate(choices):
        where = f"{line.where}, choice {i}"
        prompt = replace(line.without_id(), where=where, body={**body, "choices": [choice]})
        prompts.append(replace(prompt, request=line.where, choice=i, choices=count))
    return prompts


def _scored(choice: Json) -> object:
    """What a choice scores: its prompt, or else the list of the likeliest first tokens."""
    log_probs = value_at(choice, "logprobs")
    tokens, top = value_at(log_probs, "tokens"), value_at(log_probs, "top_logprobs", 0)
    return value_at(choice, "prompt_logprobs") or top or tokens  # an echo's first list is null


def _are_alike(first: Any, second: Any) -> bool:
    """Whether two choices score the same, to within what a server's own numbers differ."""
    try:
        tokens = {**first, **second}
        return all(abs(first[token] - second[token]) <= SAME_NATS for token in tokens)
    except (KeyError, TypeError):  # other tokens, or no tokens with numbers
        return bool(first is not None and first == second)


# Lines as rows of scores


def import_answers(
    path: Path,
    lines: Sequence[SavedAnswer],
    reading: Reading,
    scores: np.ndarray,
    scorer: str,
    *,
    gold: np.ndarray | None = None,
    row_ids: tuple[str, ...] | None = None,
) -> Imported:
    """Scores [n, k] of `reading.labels` with what the lines [n] say beside them.

    `gold` is [n] indices of labels, where the field of a line alone does not say them; `row_ids`
    are of rows that bring none.
    """
    context: dict[str, Json] = {"task": reading.task or path.stem, "scorer": scorer}
    if isinstance(model := lines[0].body.get("model"), str):
        context["model"] = model
    # Files of batches bring ids of their own.
    ids = reading.ids or (ID if all(ID in line.fields for line in lines) else "")
    if gold is None and reading.gold:
        gold = right_labels(lines, reading)
    return Imported(
        str(path),
        scores,
        reading.labels,
        labels=gold,
        row_ids=tuple(_texts(lines, ids)) if ids else row_ids,
        about=context,
        columns={name: _texts(lines, name) for name in reading.by},
        full=True,
    )


def _texts(lines: Sequence[SavedAnswer], name: str) -> list[str]:
    return [line.text(name) for line in lines]


def answer_numbers(lines: Sequence[SavedAnswer]) -> tuple[str, ...] | None:
    """The numbers of the answers in the file, of which some failed; None where rows share one."""
    numbers = tuple(str(line.number) for line in lines)
    return numbers if len(set(numbers)) == len(numbers) else None


def named_labels(path: Path, reading: Reading) -> tuple[str, ...]:
    """The labels that a person names, which no response names."""
    if len(set(reading.labels)) < max(2, len(reading.labels)):
        raise InputError(
            where=path,
            expected="the labels as the model answers them, two or more and each once",
            got=", ".join(reading.labels) or "none",
            key="labels",
            remedy=f"say {spell('labels', ('yes', 'no'))}",
        )
    return reading.labels


def right_labels(lines: Sequence[SavedAnswer], reading: Reading) -> np.ndarray:
    """The right label of each line: by name, or by index where no name is a number; -1 for null."""
    # A label that is itself a number is never taken by index.
    index_of = {name.strip(): j for j, name in enumerate(reading.labels)}
    if not any(name.lstrip("-").isdecimal() for name in index_of):
        index_of |= {str(j): j for j in range(-1, len(reading.labels))}  # -1 for unknown
    answers = [line.value(reading.gold) for line in lines]
    if all(answer is None for answer in answers):
        lines[0].text(reading.gold)  # which says that there is no such field
    gold = []
    for line, answer in zip(lines, answers, strict=True):
        label = -1 if answer is None else index_of.get(str(answer).strip())
        if label is None:
            raise InputError(
                where=line.where,
                expected=f"the right label in {reading.gold!r}, one of "
                f"{', '.join(reading.labels)}, its index where none is a number, or null",
                got=shown(answer),
            )
        gold.append(label)
    return np.array(gold, np.int32)

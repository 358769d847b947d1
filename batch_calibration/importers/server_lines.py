"""Reads saved responses of servers, each with the fields that were saved with it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, count_at, list_at, object_at, text_at, value_at
from batch_calibration.files.rows import numbered_lines, parse_value, read_text

ID = "custom_id"  # field of a batch's lines that leads back to the request
OF_RESPONSES = {
    **dict.fromkeys(("meta_info", "response"), dict),
    **dict.fromkeys(("choices", "completion_probabilities", "probs"), list),
    **dict.fromkeys(("prompt_logprobs", "scores"), list),
    **dict.fromkeys(("output", "outputs", "candidates", "logprobs"), list),
}
"""Fields of responses that requests lack or hold with another type -> their types."""
SAME_NATS = 0.02
"""The largest difference between the log-probabilities of two requests of one prompt."""


@dataclass(frozen=True)
class SavedAnswer:
    """A response of a server, or one of its choices.

    Attributes:
        where: The file and the line, for messages.
        body: The server's response.
        fields: The fields that were saved with it, such as an id or the right label.
        number: The number of earlier responses in the file.
        failure: The server's error; "" for a successful request.
        request: The place of the response with this choice; "" for a whole response.
        choice: The index of the choice.
        choices: The number of choices of the response.
    """

    where: str
    body: Mapping[str, object]
    fields: Mapping[str, object] = field(default_factory=dict)
    number: int = 0
    failure: str = ""
    request: str = ""
    choice: int = 0
    choices: int = 1

    def without_id(self) -> "SavedAnswer":
        """Returns the answer without its id, for a response of several rows."""
        fields_left = {name: cell for name, cell in self.fields.items() if name != ID}
        return replace(self, fields=fields_left)

    def _field(self, name: str) -> tuple[object, bool]:
        """Returns a field, and whether it is a list with a member for each choice."""
        # Without a field of this name, dots lead into objects ("metadata.subject").
        cell = self.fields.get(name, value_at(self.fields, *name.split(".")))
        return cell, isinstance(cell, list) and len(cell) == self.choices

    def value(self, name: str) -> object:
        """Returns a field; of a list with a member for each choice, this choice's member."""
        cell, is_of_choices = self._field(name)
        return value_at(cell, self.choice) if is_of_choices else cell

    def is_shared(self, name: str) -> bool:
        """Checks whether all choices of a response share a field."""
        return bool(self.request) and not self._field(name)[1]

    def text(self, name: str) -> str:
        """Returns the text of a required field."""
        cell = self.value(name)
        if cell is None:
            raise InputError.unknown("field", name, self.fields, where=self.where)
        return str(cell)


def read_answers(path: Path) -> list[SavedAnswer]:
    """Returns the responses in a file, including failed ones.

    A line is a response, a list of responses, or a list [request, response, fields]. It may also be
    an object with the response under "response" and other fields, as in output files of batches:
    {"custom_id", "response": {"status_code", "body"}, "error"}. A response, or a list of responses,
    may extend over several lines. A file without responses gives an empty list.
    """
    answers: list[SavedAnswer] = []
    for where, document in _json_values(read_text(path), str(path)):
        is_batch = isinstance(document, list) and all(map(_is_response, document))
        for i, member in enumerate(document if is_batch else [document], 1):  # type: ignore[arg-type]
            answer = _read_answer(member, f"{where}, response {i}" if is_batch else where)
            answers.append(replace(answer, number=len(answers)))
    if not answers:
        raise InputError.at(path, "one response per line", "none")
    joined = _join_chunks(answers)
    return joined if any(_is_response(answer.body) or answer.failure for answer in joined) else []


def _join_chunks(answers: Sequence[SavedAnswer]) -> list[SavedAnswer]:
    """Joins the chunks of a stream, which have one id, into one answer."""
    joined: dict[object, SavedAnswer] = {}
    for answer in answers:
        choice = object_at(answer.body, "choices", 0)
        key: object = answer.number
        is_chunk = "delta" in choice or text_at(answer.body, "object").endswith(".chunk")
        if is_chunk and (stream := answer.body.get("id")):
            key = (stream, answer.fields.get(ID))
            content = [] if choice.get("index") else list_at(choice, "logprobs", "content")
            first = joined.get(key, replace(answer, body={**answer.body, "choices": []}))
            content = [*list_at(first.body, "choices", 0, "logprobs", "content"), *content]
            whole = {"message": {}, "logprobs": {"content": content} if content else None}
            answer = replace(first, body={**first.body, "choices": [whole]})
        joined[key] = replace(answer, number=joined[key].number if key in joined else len(joined))
    return list(joined.values())


def _json_values(text: str, where: str) -> Iterator[tuple[str, Json]]:
    """Yields each JSON value with its place: the value of each line, or of the whole text."""
    numbered = numbered_lines(text)
    if len(numbered) > 1 and numbered[0][1].strip() in ("{", "["):  # one value, indented
        document = parse_value(text, where)
        for i, member in enumerate(document if isinstance(document, list) else [document]):
            yield f"{where}, response {i}", member
        return
    for i, line in numbered:
        event = line.removeprefix("data:")  # of a stream
        if event.strip() != "[DONE]":
            yield f"{where}, line {i}", parse_value(event, f"{where}, line {i}", "line")


def _is_response(document: object) -> bool:
    """Checks whether a member of a list is a response or an error, not a request or fields."""
    members = object_at(document)
    is_answer = any(isinstance(members.get(name), kind) for name, kind in OF_RESPONSES.items())
    return is_answer or bool(members.get("error"))


def _read_answer(document: Json, where: str) -> SavedAnswer:
    """Reads a response with its fields, in each form that `read_answers` lists."""
    saved_fields: dict[str, object] = {}
    if isinstance(document, list):
        # [request, response] or [request, response, fields], as parallel requesters save them.
        if not all(isinstance(member, dict) for member in document) or len(document) not in (2, 3):
            raise InputError.at(where, "a response or [request, response]", shown(document))
        saved_fields = {**object_at(document[2])} if len(document) == 3 else {}
        document = document[1]
    if not isinstance(document, dict):
        raise InputError.at(where, "a response as a JSON object", shown(document))
    body: dict[str, Json] = document
    response = document.get("response")
    if isinstance(response, dict):
        saved_fields |= {name: cell for name, cell in document.items() if name != "response"}
        # OpenAI's batches have the response in a "body".
        body = object_at(response, "body") or response
    else:
        saved_fields = {**document, **saved_fields}  # the response's own names are fields too
    error, status = document.get("error") or body.get("error"), value_at(response, "status_code")
    if not error and isinstance(status, int) and status >= 400:  # HTTP's codes of failures
        error = f"status {status}"
    choice = value_at(body, "choices", 0)
    if not error and value_at(choice, "logprobs", "content") is None:
        refusal = value_at(choice, "message", "refusal")
        is_filtered = value_at(choice, "finish_reason") == "content_filter"
        error = str(refusal or "") or ("content_filter" if is_filtered else None)
    return SavedAnswer(where, body, saved_fields, failure=shown(error) if error else "")


def split_choices(answer: SavedAnswer) -> list[SavedAnswer]:
    """Returns an answer for each prompt of a request for completions of equal length.

    The choices of a chat are answers to one prompt, so they remain one answer.
    """
    choices = answer.body.get("choices")
    if not isinstance(choices, list) or len(choices) < 2:
        return [answer]
    has_own_prompt = isinstance(answer.body.get("prompt_logprobs"), list)
    if has_own_prompt or any("message" in object_at(choice) for choice in choices):
        return [answer]
    count = len(choices)
    numbers = [value_at(choice, "index") for choice in choices]
    if numbers != [None] * count:  # without indices, choices have the order of the prompts
        by_number = dict(zip(map(str, numbers), choices, strict=True))
        if by_number.keys() != set(map(str, range(count))):
            expected = f"choices with the indices 0 to {count - 1}, each once"
            raise InputError.at(answer.where, expected, shown(numbers))
        choices = [by_number[str(i)] for i in range(count)]
    scored = list(map(_scored, choices))
    counts = [sum(map(partial(_are_alike, prompt), scored)) for prompt in scored]
    if min(counts) > 1:
        got = f"{count} choices, each with the same scores as another"
        remedy = "these are several answers to one prompt: ask with n=1, or keep one of them"
        raise InputError.at(answer.where, "one choice for each prompt of the request", got, remedy)
    new = count_at(answer.body, "usage", "completion_tokens") or 0
    if new % count:
        expected = "the same number of new tokens for each prompt"
        raise InputError.at(answer.where, expected, f"{new} for {count}", "send one prompt")
    shared = {"model": answer.body.get("model"), "usage": {"completion_tokens": new // count}}
    split = replace(answer.without_id(), request=answer.where, choices=count)
    prompts = []
    for i, choice in enumerate(choices):
        where, body = f"{answer.where}, choice {i}", {**shared, "choices": [choice]}
        prompts.append(replace(split, where=where, body=body, choice=i))
    return prompts


def _scored(choice: Json) -> object:
    """Returns the numbers of a choice: of its prompt, or of the most probable first tokens."""
    log_probs = value_at(choice, "logprobs")
    tokens, top = value_at(log_probs, "tokens"), value_at(log_probs, "top_logprobs", 0)
    return value_at(choice, "prompt_logprobs") or top or tokens  # an echo's first list is null


def _are_alike(first: Any, second: Any) -> bool:
    """Checks whether two choices have equal scores, up to `SAME_NATS`."""
    try:
        tokens = {**first, **second}
        return all(abs(first[token] - second[token]) <= SAME_NATS for token in tokens)
    except (KeyError, TypeError):  # other tokens, or no tokens with numbers
        return bool(first is not None and first == second)

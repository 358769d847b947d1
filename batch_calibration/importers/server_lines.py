"""Lines of saved responses: each response with what stands beside it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.text_files import fields, parse, read_text
from batch_calibration.responses import value_at

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
        return replace(
            self, fields={name: cell for name, cell in self.fields.items() if name != ID}
        )

    def value(self, name: str) -> object:
        """A field beside the response; dots lead into it ("metadata.subject")."""
        # A name with dots itself comes first.
        return self.fields.get(name, value_at(self.fields, *name.split(".")))

    def text(self, name: str) -> str:
        """The text of a field that has to be there."""
        cell = self.value(name)
        if cell is None:
            raise InputError(f"{self.where}: {InputError.unknown('field', name, self.fields)}")
        return str(cell)


def read_lines(path: Path) -> list[Line]:
    """The responses in a file.

    A line is a response, or an object with the response under "response" beside other fields, as
    output files of batches have it ({"custom_id", "response": {"status_code", "body"}, "error"}),
    or a list [request, response, fields]. One response or a list of them over many lines is read
    too.
    """
    lines = [_line(document, where) for where, document in _json_values(read_text(path), str(path))]
    if not lines:
        raise InputError(where=path, expected="one response a line", got="none")
    return lines


def _json_values(text: str, where: str) -> Iterator[tuple[str, Json]]:
    """Each JSON value with its place: one a line, or the whole text."""
    # JSON allows U+2028 within a text: only this one ends a line.
    numbered = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(numbered) > 1 and numbered[0][1].strip() in ("{", "["):  # one value, indented
        document = parse(text, where)
        for i, member in enumerate(document if isinstance(document, list) else [document]):
            yield f"{where}, response {i}", member
        return
    for i, line in numbered:
        yield f"{where}, line {i}", parse(line, f"{where}, line {i}", "line")


def _line(document: Json, where: str) -> Line:
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
    body: object = document
    if isinstance(document.get("response"), dict):
        fields_beside |= {name: cell for name, cell in document.items() if name != "response"}
        body = document["response"]
        if isinstance(body, dict) and isinstance(body.get("body"), dict):
            body = body["body"]  # as OpenAI's batches have it
    else:
        fields_beside = {**document, **fields_beside}  # the response's own names are fields too
    error = document.get("error") or value_at(body, "error")
    if error or not isinstance(body, dict):
        raise InputError(
            f"{where}: the request failed ({shown(error)}); ask again, or drop the line."
        )
    return Line(where, body, fields_beside)


def split_prompts(line: Line) -> list[Line]:
    """A line for each prompt of a request, all of which generated as many tokens."""
    choices = line.body.get("choices")
    if not isinstance(choices, list) or len(choices) < 2:
        return [line]
    new = value_at(line.body, "usage", "completion_tokens")
    # All prompts generate as many tokens, so that each has an equal part.
    usage = {"completion_tokens": new // len(choices) if isinstance(new, int) else 0}
    body = {"model": line.body.get("model"), "usage": usage}
    line = line.without_id()
    return [replace(line, body={**body, "choices": [choice]}) for choice in choices]

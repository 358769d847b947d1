"""A template and a row make a prompt; the label's white space belongs to the label."""

import re
from collections.abc import Mapping

from batch_calibration.errors import InputError

FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")  # a name in braces


def fields_of(template: str) -> tuple[str, ...]:
    """Names in braces, in order, `label` included."""
    return tuple(FIELD.findall(template))


def check(template: str, fields: tuple[str, ...]) -> None:
    """Refuse a template that does not end in `{label}` or names a field that rows lack."""
    # What follows the label would be lost: the model is asked up to it.
    if not template.endswith("{label}") or fields_of(template).count("label") != 1:
        raise InputError(
            where=f"template {template!r}", expected="it to end in {label}, which appears once"
        )
    unknown = [name for name in fields_of(template) if name not in (*fields, "label")]
    if unknown:
        raise InputError(
            f"template {template!r} names {', '.join(unknown)}, but the rows have only "
            f"{', '.join(fields)}; correct the name in the braces."
        )


def whole_input(template: str) -> str:
    r"""The template with its whole input part, first field to the end of the last one's line, one.

    What stands before the first field and the label's line stay; the one field left is `{input}`.

    >>> whole_input("Premise: {premise}\nQuestion: {hypothesis} yes or no?\nAnswer: {label}")
    'Premise: {input}\nAnswer: {label}'
    """
    return template.replace(input_part(template), "{input}", 1)


def input_part(template: str) -> str:
    r"""What `whole_input` leaves out: the first field to the end of the last one's line.

    >>> input_part("Premise: {premise}\nQuestion: {hypothesis} yes or no?\nAnswer: {label}")
    '{premise}\nQuestion: {hypothesis} yes or no?'
    """
    fields = _fields(template)
    line_end = template.find("\n", fields[-1].end())
    # On the label's own line the input ends with the field.
    return template[fields[0].start() : fields[-1].end() if line_end < 0 else line_end]


def domain_premise(template: str) -> str:
    r"""The template's text after its last field, up to the label: DC-PMI's domain premise.

    Holtzman et al. 2021 write one by hand for each task; most of theirs are this text, such as
    "true or false? answer:" of RTE. Where nothing stands there it is ":", which their code takes
    where there is no domain.

    >>> domain_premise("Review: {sentence}\nSentiment: {label}"), domain_premise("{text} {label}")
    ('\nSentiment:', ':')
    """
    text = template[_fields(template)[-1].end() :].removesuffix("{label}").rstrip()
    return text or ":"


def _fields(template: str) -> list[re.Match[str]]:
    """Where the fields of the input stand."""
    fields = [match for match in FIELD.finditer(template) if match.group(1) != "label"]
    if not fields:
        raise InputError(
            where=f"template {template!r}", expected="a field in braces beside {label}"
        )
    return fields


def fill(template: str, row: Mapping[str, str]) -> str:
    """The template with each field of the row in its place."""
    # Fields at once, in one pass: a field's text may hold braces of its own, which stay.
    return FIELD.sub(lambda match: row.get(match.group(1), match.group(0)), template)


def query(template: str, row: Mapping[str, str]) -> str:
    r"""The prompt of one row up to its label, with no trailing white space.

    >>> query("Review: {sentence}\nSentiment: {label}", {"sentence": "fine "})
    'Review: fine \nSentiment:'
    """
    # Tokenizers put the space of a word before it: it belongs to the label.
    return fill(template.removesuffix("{label}"), row).rstrip()


def continuation(template: str, label_words: str) -> str:
    r"""A label's words as they follow the prompt: after one space, or on a line of their own.

    >>> continuation("Review: {sentence}\nSentiment: {label}", "positive")
    ' positive'
    """
    return ("\n" if template.endswith("\n{label}") else " ") + label_words

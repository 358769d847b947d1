"""Builds prompts from a template, a row and demonstrations: plain text, or messages of a chat.

White space before a label belongs to the label.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import NamedTuple, Protocol

from batch_calibration.errors import InputError, spell
from batch_calibration.settings import PromptSettings

FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")  # a name in braces


def fields_of(template: str) -> tuple[str, ...]:
    """Returns the names in braces in order, `label` included."""
    return tuple(FIELD.findall(template))


def check_fields(template: str, fields: tuple[str, ...]) -> None:
    """Raises if a template does not end in `{label}` or names a field that rows lack."""
    # Text after the label would be lost, because the prompt ends before the label.
    if not template.endswith("{label}") or fields_of(template).count("label") != 1:
        raise InputError.at(f"template {template!r}", "it to end in {label}, which appears once")
    _fields(template)  # This raises for a template without fields.
    unknown = [name for name in fields_of(template) if name not in (*fields, "label")]
    if unknown:
        raise InputError(
            f"template {template!r} names {', '.join(unknown)}, but the rows have only "
            f"{', '.join(fields)}; correct the name in the braces."
        )


def whole_input(template: str) -> str:
    r"""Replaces the whole input part of a template by one field, `{input}`.

    The input part reaches from the first field to the end of the last field's line. The text before
    it and the label's line stay.

    >>> whole_input("Premise: {premise}\nQuestion: {hypothesis} yes or no?\nAnswer: {label}")
    'Premise: {input}\nAnswer: {label}'
    """
    return template.replace(input_part(template), "{input}", 1)


def input_part(template: str) -> str:
    r"""Returns the input part: from the first field to the end of the last field's line.

    >>> input_part("Premise: {premise}\nQuestion: {hypothesis} yes or no?\nAnswer: {label}")
    '{premise}\nQuestion: {hypothesis} yes or no?'
    """
    fields = _fields(template)
    line_end = template.find("\n", fields[-1].end())
    # If the last field is on the label's line, the input ends with the field.
    return template[fields[0].start() : fields[-1].end() if line_end < 0 else line_end]


def domain_premise(template: str) -> str:
    r"""Returns the text between the last field and the label: DC-PMI's domain premise.

    Holtzman et al. 2021 write one by hand for each task. Most of them equal this text, such as
    "true or false? answer:" for RTE. If it is empty, the premise is ":", as in their code for tasks
    without a domain.

    >>> domain_premise("Review: {sentence}\nSentiment: {label}"), domain_premise("{text} {label}")
    ('\nSentiment:', ':')
    """
    text = template[_fields(template)[-1].end() :].removesuffix("{label}").rstrip()
    return text or ":"


def _fields(template: str) -> list[re.Match[str]]:
    """Returns the matches of the input's fields."""
    fields = [match for match in FIELD.finditer(template) if match.group(1) != "label"]
    if not fields:
        raise InputError.at(f"template {template!r}", "a field in braces before {label}")
    return fields


def fill(template: str, row: Mapping[str, str]) -> str:
    """Fills each field of the template with the row's text."""
    # The parts alternate between text and field names. Braces in a row's text stay.
    parts = FIELD.split(template)
    for i in range(1, len(parts), 2):
        parts[i] = row.get(parts[i], f"{{{parts[i]}}}")
    return "".join(parts)


def query(template: str, row: Mapping[str, str]) -> str:
    r"""Renders a row's prompt up to its label, without trailing white space.

    >>> query("Review: {sentence}\nSentiment: {label}", {"sentence": "fine "})
    'Review: fine \nSentiment:'
    """
    # Tokenizers attach a space to the word after it, so the space belongs to the label.
    return fill(template.removesuffix("{label}"), row).rstrip()


def continuation(template: str, label_words: str) -> str:
    r"""Returns a label's words as they follow the prompt: after one space, or on a new line.

    >>> continuation("Review: {sentence}\nSentiment: {label}", "positive")
    ' positive'
    """
    return ("\n" if template.endswith("\n{label}") else " ") + label_words


class Shown(NamedTuple):
    """A demonstration: the text of its row, and the words of its label."""

    query: str
    label_words: str


Compose = Callable[[Sequence[Shown]], Callable[[str], str]]
"""Maps demonstrations to a function from a row's query to its prompt up to the label."""


class ChatRenderer(Protocol):
    """A checkpoint's chat template (`models.chat_template.ChatTemplate`)."""

    def render(self, messages: Sequence[dict[str, str]], day: date) -> str:
        """Renders the text of a chat, up to where the answer begins or continues."""


def plain_text(form: str) -> Compose:
    """Returns a `Compose` for text: each demonstration with an empty line, then the query."""

    def compose(shown: Sequence[Shown]) -> Callable[[str], str]:
        return "".join(map("{}\n\n".format, _answered(form, shown))).__add__

    return compose


def _answered(form: str, shown: Sequence[Shown], start: str = "") -> list[str]:
    """Renders each demonstration with its label words after `start`."""
    return [row.query + continuation(form, start + row.label_words) for row in shown]


def chat(form: str, settings: PromptSettings, renderer: ChatRenderer | None) -> Compose:
    """Returns a `Compose` for messages, in the way of lm-evaluation-harness.

    With `chat=turns`, each demonstration is a user's message and an assistant's answer. With
    `one_message`, a single user's message holds the whole text that a base model would read. The
    answer may have a fixed start ("The answer is"), which the demonstrations' answers share.
    """
    if renderer is None:
        expected = "a checkpoint with a chat template (an instruct model)"
        remedy = f"leave {spell('chat')} at off"
        raise InputError(key="chat", expected=expected, got="one without", remedy=remedy)
    before = [{"role": "system", "content": settings.system}] if settings.system else []
    start = settings.answer_start
    try:
        day = date.fromisoformat(settings.chat_date)
    except ValueError:
        expected, got = "a day such as 2024-07-26", repr(settings.chat_date)
        raise InputError(key="chat_date", expected=expected, got=got) from None

    begin = start + " " if start and not start[-1].isspace() else start  # start of an answer
    ending = [{"role": "assistant", "content": start}] if start else []

    def compose(shown: Sequence[Shown]) -> Callable[[str], str]:
        turns, asked = list(before), ""
        if settings.chat == "turns":
            for row in shown:
                turns.append({"role": "user", "content": row.query})
                turns.append({"role": "assistant", "content": begin + row.label_words})
        else:
            asked = "".join(map("{}\n\n".format, _answered(form, shown, begin)))

        def ask(query: str) -> str:
            messages = [*turns, {"role": "user", "content": asked + query}, *ending]
            return renderer.render(messages, day)

        return ask

    return compose


def label_text(form: str, settings: PromptSettings, label_words: str) -> str:
    r"""Returns a label's words as they follow the prompt; a chat answer starts without a space.

    >>> label_text("{text}\\nLabel: {label}", PromptSettings(chat="turns"), "good")
    'good'
    """
    start = settings.answer_start
    is_first = settings.chat != "off" and (not start or start != start.rstrip())
    return label_words if is_first else continuation(form, label_words)

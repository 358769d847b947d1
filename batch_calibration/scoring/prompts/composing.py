"""Puts demonstrations and a query together: as plain text, or as the messages of a chat."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import NamedTuple, Protocol

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.prompts import template
from batch_calibration.settings import PromptSettings


class Shown(NamedTuple):
    """A demonstration: the text of its row, and the words of its label."""

    query: str
    label_words: str


Compose = Callable[[str, Sequence[Shown]], str]
"""`(query, demonstrations)` -> the prompt up to the label."""


class ChatRenderer(Protocol):
    """What a checkpoint's chat template does (`models.chat_template.ChatTemplate`)."""

    def render(self, messages: Sequence[dict[str, str]], day: date) -> str:
        """The text of a chat, up to where the answer begins or goes on."""
        ...


def plain(form: str) -> Compose:
    """Demonstrations as text, an empty line after each, then the query."""

    def compose(query: str, shown: Sequence[Shown]) -> str:
        answered = [row.query + template.continuation(form, row.label_words) for row in shown]
        return "\n\n".join([*answered, query])

    return compose


def chat(form: str, settings: PromptSettings, renderer: ChatRenderer | None) -> Compose:
    """Demonstrations and the query as messages, as lm-evaluation-harness makes them.

    With `chat=turns` each demonstration is a user's message and the assistant's answer; with
    `one_message` all are one user's message, the text that a base model would read. The answer may
    be started ("The answer is"), with demonstrations' answers too.
    """
    if renderer is None:
        raise InputError(
            key="chat", expected="a checkpoint with a chat template (an instruct model)",
            got="one without", remedy=f"leave {spell('chat')} at off",
        )  # fmt: skip
    before = [{"role": "system", "content": settings.system}] if settings.system else []
    start = settings.answer_start
    try:
        day = date.fromisoformat(settings.chat_date)
    except ValueError:
        raise InputError(
            key="chat_date", expected="a day such as 2024-07-26",
            got=repr(settings.chat_date),
        ) from None  # fmt: skip

    def answer(label_words: str) -> str:
        joint = " " if start and not start[-1].isspace() else ""
        return f"{start}{joint}{label_words}"

    def compose(query: str, shown: Sequence[Shown]) -> str:
        messages = list(before)
        if settings.chat == "turns":
            for row in shown:
                messages.append({"role": "user", "content": row.query})
                messages.append({"role": "assistant", "content": answer(row.label_words)})
            messages.append({"role": "user", "content": query})
        else:
            form_of_answer = template.continuation(form, "")
            answered = [row.query + form_of_answer + answer(row.label_words) for row in shown]
            messages.append({"role": "user", "content": "\n\n".join([*answered, query])})
        if start:
            messages.append({"role": "assistant", "content": start})
        return renderer.render(messages, day)

    return compose


def label_text(form: str, settings: PromptSettings, label_words: str) -> str:
    r"""A label's words as they follow the prompt: right at the beginning of an assistant's answer.

    >>> label_text("{text}\\nLabel: {label}", PromptSettings(chat="turns"), "good")
    'good'
    """
    start = settings.answer_start
    is_first = settings.chat != "off" and (not start or start != start.rstrip())
    return label_words if is_first else template.continuation(form, label_words)

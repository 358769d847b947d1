"""Renders the messages of a chat as a checkpoint's template has them, in jinja2's sandbox."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.models.files.beginning_token import special_token
from batch_calibration.scoring.models.files.config import read_json

if TYPE_CHECKING:
    from jinja2 import Template

FILE = "chat_template.jinja"
"""Goes before what `tokenizer_config.json` says."""
SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")
SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates (Qwen3, SmolLM3, Granite) let a model think before it answers."""
CONTINUED = "<[answer]> "
"""Marks where the started answer ends; its space shows whether a template trims messages."""

Messages = Sequence[Mapping[str, str]]
"""The messages of a chat: each a role (system, user or assistant) and its content."""


class ChatTemplate:
    """A checkpoint's chat template.

    The text begins as the template has it, mostly with the beginning token, which the scorer then
    does not add again. Thinking is switched off where the template can.

    Args:
        source: the template in jinja2's language.
        special_tokens: `bos_token` and others, which templates name.
        where: for error sentences.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str], where: Path):
        self.source = source
        self._special_tokens = dict(special_tokens)
        self._where = where

    @cached_property
    def _compiled(self) -> "Template":
        try:
            from jinja2 import TemplateSyntaxError
            from jinja2.ext import loopcontrols
        except ImportError as error:
            raise InputError(
                key="chat", expected="jinja2", got="it is not installed",
                remedy="pip install 'batch-calibration[models]'") from error  # fmt: skip
        environment = _environment([loopcontrols])
        try:
            compiled: Template = environment.from_string(self.source)
        except TemplateSyntaxError as error:
            raise InputError(
                f"{self._where}: the chat template cannot be read ({error}); fetch the file again."
            ) from error
        return compiled

    def render(self, messages: Messages, day: date) -> str:
        """The text of a chat, up to where the assistant's answer begins or goes on.

        Args:
            messages: the last is the user's, and the assistant's header is written after it, or
                the assistant's own, a started answer that the label goes on with.
            day: the date for a template that writes today's (Llama 3).

        Raises:
            InputError: a template that refuses these messages, such as a system message.
        """
        from jinja2 import TemplateError

        chat = [dict(message) for message in messages]
        is_started = chat[-1]["role"] == "assistant"
        if is_started:
            chat[-1]["content"] += CONTINUED
        # Off: a label is the first thing that the model says.
        switches = {name: False for name in SWITCHES if name in self.source}
        try:
            text: str = self._compiled.render(
                messages=chat, add_generation_prompt=not is_started, tools=None, documents=None,
                strftime_now=day.strftime, **self._special_tokens, **switches,
            )  # fmt: skip
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            roles = ", ".join(message["role"] for message in messages)
            raise InputError(
                f"{self._where}: the chat template refuses messages of the roles {roles} "
                f"({error}); leave {spell('system')} out or give {spell('chat', 'one_message')}."
            ) from error
        if not is_started:
            return text
        # What the template writes behind a finished answer is cut off.
        end = text.rfind(CONTINUED.rstrip())
        if end < 0:
            raise InputError(
                f"{self._where}: the chat template leaves out a started answer; leave "
                f"{spell('answer_start')} out."
            )
        is_trimmed = not text[end:].startswith(CONTINUED)
        return text[:end].rstrip() if is_trimmed else text[:end]


def read(directory: Path) -> ChatTemplate | None:
    """The chat template of a checkpoint directory, or None where it has none.

    Raises:
        InputError: a file that cannot be read, or several templates without a default.
    """
    path = directory / "tokenizer_config.json"
    options = read_json(path, "a tokenizer config") if path.is_file() else {}
    texts = {name: special_token(name, options, "") for name in SPECIAL}
    tokens = {name: text for name, text in texts.items() if text is not None}
    own = directory / FILE
    if own.is_file():
        return ChatTemplate(own.read_text(encoding="utf-8"), tokens, own)
    source: Any = options.get("chat_template")
    if isinstance(source, list):
        # Several templates by name, as command-r has them for tools.
        named = {entry.get("name"): entry.get("template") for entry in source}
        if "default" not in named:
            raise InputError.at(
                path, "a template named default", ", ".join(map(str, named)), f"put one into {FILE}"
            )
        source = named["default"]
    return ChatTemplate(source, tokens, path) if isinstance(source, str) else None


def _environment(extensions: list[Any]) -> Any:
    """A sandbox with what chat templates call, as transformers has it."""
    from jinja2 import TemplateError
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(Extension):
        """Marks what a model is trained on; its content is written as it is."""

        tags = {"generation"}  # noqa: RUF012 (jinja2's own form)

        def parse(self, parser: Any) -> Any:
            """The content between {% generation %} and {% endgeneration %}."""
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: str) -> NoReturn:
        raise TemplateError(message)

    def to_json(value: object, indent: int | None = None, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent, **options)

    class SafeNamespace(Namespace):
        """Without names that reach into Python."""

        def __setitem__(self, name: str, value: object) -> None:
            if name.startswith("_"):
                raise SecurityError(f"a chat template may not set {name!r}")
            Namespace.__setitem__(self, name, value)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, *extensions]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["namespace"] = SafeNamespace
    return environment

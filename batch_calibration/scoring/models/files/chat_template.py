"""Renders the messages of a chat as a checkpoint's template has them, in a process of its own."""

import atexit
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from batch_calibration.errors import InputError, shown, spell
from batch_calibration.scoring.models.files.beginning_token import special_token
from batch_calibration.scoring.models.files.config import read_json

FILE = "chat_template.jinja"
"""Goes before what `tokenizer_config.json` says."""
SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")
SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates (Qwen3, SmolLM3, Granite) let a model think before it answers."""
CONTINUED = "<[answer]> "
"""Marks where the started answer ends; its space shows whether a template trims messages."""

MOST_SECONDS = 10.0  # a template that takes longer for one chat has no end

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

    def render(self, messages: Messages, day: date) -> str:
        """The text of a chat, up to where the assistant's answer begins or goes on.

        Args:
            messages: the last is the user's, and the assistant's header is written after it, or
                the assistant's own, a started answer that the label goes on with.
            day: the date for a template that writes today's (Llama 3).

        Raises:
            InputError: a template that cannot be read, refuses these messages, such as a system
                message, leaves out what the user says, or takes too much time or memory.
        """
        chat = [dict(message) for message in messages]
        is_started = chat[-1]["role"] == "assistant"
        if is_started:
            chat[-1]["content"] += CONTINUED
        # Off: a label is the first thing that the model says.
        switches = {name: False for name in SWITCHES if name in self.source}
        variables = {"messages": chat, "add_generation_prompt": not is_started}
        variables |= {"tools": None, "documents": None, **self._special_tokens, **switches}
        request = {"source": self.source, "day": day.isoformat(), "variables": variables}
        answer = _RENDERER.answer(json.dumps(request))
        if "error" in answer:
            roles = ", ".join(message["role"] for message in messages)
            raise InputError(
                f"{self._where}: the chat template cannot be read, or refuses messages of the "
                f"roles {roles} ({answer['error']}); leave {spell('system')} out, give "
                f"{spell('chat', 'one_message')}, or fetch the file again."
            )
        text = answer["text"]
        without_spaces = "".join(text.split())
        for message in messages:
            if (
                message["role"] == "user"
                and "".join(message["content"].split()) not in without_spaces
            ):
                expected = "a chat template that writes what the user says"
                got = f"a text without {shown(message['content'])}"
                remedy = f"leave {spell('chat')} out, or correct the template"
                raise InputError.at(self._where, expected, got, remedy)
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
            got, remedy = ", ".join(map(str, named)), f"put one into {FILE}"
            raise InputError.at(path, "a template named default", got, remedy)
        source = named["default"]
    return ChatTemplate(source, tokens, path) if isinstance(source, str) else None


class _Renderer:
    """A process that renders templates, started when it is needed; see `chat_process`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = Lock()

    def answer(self, request: str) -> dict[str, str]:
        """The process's answer to a line of JSON, or an error where it gives none in time."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._process = self._start()
            process = self._process
            assert process.stdin and process.stdout, "pipes"
            timer = Timer(MOST_SECONDS, process.kill)
            timer.start()
            try:
                process.stdin.write(request + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:  # it ended meanwhile
                line = ""
            finally:
                timer.cancel()
            if not line:
                self.close()
                return {"error": f"no end in {MOST_SECONDS:g} seconds, or too much memory"}
            answer: dict[str, str] = json.loads(line)
            return answer

    def _start(self) -> "subprocess.Popen[str]":
        if find_spec("jinja2") is None:
            got, remedy = "it is not installed", "pip install 'batch-calibration[models]'"
            raise InputError(key="chat", expected="jinja2", got=got, remedy=remedy)
        # -P: the modules next to the program are none of its own.
        command = [sys.executable, "-P", str(Path(__file__).with_name("chat_process.py"))]
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        streams |= {"stderr": subprocess.DEVNULL, "encoding": "utf-8"}
        # An interruption at the terminal is for this process alone.
        return subprocess.Popen(command, start_new_session=True, **streams)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


_RENDERER = _Renderer()
atexit.register(_RENDERER.close)

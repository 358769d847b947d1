"""Renders the messages of a chat with a checkpoint's template, in a separate process."""

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
"""A file that takes precedence over the template in `tokenizer_config.json`."""
SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")
SWITCHES = ("enable_thinking", "thinking")
"""Variables with which templates (Qwen3, SmolLM3, Granite) let a model think before it answers."""
CONTINUED = "<[answer]> "
"""Marks the end of the started answer; its final space shows whether a template trims messages."""

MOST_SECONDS = 10.0  # timeout for one chat; a slower template is taken for an endless loop

Messages = Sequence[Mapping[str, str]]
"""The messages of a chat, each with a role (system, user or assistant) and its content."""


class ChatTemplate:
    """A checkpoint's chat template.

    Most templates write the beginning token themselves; the scorer then does not add it again.
    Thinking is switched off in templates that support this.

    Args:
        source: The template in jinja2's language.
        special_tokens: `bos_token` and others that templates use.
        where: The file, for error messages.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str], where: Path):
        self.source = source
        self._special_tokens = dict(special_tokens)
        self._where = where

    def render(self, messages: Messages, day: date) -> str:
        """Renders a chat up to the point at which the assistant's answer begins or continues.

        Args:
            messages: The messages. If the last is from the user, the assistant's header follows it.
                If it is from the assistant, it is a started answer that the label continues.
            day: The date for templates that write today's date (Llama 3).

        Raises:
            InputError: The template is invalid, rejects these messages (such as a system message),
                omits the user's text, or takes too much time or memory.
        """
        chat = [dict(message) for message in messages]
        is_started = chat[-1]["role"] == "assistant"
        if is_started:
            chat[-1]["content"] += CONTINUED
        # Thinking is off, as the label must be the beginning of the answer.
        switches = {name: False for name in SWITCHES if name in self.source}
        variables = {"messages": chat, "add_generation_prompt": not is_started}
        variables |= {"tools": None, "documents": None, **self._special_tokens, **switches}
        request = {"source": self.source, "day": day.isoformat(), "variables": variables}
        answer = _RENDERER.answer(json.dumps(request))
        if "error" in answer:
            roles = ", ".join(message["role"] for message in messages)
            raise InputError(
                f"{self._where}: the chat template is invalid, or rejects messages with the "
                f"roles {roles} ({answer['error']}); leave {spell('system')} out, give "
                f"{spell('chat', 'one_message')}, or fetch the file again."
            )
        text = answer["text"]
        without_spaces = "".join(text.split())
        for message in messages:
            content = "".join(message["content"].split())
            if message["role"] == "user" and content not in without_spaces:
                expected = "a chat template that includes the user's message"
                got = f"a text without {shown(message['content'])}"
                remedy = f"leave {spell('chat')} out, or correct the template"
                raise InputError.at(self._where, expected, got, remedy)
        if not is_started:
            return text
        # Text that the template writes after a finished answer is removed.
        end = text.rfind(CONTINUED.rstrip())
        if end < 0:
            remedy = f"leave {spell('answer_start')} out"
            raise InputError.at(self._where, "a template that shows started answers", "", remedy)
        is_trimmed = not text[end:].startswith(CONTINUED)
        return text[:end].rstrip() if is_trimmed else text[:end]


def read(directory: Path) -> ChatTemplate | None:
    """Reads the chat template of a checkpoint directory, or returns None without a template.

    Raises:
        InputError: The file cannot be read, or has several templates but no default.
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
        # Some checkpoints, such as Command R, have several named templates.
        named = {entry.get("name"): entry.get("template") for entry in source}
        if "default" not in named:
            got, remedy = ", ".join(map(str, named)), f"put one into {FILE}"
            raise InputError.at(path, "a template named default", got, remedy)
        source = named["default"]
    return ChatTemplate(source, tokens, path) if isinstance(source, str) else None


class _Renderer:
    """A process that renders templates, started at the first request; see `chat_process`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = Lock()

    def answer(self, request: str) -> dict[str, str]:
        """Sends a line of JSON to the process and returns its answer, or a timeout's error."""
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
            except OSError:  # the process has ended
                line = ""
            finally:
                timer.cancel()
            if not line:
                self.close()
                return {"error": f"no result in {MOST_SECONDS:g} seconds, or too much memory"}
            answer: dict[str, str] = json.loads(line)
            return answer

    def _start(self) -> "subprocess.Popen[str]":
        if find_spec("jinja2") is None:
            got, remedy = "it is not installed", "pip install 'batch-calibration[models]'"
            raise InputError(key="chat", expected="jinja2", got=got, remedy=remedy)
        # -P: the program must not import the modules in its folder.
        command = [sys.executable, "-P", str(Path(__file__).with_name("chat_process.py"))]
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        streams |= {"stderr": subprocess.DEVNULL, "encoding": "utf-8"}
        # In a new session, so that Ctrl-C at the terminal does not reach the process.
        return subprocess.Popen(command, start_new_session=True, **streams)

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


_RENDERER = _Renderer()
atexit.register(_RENDERER.close)

"""A program that renders chat templates in jinja2's sandbox, with limited memory.

It runs as a file in its own process, which may be killed. It imports nothing from the package, so
that it starts quickly. Each line of its input is a JSON object with a template's `source`, the
date `day` and the template's `variables`. Each line of its output is a JSON object with the
rendered `text` or an `error`.
"""

import json
import sys
from contextlib import suppress
from datetime import date
from functools import cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MOST_MEMORY = 2 << 30  # bytes of address space
MOST_LETTERS = 1 << 24  # characters of a chat: a hundred times the longest context


class _Generation(Extension):
    """The tag `generation`, which marks training targets; its content is rendered unchanged."""

    tags = {"generation"}  # noqa: RUF012 (jinja2's interface)

    def parse(self, parser: Any) -> Any:
        """Returns the content between {% generation %} and {% endgeneration %}."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class SafeNamespace(Namespace):
    """A namespace without names that begin with an underscore, which reach Python's internals."""

    def __setitem__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            raise SecurityError(f"a chat template may not set {name!r}")
        Namespace.__setitem__(self, name, value)


def refuse(message: str) -> NoReturn:
    """Raises a template error; templates call it as `raise_exception`."""
    raise TemplateError(message)


def _to_json(value: object, indent: int | None = None, **options: Any) -> str:
    """Converts a value to JSON, as the filter `tojson` of transformers does."""
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


@cache
def compiled(source: str) -> Template:
    """Compiles a template with the functions that transformers offers to chat templates."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["namespace"] = SafeNamespace
    return environment.from_string(source)


def _answer(request: dict[str, Any]) -> dict[str, str]:
    """Renders the chat of a request; returns its text, or a description of any error."""
    try:
        day = date.fromisoformat(request["day"])
        template = compiled(request["source"])
        text = template.render(strftime_now=day.strftime, **request["variables"])
        text.encode()  # raises an error if the text has a lone surrogate
    except RecursionError:
        return {"error": "it recurses without end"}
    except MemoryError:
        return {"error": "it needs too much memory"}
    except BaseException as error:
        return {"error": f"{error}"[:400] or type(error).__name__}
    if len(text) > MOST_LETTERS:
        return {"error": f"it writes {len(text):,} characters"}
    return {"text": text}


if __name__ == "__main__":
    with suppress(ImportError, ValueError, OSError):  # the system may not support this limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)

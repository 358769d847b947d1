"""A program that renders chat templates in jinja2's sandbox, within limits of memory.

It is run as a file by a process of its own, which may be killed, and imports nothing of the
package, so that it starts quickly. Each line of its input is JSON with a template's `source`, the
date `day` and its `variables`; it answers with a line of JSON, the `text` or an `error`.
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
MOST_LETTERS = 1 << 24  # of a chat: a hundred times the longest context


class _Generation(Extension):
    """Marks what a model is trained on; its content is written as it is."""

    tags = {"generation"}  # noqa: RUF012 (jinja2's own form)

    def parse(self, parser: Any) -> Any:
        """The content between {% generation %} and {% endgeneration %}."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class SafeNamespace(Namespace):
    """Without names that reach into Python."""

    def __setitem__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            raise SecurityError(f"a chat template may not set {name!r}")
        Namespace.__setitem__(self, name, value)


def refuse(message: str) -> NoReturn:
    """What templates call `raise_exception`."""
    raise TemplateError(message)


def _to_json(value: object, indent: int | None = None, **options: Any) -> str:
    """The filter `tojson` as transformers has it."""
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


@cache
def compiled(source: str) -> Template:
    """A template with what chat templates call, as transformers has it."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["namespace"] = SafeNamespace
    return environment.from_string(source)


def _answer(request: dict[str, Any]) -> dict[str, str]:
    """The text of a chat, or what goes wrong, whatever it is."""
    try:
        day = date.fromisoformat(request["day"])
        template = compiled(request["source"])
        text = template.render(strftime_now=day.strftime, **request["variables"])
        text.encode()  # a lone surrogate is no text
    except RecursionError:
        return {"error": "it calls itself without end"}
    except MemoryError:
        return {"error": "it takes too much memory"}
    except BaseException as error:
        return {"error": f"{error}"[:400] or type(error).__name__}
    if len(text) > MOST_LETTERS:
        return {"error": f"it writes {len(text):,} letters"}
    return {"text": text}


if __name__ == "__main__":
    with suppress(ImportError, ValueError, OSError):  # a system without such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)

"""Formats the examples of docstrings as code on the reference pages (used by mkdocs.yml)."""

import re

from griffe import Extension, Object

EXAMPLE = re.compile(r"^( *)(>>> .*(?:\n(?!\s*$).*)*)", re.M)
"""Matches an example: from a prompt to the next empty line."""


class Doctests(Extension):
    """A griffe extension that fences each example; Markdown would read >>> as a quotation."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Adds the fences to the docstring of a module, class or function."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)

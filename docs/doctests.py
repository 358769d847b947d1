"""Shows the examples of docstrings as code, for the reference pages (mkdocs.yml names it)."""

import re

from griffe import Extension, Object

EXAMPLE = re.compile(r"^( *)(>>> .*(?:\n(?!\s*$).*)*)", re.M)
"""From a prompt to the next empty line."""


class Doctests(Extension):
    """Puts fences around each example, which Markdown would take for a quotation."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Called for each module, class and function that has been read."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)

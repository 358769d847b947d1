"""Renders docs/quickstart.ipynb with its outputs as a page of the site (a hook of mkdocs.yml)."""

import json
import re
from pathlib import Path

NOTEBOOK = Path(__file__).with_name("quickstart.ipynb")


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """Returns the page; `quickstart.md` gets the notebook's cells and outputs before its text."""
    if page.file.src_uri != "quickstart.md":  # type: ignore[attr-defined]
        return markdown
    parts = []
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += map(_shown, cell.get("outputs", []))
    return "\n\n".join([*parts, markdown])


def _shown(output: dict) -> str:
    """Renders an output as Markdown: a picture, a table, or text."""
    found = output.get("data", {"text/plain": output.get("text", "")})
    if picture := "".join(found.get("image/png", "")).strip():
        return f'<img alt="The figure that this cell draws" src="data:image/png;base64,{picture}">'
    if table := "".join(found.get("text/html", "")):
        return re.sub(r"<style.*?</style>\s*", "", table, flags=re.DOTALL)
    return f"```text\n{''.join(found['text/plain'])}\n```"

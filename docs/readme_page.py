"""Makes the site's first page of README.md, so that both say the same (a hook of mkdocs.yml)."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """The text of a page: of `index.md`, the README's with links from within `docs/`.

    Badges, which would be fetched, are left out. A link to a file that the site does not have
    becomes the file's name.
    """
    if page.file.src_uri != "index.md":  # type: ignore[attr-defined]
        return markdown
    text = README.read_text(encoding="utf-8")
    text = re.sub(r"^\[!\[.*\n+", "", text, flags=re.M)
    text = text.replace("](docs/", "](")
    return re.sub(r"\[[^\]]+\]\(((?:CONTRIBUTING|CITATION)\.\w+)\)", r"`\1`", text)

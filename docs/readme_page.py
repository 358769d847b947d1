"""Makes the site's first page from README.md, so that they agree (a hook of mkdocs.yml)."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """Returns the page; `index.md` becomes the README with links relative to `docs/`.

    Badges are removed, because browsers would fetch them. Links to files outside the site become
    plain file names.
    """
    if page.file.src_uri != "index.md":  # type: ignore[attr-defined]
        return markdown
    text = README.read_text(encoding="utf-8")
    text = re.sub(r"^\[!\[.*\n+", "", text, flags=re.M)
    text = text.replace("](docs/", "](")
    text = re.sub(r"\[([^\]]+)\]\((examples/\w+\.py)\)", r"\1, `\2`", text)
    return re.sub(r"\[[^\]]+\]\(((?:CONTRIBUTING|CITATION)\.\w+)\)", r"`\1`", text)

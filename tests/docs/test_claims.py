"""Every section of README and docs with a measured number names the command that prints it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.name != "index.md"  # the README
}
MEASURED = re.compile(r"\d\.\d+ (?:%|points?|nats|s|GB)\b|[+±] ?\d+\.\d|\| *[+-]?\d+\.\d *\|")
"""Percent, points, nats, seconds, an interval, a cell of a table."""
COMMAND = re.compile(
    r"python -m |pytest |make \w+|configs/\w+|batch-calibration \w+|benchmarks[./]\w+"
    r"|`experiments\.\w+|test_\w+\.py|^>>> |^```python|the history at [0-9a-f]{7}",
    re.M,
)
"""Sources of a number: a program, a config with its docstring, a test, code on the page."""


def slug(heading):
    """The anchor of a heading, as the site makes it."""
    text = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", text)


def sections(text):
    """Anchor -> text of each section of the second level, with those below it."""
    pieces = re.split(r"^## (.+)$", "\n" + text, flags=re.M)
    return {"": pieces[0]} | dict(zip(map(slug, pieces[1::2]), pieces[2::2], strict=True))


SECTIONS = {page: sections(text) for page, text in PAGES.items()}
CASES = []
for page, by_anchor in SECTIONS.items():
    CASES += [(page, anchor) for anchor, text in by_anchor.items() if MEASURED.search(text)]


def linked(page, text):
    """The sections that a text links to, on its own page or another."""
    folder = "docs/" if page != "README.md" else ""
    for target, anchor in re.findall(r"\]\(([\w-]*(?:/[\w-]+)*\.md)?(?:#([\w-]+))?\)", text):
        places = SECTIONS.get(folder + target.removeprefix(folder) if target else page, {})
        yield from [places[anchor]] if anchor in places else places.values() if not anchor else []


@pytest.mark.parametrize(("page", "anchor"), CASES)
def test_a_measured_number_has_its_command(page, anchor):
    text = SECTIONS[page][anchor]
    has_command = COMMAND.search(text) or any(map(COMMAND.search, linked(page, text)))
    assert has_command, f"{page}#{anchor}: name the command that prints its numbers"

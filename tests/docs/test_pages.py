"""Names on the pages about the code exist: paths, functions, classes, settings."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ("batch_calibration", "experiments", "configs", "tests")
FOLDERS = ("", *CODE, "docs", "batch_calibration/scoring/tasks", "experiments/pretrain")
ELSEWHERE = {"NAME", "FORMAT", "batch", "calibration", "config", "m", "python", "True"}
"""Words that stand for a name, or belong to a shell or to Python."""


@pytest.fixture(scope="module")
def names():
    """Every name of the code: modules, definitions, arguments, attributes, texts of one word."""
    names = set(ELSEWHERE)
    for folder in CODE:
        for path in (ROOT / folder).rglob("*.py"):
            names |= {path.stem, path.parent.name}
            for node in ast.walk(ast.parse(path.read_text())):
                for field in ("name", "arg", "id", "attr", "value"):
                    name = getattr(node, field, None)
                    names |= {name} if isinstance(name, str) else set()
    return names


def exists(path):
    """True if a path is in the repository, or its end is, from a folder that pages speak of."""
    pattern = re.sub("NAME|FORMAT", "*", path).strip("/")
    return any(any((ROOT / folder).glob(pattern)) for folder in FOLDERS)


@pytest.mark.parametrize(("page", "heading"), [("architecture", "# "), ("reference", "## Words")])
def test_what_a_page_names_exists(page, heading, names):
    text = (ROOT / "docs" / f"{page}.md").read_text().split(heading, 1)[1]
    absent = []
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        for code_word in re.findall(r"[\w*./-]+", code):
            if "/" in code_word or code_word.endswith((".py", ".md", ".txt")):
                # Data lie beside the checkout, not in it.
                if not code_word.startswith("shared/") and not exists(code_word):
                    absent.append(code_word)
            else:  # a dotted name, a flag, a number
                pieces = re.split("[.-]", code_word)
                absent += {piece for piece in pieces if piece and not piece.isdigit()} - names
    assert not absent

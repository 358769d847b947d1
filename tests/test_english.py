"""The English of docstrings and comments: a verb first, few clauses that stand for a noun."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "batch_calibration"
ROOMS = [path.parent for path in sorted(PACKAGE.glob("*/__init__.py"))]
ROOMS = [ROOT / "benchmarks", ROOT / "configs", ROOT / "experiments", PACKAGE, *ROOMS]
# The third person of a verb; nouns in the plural have a preposition or a clause after them.
VERB = re.compile(r"\W*(?!This |Its |As )[A-Z][a-z-]*s\b(?! (?:of|that|which|for|and|with|in|by) )")
MOST_WITHOUT_VERB = 0.25  # of function docstrings: properties begin with a noun
MOST_CLAUSES = {  # per 1,000 lines
    r"\b[Ww]hat (?:is|was|are|the|a|it|they|no|all|each|every|that|one|of)\b": 1.0,
    r"\b(?:tells?|told|says?|said)\b": 0.8,
    r"\b(?:whose|of which)\b": 1.5,
    r"\b[Nn]one (?:of|where|is|are|has|if)\b|\bof none\b": 0.5,
}


def read_prose(room: Path) -> tuple[list[str], list[str], int]:
    """Returns docstrings of functions, all docstrings and comments, and the number of lines."""
    of_functions, prose, lines = [], [], 0
    for path in room.glob("*.py") if room == PACKAGE else room.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        lines += text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                of_functions.append(ast.get_docstring(node) or "")
            elif isinstance(node, ast.ClassDef | ast.Module):
                prose.append(ast.get_docstring(node) or "")
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        prose += [token.string for token in tokens if token.type == tokenize.COMMENT]
    return of_functions, prose + of_functions, lines


@pytest.mark.parametrize("room", ROOMS, ids=lambda r: r.name)
def test_a_room_is_in_plain_english(room):
    of_functions, prose, lines = read_prose(room)
    docstrings = list(filter(None, of_functions))
    without_verb = [text.splitlines()[0] for text in docstrings if not VERB.match(text)]
    assert len(without_verb) <= MOST_WITHOUT_VERB * len(docstrings), without_verb
    for pattern, most in MOST_CLAUSES.items():
        found = [match for text in prose for match in re.findall(f".*{pattern}.*", text)]
        assert len(found) <= max(1, most * lines / 1000), found

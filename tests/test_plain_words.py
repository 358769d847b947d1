"""No page, message or rendered report uses words that readers had to guess at."""

import ast
import html
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from batch_calibration import cli, diagnose, recommend

ROOT = Path(__file__).resolve().parents[1]
AWKWARD = re.compile(
    r"""\b(?:
    (?:un)?likelie(?:r|st) | foretells? | too\ bold\ nor\ too\ timid | (?:can|to)\ be\ had
    | tells?\ [\d.]+\ nats\ of | (?:and|of)\ (?:its|their)\ kin | hangs?\ on\ (?:one|a)\ row
    | predicted\ most\ is\ so | is\ so\ for | what\ stands | (?:is|are|was|were)\ told
    | beside | those\ of | (?<!no\ )such\ (?!as\b|that\b) | one\ after\ the\ other
    | (?:turn|move)s?d?\ round | for\ want\ of | no\ matter\ of\ course | ails | goes\ by\ place
    | at\ hand | shall | anew | stands?\ (?!for\b) | to\ the\ letter | all\ else | mends?
    | no\ promise | by\ its\ construction
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""Dialect of earlier versions. Plain: more probable, predicts, best possible, next to, such as,
sequentially, again, is, repairs."""


def find(text):
    """The awkward words of a text, each with what is around it."""
    text = re.sub(r"\s+", " ", text)
    return [text[max(m.start() - 40, 0) : m.end() + 30] for m in AWKWARD.finditer(text)]


def messages(path):
    """String literals of a file that have a space, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    described = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            described.add(id(node.value))
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and " " in text and id(node) not in described:
            yield text


@pytest.mark.parametrize("text", ["the likeliest label", "what stands here", "BC and its kin"])
def test_awkward_words_are_found(text):
    assert find(text) and not find("such as the most probable label, which stands for a class")


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
def test_pages_are_in_plain_words(page):
    assert not find(page.read_text(encoding="utf-8"))


def test_messages_are_in_plain_words():
    for path in (ROOT / "batch_calibration").rglob("*.py"):
        for text in messages(path):
            assert not find(text), path


def test_what_is_rendered_is_in_plain_words(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    gold = random.integers(0, 3, 60)
    scores = 2.0 * np.eye(3)[gold] + random.normal(size=(60, 3)) - [4.0, 5.0, 6.0]
    frame = pd.DataFrame(scores, columns=["a", "b", "c"]).assign(gold=np.array(list("abc"))[gold])
    frame.to_csv("scores.csv", index=False)
    for command in ("diagnose", "recommend", "compare", "report"):
        cli.run([command, "scores.csv", "--gold=gold"])
    page = re.sub(r"(?s)<(script|style|svg).*?</\1>|<[^>]*>", " ", Path("report.html").read_text())
    said = capsys.readouterr().out, html.unescape(page), str(diagnose(scores, gold))
    for text in (*said, str(recommend(scores))):
        assert not find(text)

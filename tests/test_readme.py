"""README and docs do what they say: their Python runs, the table is the table of methods."""

import re
import runpy
from pathlib import Path

import pytest

from batch_calibration import METHODS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=["arrays", "study"])
def test_python_blocks_print_what_their_comments_say(block, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "block.py").write_text(block, encoding="utf-8")
    runpy.run_path(str(tmp_path / "block.py"))
    said = capsys.readouterr().out.splitlines()
    expected = re.findall(r"^print.*?# ((?:\[[\d ]+\])|\d+ \w+)", block, re.M)
    assert expected and said[: len(expected)] == expected
    if block is BLOCKS[0]:
        assert said[-1] == "[1 0 1 0 1 0 1 0 1 0]"


# Pages whose blocks are one program; what stands behind a print is what it prints.
PAGES = ("arrays-and-estimators",)


@pytest.mark.parametrize("page", PAGES)
def test_pages_print_what_their_comments_say(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    runpy.run_path(str(tmp_path / "page.py"))
    expected = re.findall(r"^print\(.*\)  # (.*)$", program, re.M)
    assert expected and len(expected) == program.count("\nprint(")
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (ROOT / "docs" / link).exists(), link


def test_every_method_is_in_the_table():
    table = README.split("## The methods")[1].split("##")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= set(METHODS)


def test_every_file_it_names_is_there():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    for name in re.findall(r"configs/\w+\.py", README):
        assert (ROOT / name).exists(), name
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)|`make (\w+)`", README, re.M):
        assert re.search(rf"^{''.join(target)}:", targets, re.M), target

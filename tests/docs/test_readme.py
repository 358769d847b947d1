"""README and docs do what they say: their Python runs, the table is the table of methods."""

import json
import re
import runpy
import shlex
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from log_forms import VALUES, as_log

import batch_calibration
from batch_calibration import METHODS, cli
from batch_calibration.importers import IMPORTERS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


BLOCK = re.compile(r"```python\n(.*?)```", re.S)
"""A page's blocks are one program; the comment behind a print is what it prints."""
PAGES = {
    path.relative_to(ROOT).as_posix(): BLOCK.findall(path.read_text(encoding="utf-8"))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
LOG = "out/model/samples_mmlu_anatomy_2026-01-02T03-04-05.678.jsonl"


def write_files(folder):
    """Writes the files that the pages' programs read; gives a frame, which they read too."""
    scores = [[-0.5, -1.5], [-1.0, -0.75], [-0.25, -2.0], [-1.5, -0.5]] * 5
    frame = pd.DataFrame(scores, columns=["no", "yes"])
    frame = frame.assign(gold=["no", "yes"] * 10, id=[f"row {i}" for i in range(20)])
    for subfolder in ("scores", "out/model"):
        (folder / subfolder).mkdir(parents=True)
    frame.to_csv(folder / "scores.csv", index=False)
    frame.to_parquet(folder / "scores" / "part.parquet")
    for log in (LOG, "samples.jsonl"):
        (folder / log).write_bytes(as_log("lm_eval", VALUES["lm_eval"], json.dumps))
    (folder / "responses.jsonl").write_text("".join(map(_response, scores)))
    gold = np.tile(np.arange(2), 10)
    np.savez(folder / "orig.npz", scores=[scores, scores], gold=gold, models=["a", "b"])
    return frame


def _response(row):
    """A line with a list of first tokens, as OpenAI's completions give it."""
    tokens = dict(zip((" no", " yes"), row, strict=True))
    answer = {"choices": [{"text": " no", "logprobs": {"top_logprobs": [tokens]}}]}
    return json.dumps({"answer": "no", "response": answer}) + "\n"


@pytest.mark.slow_except("README*")
@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_pages_print_what_their_comments_say(page, capsys, tmp_path, monkeypatch):
    program = "\n".join(PAGES[page])
    expected = re.findall(r"^print\(.*\)  # (.*)$", program, re.M)
    assert len(expected) == len(re.findall(r"^print\(", program, re.M))
    frame = write_files(tmp_path)
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with patch.dict(METHODS), patch.dict(IMPORTERS):
        runpy.run_path("page.py", {"frame": frame})
    lines = capsys.readouterr().out.splitlines()
    assert lines == expected or not expected


def test_the_commands_of_the_table_run_in_their_order(tmp_path, monkeypatch, capsys):
    """Lines of the plugins run in `make reference`, and the examples in tests/programs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    section = README.split("## You have this: type this\n\n")[1].split("\n\n")[0]
    typed = [line.split("|")[2].strip("`") for line in section.splitlines()[2:]]
    lines = [shlex.split(line) for line in ["batch-calibration demo", *typed]]
    programs = " ".join(line[1] for line in lines)
    assert programs == (
        "demo diagnose calibrate threshold label report judge ask requests classify score compare "
        "recommend"
    )
    for _program, *flags in lines:
        args = [_filled_in(flag, {"DIR": "mini"}) for flag in flags]
        with patch.dict(METHODS):
            cli.run([*args, "--limit=12", "--shots=1"] if args[0] == "score" else args)
    stdout = capsys.readouterr().out
    assert (
        "\ntrimmed " in stdout
        and "Advice with the right labels:" in stdout
        and "rows scored" in stdout
    )
    assert "nothing was sent or written" in stdout and not (tmp_path / "asked.csv").exists()
    assert (tmp_path / "report.html").exists() and list((tmp_path / "W" / "scores").iterdir())


def test_the_answer_of_the_demo_is_printed_by_the_demo(tmp_path, capsys):
    cli.run(["demo", f"--output={tmp_path}"])
    printed = " ".join(capsys.readouterr().out.split())
    answer = README.split("intervals:\n\n```\n")[1].split("```")[0]
    for sentence in answer.splitlines():
        assert sentence in printed


def _filled_in(flag, stands_for):
    """A flag of the README with the value that one of its capital words stands for."""
    name, sign, value = flag.partition("=")
    return name + sign + stands_for.get(value, value)


def test_every_method_is_in_the_table():
    page = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
    table = page.split("## What each method learns from\n")[1].split("##")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= set(METHODS)


def test_it_is_read_in_a_few_minutes():
    assert len(README.split()) <= 700


def test_every_file_it_names_is_there():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    for name in re.findall(r"configs/\w+\.py", README):
        assert (ROOT / name).exists(), name
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)|`make (\w+)`", README, re.M):
        assert re.search(rf"^{''.join(target)}:", targets, re.M), target


def test_it_names_every_command_of_continuous_integration():
    commands = re.findall(r"^make \w+", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.M)
    assert commands and all(command in README for command in commands)


def test_the_reference_has_every_public_name():
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:::: .*\.| +- )(\w+)$", text, re.M))
    assert named >= set(batch_calibration.__all__) - {"__version__"}

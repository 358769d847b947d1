"""The command `ask`: scores of a file of prompts from a server, asked once, read by `diagnose`."""

import csv
import json
from contextlib import nullcontext

import numpy as np
import pytest
from api_server import Reply, answer, first_tokens, running, summed

from batch_calibration import cli
from batch_calibration.importers import Reading, read

KEY = "sk-planted-0123456789"
TEXTS = [f'Review: "film" {i},\nit was\nSentiment:' for i in range(12)]
LABELS = ("negative", "positive")


@pytest.fixture
def files(tmp_path):
    """A CSV of prompts with commas, quotes and line ends, and where the scores go."""
    prompts = tmp_path / "prompts.csv"
    with prompts.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "prompt", "gold"])
        for number, text in enumerate(TEXTS):
            lines.writerow([f"r{number}", text, LABELS[number % 2]])
    return prompts, tmp_path / "scores.csv"


def ask(server, files, *flags, code=0):
    prompts, output = files
    usual = ["--model=m", "--labels=negative,positive", f"--output={output}"]
    with pytest.raises(SystemExit, match=str(code)) if code else nullcontext():
        cli.run(["ask", str(prompts), f"--server={server.address}", *usual, *flags])


def test_scores_are_asked_once_and_diagnosed(files, capsys):
    _, output = files
    with running() as server:
        ask(server, files, "--price=0.5", "--api_scores=top_k")
        text = capsys.readouterr().out
        assert f"{server.address} will be asked 12 prompts x 1 request: 12 requests, about" in text
        assert "at --price" in text and f"next: batch-calibration diagnose {output}\n" in text
        (table,) = read(output, Reading())
        want = [[first_tokens(text)[f" {label}"] for label in LABELS] for text in TEXTS]
        np.testing.assert_allclose(table.blocks["test"].log_probs, want, rtol=1e-6)
        assert table.label_names == LABELS
        assert table.blocks["test"].labels.tolist() == [0, 1] * 6
        assert len(server.asked) == 12
        ask(server, files, "--api_scores=top_k")
        assert len(server.asked) == 12
        assert "0 requests, about 0 tokens; 12 more were answered before" in capsys.readouterr().out
    names = [path.name for path in sorted(output.parent.iterdir())]
    assert names == ["prompts.csv", "scores.csv", "scores.csv.answers.sqlite"]
    cli.run(["diagnose", str(output)])
    assert "positive" in capsys.readouterr().out


@pytest.mark.parametrize(("way", "requests"), [("chat", 12), ("echo", 24)])
def test_each_way_costs_what_it_says(way, requests, files, capsys):
    with running() as server:
        ask(server, files, f"--api_scores={way}")
        assert len(server.asked) == requests
        assert f"12 prompts x {requests // 12} request" in capsys.readouterr().out
        if way == "echo":
            want = [[summed(text, f" {label}") for label in LABELS] for text in TEXTS]
            (table,) = read(files[1], Reading())
            np.testing.assert_allclose(table.blocks["test"].log_probs, want, rtol=1e-6)


def test_a_run_that_stops_says_how_to_go_on(files, capsys):
    def gone(number, *_):
        return Reply("gone", 404) if number >= 5 else None

    with running(gone) as server:
        ask(server, files, "--in_flight=1", code=2)
        error = capsys.readouterr().err
        assert "run the same command again" in error and "--server" in error
        assert not files[1].exists()
        server.fault = lambda *_: None
        count_before = len(server.asked)
        ask(server, files)
        # Five were answered before the server was gone.
        assert len(server.asked) == count_before + 7
        assert "7 requests" in capsys.readouterr().out


def test_a_refused_row_is_named_kept_as_missing_and_left_out_by_drop(files, capsys):
    _, output = files

    def fault(_, path, body):
        if body["messages"][0]["content"] == TEXTS[3]:
            return Reply({"error": {"message": f"content_filter of {KEY}"}}, 400)
        return None

    with running(fault) as server:
        ask(server, files)
        captured = capsys.readouterr()
        assert "1 of 12 rows have no scores: ['r3']" in captured.out.replace('"', "'")
        assert "content_filter" in captured.err and "--missing=drop" in captured.out
        ask(server, files)
        assert len(server.asked) == 12
    (table,) = read(output, Reading(missing="drop", ids="id"))
    assert "r3" not in table.blocks["test"].row_ids and len(table.blocks["test"].row_ids) == 11
    cli.run(["diagnose", str(output), "--missing=drop"])


def test_no_key_is_written_or_said(files, capsys, monkeypatch):
    monkeypatch.setenv("API_KEY", KEY)

    def fault(number, path, body):
        if number == 0:
            return Reply({"error": {"message": f"no {KEY}"}}, 400)
        return Reply(answer(path, body) | {"id": KEY})

    with running(fault) as server:
        ask(server, files)
        assert any(KEY in header for header in server.asked[0][2].values())
    captured = capsys.readouterr()
    assert KEY not in captured.out + captured.err and KEY not in files[1].read_text()


def test_json_lines_and_other_columns_are_read(tmp_path):
    prompts, output = tmp_path / "prompts.jsonl", tmp_path / "scores.csv"
    rows = [{"q": text, "key": number, "right": "positive"} for number, text in enumerate(TEXTS)]
    prompts.write_text("\n".join(map(json.dumps, rows)))
    with running() as server:
        ask(server, (prompts, output), "--prompt=q", "--ids=key", "--gold=right")
    (table,) = read(output, Reading(gold="right", ids="id"))
    assert table.blocks["test"].row_ids[-1] == "11"
    assert set(table.blocks["test"].labels) == {1}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--labels=yes"], "--labels: expected two or more different labels"),
        (["--labels=id,no"], "names that differ from the output's columns"),
        (["--labels=yes,no"], "got 'negative', which names no label"),
        (["--prompt=prompts"], "did you mean 'prompt'"),
        (["--output=scores.txt"], "expected a .csv file"),
        (["--ids=gold"], "expected a unique id; got 'negative' again"),
        (["--api_scores=tops"], "--api_scores"),
        (["--server=nowhere"], "--server: expected an address"),
    ],
)
def test_a_mistake_is_a_sentence(flags, sentence, files, capsys):
    with running() as server:
        ask(server, files, *flags, code=2)
        assert not server.asked
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "name"),
    [("--model=other", "model"), ("--api_scores=top_k", "api_scores"), ("--labels=a,b", "a, b")],
)
def test_an_output_of_other_settings_is_not_added_to(flag, name, files, capsys):
    with running() as server:
        ask(server, files)
        ask(server, files, flag, code=2)
        assert len(server.asked) == 12
    assert f"got another {name}" in capsys.readouterr().err

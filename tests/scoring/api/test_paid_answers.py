"""Paid answers: none is lost, none is asked for twice, and the output is made of all of them."""

import csv
import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from api_server import Reply, answer, running
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_files import lines

from batch_calibration import cli
from batch_calibration.cli import options
from batch_calibration.cli.asking import ask_server
from batch_calibration.errors import InputError
from batch_calibration.importers import Reading, read
from batch_calibration.scoring.api.answers import Answers

LABELS = "negative,positive"
IN_FLIGHT = 3


class Killed(BaseException):
    """The process is gone."""


def arguments(server, path, output, *flags):
    asked = [str(path), f"--server={server.address}", "--model=m", f"--labels={LABELS}"]
    return ["ask", *asked, f"--output={output}", f"--in_flight={IN_FLIGHT}", *flags]


def ask(server, path, output, *flags):
    ask_server(options.parse(arguments(server, path, output, *flags)))


def write(path, rows):
    path.write_text(lines({"id": name, "prompt": text} for name, text in rows))


def rows_of(output):
    with output.open(newline="") as file:
        return list(csv.DictReader(file))


def text_of(body):
    return body["messages"][0]["content"]


def refusing(_, path, body):
    """The right answer, or what becomes of prompts that a filter or the model refuses."""
    text = text_of(body)
    if text.startswith("filtered"):
        return Reply({"error": {"message": "policy", "code": "content_filter"}}, 400)
    if text.startswith("refused"):
        message = {"content": None, "refusal": "I cannot"}
        return Reply({"choices": [{"message": message, "logprobs": {"content": None}}]})
    return Reply(answer(path, body))


STEP = st.sampled_from(["run", "kill", "down", "add", "edit", "drop", "turn"])
TEXT = st.sampled_from(["film", "filtered", "refused", "a\rb"])
STEPS = st.lists(st.tuples(STEP, st.integers(0, 11), TEXT), min_size=2, max_size=8)


@settings(max_examples=20, deadline=None)
@given(steps=STEPS)
def test_no_answer_is_lost_and_none_is_asked_for_twice(steps):
    """Over runs, kills, servers that go, files that change, and refusals."""
    with TemporaryDirectory() as folder, running(refusing) as server:
        path, output = Path(folder, "p.jsonl"), Path(folder, "o.csv")
        rows = [(f"r{number}", f"film {number // 2}") for number in range(8)]
        lost = 0
        for step, number, kind in [*steps, ("run", 0, "")]:
            if step == "add":
                rows.append((f"r{len(rows)}-{number}", f"{kind} {number}"))
            elif step == "edit":
                rows[number % len(rows)] = (rows[number % len(rows)][0], f"{kind} {number}")
            elif step == "drop" and len(rows) > 3:
                del rows[number % len(rows)]
            elif step == "turn":
                rows.reverse()
            write(path, dict(rows).items())
            kept, keep = [], Answers.keep

            def dies(*given, number=number, kept=kept, keep=keep):
                kept.append(given)
                if len(kept) > number:
                    raise Killed
                return keep(*given)

            count = len(server.asked)

            def goes(sent, where, body, last=count + number):
                return Reply("gone", 404) if sent >= last else refusing(sent, where, body)

            before = {row["id"] for row in rows_of(output)} if output.exists() else set()
            if step == "kill":
                with patch.object(Answers, "keep", dies), suppress(Killed):
                    ask(server, path, output)
                lost += IN_FLIGHT
            elif step == "down":
                server.fault = goes
                with suppress(InputError):
                    ask(server, path, output)
                del server.asked[count + number :]  # what a server that is gone charges nobody for
                server.fault = refusing
            elif step == "run":
                ask(server, path, output)
            if output.exists():
                assert before <= {row["id"] for row in rows_of(output)}
        asked = Counter(text_of(body) for _, body, _ in server.asked)
        assert asked.total() - len(asked) <= lost
        # One run over all rows that the output holds gives the same file.
        found = [(row["id"], row["prompt"]) for row in rows_of(output)]
        assert found[: len(dict(rows))] == [*dict(rows).items()]
        write(path, found)
        once = Path(folder, "once.csv")
        ask(server, path, once)
        assert once.read_bytes() == output.read_bytes()


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "p.jsonl"
    write(path, [(f"r{number}", f"film {number}") for number in range(12)])
    return path, tmp_path / "o.csv"


def test_another_server_s_answers_are_not_reused(files, capsys, refuses):
    with running() as server, running() as other:
        ask(server, *files)
        cli.run(["diagnose", str(files[1])])
        error = refuses(ask, other, *files)
        assert error.where == str(files[1]) and other.address in error.expected
        files[1].unlink()
        ask(other, *files)
        assert len(other.asked) == 12


def test_another_file_adds_rows_and_one_of_the_same_ids_is_refused(files, tmp_path, refuses):
    path, output = files
    with running() as server:
        ask(server, path, output)
        first = rows_of(output)
        write(tmp_path / "more.jsonl", [(f"b{number}", f"book {number}") for number in range(3)])
        ask(server, tmp_path / "more.jsonl", output)
        found = rows_of(output)
        assert [row["id"] for row in found] == ["b0", "b1", "b2", *(row["id"] for row in first)]
        assert found[3:] == first
        write(tmp_path / "other.jsonl", [(f"r{number}", f"play {number}") for number in range(3)])
        error = refuses(ask, server, tmp_path / "other.jsonl", output)
        assert error.got == "['r0', 'r1', 'r2']"
        Path(f"{output}.answers.sqlite").unlink()
        error = refuses(ask, server, tmp_path / "more.jsonl", output)
        assert error.where == str(output) and error.got.endswith("12 requests")
        assert len(server.asked) == 15 and rows_of(output) == found


def test_messages_are_sent_as_they_are_and_other_lists_refused(files, refuses):
    path, output = files
    messages = [{"role": "system", "content": "Be\rbrief."}, {"role": "user", "content": "Is it?"}]
    path.write_text(json.dumps({"prompt": messages}) + "\n" + json.dumps({"prompt": "[1] film"}))
    with running() as server:
        ask(server, path, output)
        sent = [body["messages"] for _, body, _ in server.asked]
        assert messages in sent and [{"role": "user", "content": "[1] film"}] in sent
        ask(server, path, output)
        assert len(server.asked) == 2
        error = refuses(ask, server, path, output, "--api_scores=top_k")
        assert error.where == "--api_scores" and error.expected.startswith("chat")
        path.write_text(json.dumps({"prompt": ["Is it?"]}))
        assert refuses(ask, server, path, output).got == "['Is it?']"


def test_ids_and_prompts_survive_the_round_trip(files):
    path, output = files
    texts = ["a\rb", "a\r\nb", 'say "a", b', "=1+1", " NA ", "\ttab", "null", "[1]", "é\u2028"]
    write(path, [(f"{number}\r=", text) for number, text in enumerate(texts)])
    with running() as server:
        ask(server, path, output)
        ask(server, path, output)
        assert len(server.asked) == len(texts)
    assert [row["prompt"] for row in rows_of(output)] == texts
    (table,) = read(output, Reading())  # `id` is found
    assert table.blocks["test"].row_ids == tuple(f"{number}\r=" for number in range(len(texts)))


def test_filled_in_scores_are_marked_and_an_absent_label_has_none(files, refuses):
    path, output = files

    def lacks(number, where, body):
        reply = answer(where, body)
        tops = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        if text_of(body).endswith(("3", "5")):
            tops[:] = [top for top in tops if "positive" not in top["token"]]
        return Reply(reply)

    with running(lacks) as server:
        ask(server, path, output)
        marks = {row["id"]: row["filled_in"] for row in rows_of(output)}
        assert {name for name, mark in marks.items() if mark == "'positive'"} == {"r3", "r5"}
        (table,) = read(output, Reading())
        assert table.label_names == tuple(LABELS.split(","))
        for labels, got in (("yak,zebra", "['yak', 'zebra']"), (f"{LABELS},zebra", "['zebra']")):
            output.unlink()
            error = refuses(ask, server, path, output, f"--labels={labels}")
            assert error.where == "--labels" and error.got.startswith(got)
        assert {row["zebra"] for row in rows_of(output)} == {""}
        ask(server, path, output, f"--labels={LABELS},zebra", "--missing=-30")
        assert {float(row["zebra"]) for row in rows_of(output)} == {-30.0}
        assert len(server.asked) == 12


def test_a_row_s_scores_depend_on_no_other_row_that_was_asked(files):
    """Lists of unlike lengths, and labels that some answers hold as several tokens."""
    kinds = [{"ent": -1.0, "entail": -2.5, "No": -2.0}, {"entailment": -1.0, "no": -2.0, "x": -3.0}]
    kinds.append({"no": -0.5, "the": -2.0, "of": -3.0, "sampled": -9.0})

    def unlike(_, path, body):
        tops = kinds[int(text_of(body)[-1]) % 3]
        content = [{"token": t, "logprob": log_prob} for t, log_prob in tops.items()]
        return Reply({"choices": [{"logprobs": {"content": [{"top_logprobs": content}]}}]})

    with running(unlike) as server:
        ask(server, *files, "--labels=entailment,no", "--top_logprobs=3")
    rows = [(row["entailment"], row["no"]) for row in rows_of(files[1])]
    # Below the third, not below the sampled token.
    assert rows[:3] == [("-1", "-2"), ("-1", "-2"), ("-3.5", "-0.5")]


def test_many_filtered_prompts_are_no_failing_server_wherever_they_are(files):
    path, output = files
    write(path, [(f"r{i}", f"{'film' if i >= 24 else 'filtered'} {i}") for i in range(60)])
    with running(refusing) as server:
        ask(server, path, output)
        ask(server, path, output)
        assert len(server.asked) == 60
    assert sum(row["negative"] != "" for row in rows_of(output)) == 36


def test_one_answer_that_can_never_be_read_is_a_missing_row(files):
    def bare(_, where, body):
        if text_of(body) == "film 7":
            return Reply({"choices": [{"message": {"content": "no"}, "logprobs": None}]})
        return None

    with running(bare) as server:
        ask(server, *files, "--in_flight=1")
        ask(server, *files)
        assert len(server.asked) == 12
        assert [row["id"] for row in rows_of(files[1]) if not row["negative"]] == ["r7"]


def test_a_server_that_ceases_to_score_is_stopped_and_asked_again_once_it_is_mended(files, refuses):
    def ceases(number, *_):
        return Reply({"choices": [{"logprobs": None}]}) if number >= 3 else None

    with running(ceases) as server:
        error = refuses(ask, server, *files, "--in_flight=1")
        assert "logprobs are null" in str(error) and len(server.asked) == 11  # eight in a row
        server.fault = lambda *_: None
        ask(server, *files)
        assert all(row["negative"] for row in rows_of(files[1]))


@pytest.mark.parametrize("status", [402, 429])
def test_a_quota_that_is_used_up_stops_at_once(files, status, refuses):
    def unpaid(number, *_):
        error = {"code": "insufficient_quota", "message": "You exceeded your current quota"}
        return Reply({"error": error}, status) if number >= 2 else None

    with running(unpaid) as server:
        error = refuses(ask, server, *files, "--in_flight=1")
        assert f"status {status}: 'You exceeded" in str(error) and len(server.asked) == 3


def test_two_runs_at_once_ask_each_prompt_once_and_keep_both_files(tmp_path):
    first, second, output = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "o.csv"
    write(first, [(f"a{number}", f"film {number}") for number in range(20)])
    write(second, [(f"b{number}", f"film {number + 10}") for number in range(20)])

    def slow(*_):
        time.sleep(0.1)

    with running(slow) as server:
        command = [sys.executable, "-m", "batch_calibration"]
        words = [arguments(server, path, output) for path in (first, second)]
        runs = [subprocess.Popen([*command, *flags]) for flags in words]
        assert [run.wait(timeout=120) for run in runs] == [0, 0]
        assert len(server.asked) == len({text_of(body) for _, body, _ in server.asked}) == 30
    assert len(rows_of(output)) == 40


@pytest.mark.parametrize("name", ["p.csv", "link.csv", "s3://bucket/o.csv"])
def test_an_output_that_cannot_be_is_refused_before_anything_is_asked(tmp_path, name, capsys):
    path = tmp_path / "p.csv"
    path.write_text("id,prompt\n1,Is it?\n2,Was it?\n")
    (tmp_path / "link.csv").symlink_to(path)
    output = name if "://" in name else tmp_path / name
    with running() as server:
        for command in arguments(server, path, output), ["judge", str(path), f"--output={output}"]:
            with pytest.raises(SystemExit):
                cli.run(command)
            assert "--output: expected a" in capsys.readouterr().err
        assert not server.asked
    assert not Path("s3:").exists()

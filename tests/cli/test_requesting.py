"""The commands `requests` and `answers`: files out, files in, and tables as if asked directly."""

import gzip
import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from api_server import answer, running
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_calibration import cli, read
from batch_calibration.scores import ScoreTable
from batch_calibration.studies import Store

STUDY = ["--data=mini", "--tasks=sst2", "--limit=12", "--shots=1", "--dc_texts=3", "--model=m"]


def line_of(request, **changed):
    """A line of an engine's answers, in OpenAI's batch format."""
    body = answer(request["url"], request["body"])
    response = {"status_code": 200, "request_id": "r", "body": body}
    return {
        "id": "b",
        "custom_id": request["custom_id"],
        "response": response,
        "error": None,
    } | changed


def requests_in(workdir):
    files = sorted((workdir / "requests").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def tables_of(workdir) -> dict[str, ScoreTable]:
    return {table.context["task"]: table for table in Store(workdir).tables()[0]}


def write_requests(workdir, *flags):
    cli.run(["requests", *STUDY, f"--workdir={workdir}", *flags])
    return requests_in(workdir)


def assert_same(ours, theirs):
    assert ours.blocks.keys() == theirs.blocks.keys()
    for name, block in ours.blocks.items():
        np.testing.assert_array_equal(block.log_probs, theirs.blocks[name].log_probs)
        assert block.row_ids == theirs.blocks[name].row_ids
        assert block.labels.tolist() == theirs.blocks[name].labels.tolist()


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """The table of a study whose server was asked directly, and its requests in files."""
    folder = tmp_path_factory.mktemp("asked")
    with running() as server:
        direct = ["--scorer=api", f"--server={server.address}", "--api_scores=chat"]
        cli.run(["score", *STUDY, *direct, f"--workdir={folder / 'direct'}"])
    requests = write_requests(folder / "W")
    return tables_of(folder / "direct")["sst2"], requests


def test_answers_from_files_give_the_tables_of_a_server(asked, tmp_path, capsys):
    table, _ = asked
    requests = write_requests(tmp_path / "W", "--shard-size=7", "--price=100")
    files = sorted((tmp_path / "W/requests").glob("*.jsonl"))
    assert len(files) == -(-len(requests) // 7)
    assert f"{len(requests)} requests, about " in (out := capsys.readouterr().out)
    assert "at --price" in out and "answers" in out
    lines = list(map(line_of, requests))
    random.Random(0).shuffle(lines)
    first, second = write(tmp_path / "a.jsonl", lines[:20]), tmp_path / "b.jsonl.gz"
    second.write_bytes(gzip.compress("\n".join(map(json.dumps, lines[20:])).encode()))
    cli.run(["answers", str(tmp_path / "W"), first, str(second)])
    out = capsys.readouterr().out
    count = len(requests)
    assert f"{count} lines of 2 files: {count} new" in out
    assert f"{count} requests: {count} answered, 0 refused, 0 missing" in out
    assert_same(tables_of(tmp_path / "W")["sst2"], table)
    # A study like any other.
    cli.run(["calibrate", f"--workdir={tmp_path / 'W'}", "--methods=icl,bc"])
    # A second plan has nothing to ask, and leaves no file of the first one.
    cli.run(["requests", f"--workdir={tmp_path / 'W'}"])
    assert capsys.readouterr().out.count("0 requests") == 1
    assert not list((tmp_path / "W/requests").glob("*.jsonl"))
    cli.run(["answers", str(tmp_path / "W")])
    assert "1 of 1 contexts have scores" in capsys.readouterr().out


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_any_split_order_repetition_and_loss_gives_the_same_table_or_a_count(asked, data):
    table, requests = asked
    lines = list(map(line_of, requests))
    lost = set(data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=3), label="lost"))
    kept = [line for i, line in enumerate(lines) if i not in lost]
    repeated = data.draw(st.lists(st.sampled_from(kept), max_size=5), label="repeated")
    draw = random.Random(data.draw(st.integers(0, 9), label="order"))
    # Useless answers and failures to requests that are answered elsewhere.
    spoiled = [
        line | {"response": {"status_code": 200, "body": {"choices": []}}} for line in repeated
    ]
    failed = [line | {"response": {"status_code": 500, "body": {}}} for line in repeated]
    refused = [
        line | {"response": {"status_code": 400, "body": {"error": "no"}}} for line in repeated
    ]
    mixed = [*kept, *repeated, *spoiled, *failed, *refused]
    draw.shuffle(mixed)
    shards = data.draw(st.integers(1, 4), label="shards")
    with TemporaryDirectory() as name:
        workdir = Path(name) / "W"
        write_requests(workdir)
        for i in range(shards):
            file = write(Path(name) / f"{i}.jsonl", mixed[i::shards])
            error = None
            try:
                cli.run(["answers", str(workdir), file])
            except SystemExit as exit_:
                error = exit_.code
        if lost:
            assert error
            cli.run(["requests", f"--workdir={workdir}"])
            rest = requests_in(workdir)
            assert {line["custom_id"] for line in rest} == {lines[i]["custom_id"] for i in lost}
            cli.run(["answers", str(workdir), write(Path(name) / "rest.jsonl", map(line_of, rest))])
        assert_same(tables_of(workdir)["sst2"], table)


def test_failures_are_counted_and_asked_again(asked, tmp_path, capsys):
    table, requests = asked
    write_requests(tmp_path / "W")
    lines = list(map(line_of, requests))
    expired = {"code": "batch_expired", "message": "it was not executed in time"}
    lines[0] |= {"response": None, "error": expired}
    lines[1] |= {"response": {"status_code": 429, "body": {"error": {"message": "slow"}}}}
    lines[2] |= {"response": {"status_code": 400, "body": {"error": {"message": "content_filter"}}}}
    lines[3] |= {"custom_id": "mine-3"}
    lines[4] |= {"custom_id": "ab" * 32}
    path = Path(write(tmp_path / "a.jsonl", lines))
    path.write_text(path.read_text()[:-50])
    with pytest.raises(SystemExit):
        cli.run(["answers", str(tmp_path / "W"), str(path)])
    out = capsys.readouterr().out
    assert "2 failed" in out and "1 refused" in out and "1 truncated" in out and "2 unknown" in out
    assert "batch_expired" in out or "it was not executed in time" in out
    assert f"{len(lines)} requests: {len(lines) - 6} answered, 1 refused, 5 missing" in out
    cli.run(["requests", f"--workdir={tmp_path / 'W'}"])
    rest = requests_in(tmp_path / "W")
    assert len(rest) == 5
    cli.run(["answers", str(tmp_path / "W"), write(tmp_path / "b.jsonl", map(line_of, rest))])
    capsys.readouterr()
    # The refused row is left out, until its request is sent again.
    own = tables_of(tmp_path / "W")["sst2"]
    assert sum(len(block.row_ids) for block in own.blocks.values()) < sum(
        len(block.row_ids) for block in table.blocks.values()
    )
    cli.run(["requests", f"--workdir={tmp_path / 'W'}", "--again"])
    (again,) = requests_in(tmp_path / "W")
    assert again["custom_id"] == lines[2]["custom_id"]
    cli.run(["answers", str(tmp_path / "W"), write(tmp_path / "c.jsonl", [line_of(again)])])
    assert_same(tables_of(tmp_path / "W")["sst2"], table)


def test_a_useless_answer_costs_its_row_and_can_be_asked_again(asked, tmp_path, capsys):
    table, requests = asked
    write_requests(tmp_path / "W")
    lines = list(map(line_of, requests))
    lines[5]["response"]["body"] = {"choices": [{"message": {"content": "yes"}, "logprobs": None}]}
    cli.run(["answers", str(tmp_path / "W"), write(tmp_path / "a.jsonl", lines)])
    assert "its logprobs are null" in capsys.readouterr().err.replace("\n", " ")
    cli.run(["requests", f"--workdir={tmp_path / 'W'}", "--again"])
    (again,) = requests_in(tmp_path / "W")
    cli.run(["answers", str(tmp_path / "W"), write(tmp_path / "b.jsonl", [line_of(again)])])
    assert_same(tables_of(tmp_path / "W")["sst2"], table)


def test_a_server_answers_the_rest(asked, tmp_path):
    table, _ = asked
    with running() as server:
        requests = write_requests(tmp_path / "W", f"--server={server.address}")
        file = write(tmp_path / "a.jsonl", map(line_of, requests[:30]))
        with pytest.raises(SystemExit):
            cli.run(["answers", str(tmp_path / "W"), file])
        assert not server.asked
        direct = ["--scorer=api", f"--server={server.address}", "--api_scores=chat"]
        cli.run(["score", *STUDY, *direct, f"--workdir={tmp_path / 'W'}"])
        assert len(server.asked) == len(requests) - 30
    assert_same(tables_of(tmp_path / "W")["sst2"], table)


def test_a_torn_file_costs_only_its_own_lines(asked, tmp_path, capsys):
    table, requests = asked
    write_requests(tmp_path / "W")
    lines = [json.dumps(line_of(request)) for request in requests]
    packed = gzip.compress("\n".join(lines[:30]).encode())
    (tmp_path / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    broken = {"custom_id": requests[0]["custom_id"], "answer": "{"}
    rows = [json.dumps(broken), "[1]", "7", '{"custom_id": 5}', "\udcff{", *lines[30:]]
    (tmp_path / "c.jsonl").write_bytes("\n".join(rows).encode(errors="surrogateescape"))
    with pytest.raises(SystemExit):
        cli.run(["answers", str(tmp_path / "W"), str(tmp_path)])
    out = capsys.readouterr().out
    # The folder holds the requests, too, which are no answers.
    assert "4 truncated" in out and f"{3 + len(requests)} unknown" in out
    cli.run(["requests", f"--workdir={tmp_path / 'W'}"])
    file = write(tmp_path / "d.jsonl", map(line_of, requests_in(tmp_path / "W")))
    cli.run(["answers", str(tmp_path / "W"), file])
    assert_same(tables_of(tmp_path / "W")["sst2"], table)


def test_answers_are_brought_from_any_folder_and_to_a_moved_workdir(tmp_path, monkeypatch, capsys):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("p.csv").write_text("prompt\nFilm one:\nFilm two:\n")
    flags = ["--prompts=p.csv", "--labels=negative,positive", "--model=m"]
    cli.run(["requests", *flags, "--workdir=W"])
    file = write(tmp_path / "a.jsonl", map(line_of, requests_in(Path("W"))))
    Path("W").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    cli.run(["answers", "moved", file])
    assert tables_of(tmp_path / "moved")["p"].blocks["test"].row_ids == ("0", "1")
    # An edited prompt has no answer yet; the first remedy of the sentence writes it.
    Path("here/p.csv").write_text("prompt\nFilm one:\nFilm three:\n")
    with pytest.raises(SystemExit):
        cli.run(["answers", "moved"])
    assert "their prompts changed after the requests were written" in capsys.readouterr().err
    cli.run(["requests", "--workdir=moved"])
    assert "earlier plan" not in capsys.readouterr().err
    assert len(requests_in(tmp_path / "moved")) == 1


def test_a_plan_that_fails_leaves_the_earlier_one(tmp_path, capsys):
    """A paid answer to the earlier plan is still known."""
    (tmp_path / "a.csv").write_text("prompt\nFilm one:\n")
    flags = ["--labels=negative,positive", "--model=m", f"--workdir={tmp_path / 'W'}"]
    cli.run(["requests", f"--prompts={tmp_path}/a.csv", *flags])
    file = write(tmp_path / "a.jsonl", map(line_of, requests_in(tmp_path / "W")))
    (tmp_path / "b.csv").write_text("prompt\nFilm two:\n")
    (tmp_path / "c.csv").write_text("prompt\n \n")
    for dry_run in ([], ["--dry-run"]):
        with pytest.raises(SystemExit):
            cli.run(["requests", f"--prompts={tmp_path}/b.csv,{tmp_path}/c.csv", *flags, *dry_run])
    cli.run(["answers", str(tmp_path / "W"), file])
    assert "1 new" in capsys.readouterr().out and "a" in tables_of(tmp_path / "W")


def test_a_second_plan_names_answers_that_are_still_out(asked, tmp_path, capsys):
    write_requests(tmp_path / "W")
    capsys.readouterr()
    write_requests(tmp_path / "W", "--top_logprobs=5")
    error = " ".join(capsys.readouterr().err.split())
    assert f"{len(asked[1])} requests of an earlier plan have no answer yet" in error


def test_an_engine_that_refuses_everything_settles_nothing(asked, tmp_path, capsys):
    table, requests = asked
    write_requests(tmp_path / "W")
    wrong = {"status_code": 400, "body": {"error": {"message": "no such model"}}}
    lines = [line_of(request, response=wrong) for request in requests]
    with pytest.raises(SystemExit):
        cli.run(["answers", str(tmp_path / "W"), write(tmp_path / "a.jsonl", lines)])
    out = capsys.readouterr().out
    assert "no such model" in out and "0 answered, 0 refused" in out
    cli.run(["requests", f"--workdir={tmp_path / 'W'}"])
    assert len(requests_in(tmp_path / "W")) == len(requests)
    answers = write(tmp_path / "b.jsonl", map(line_of, requests))
    cli.run(["answers", str(tmp_path / "W"), answers, str(tmp_path / "a.jsonl")])
    assert_same(tables_of(tmp_path / "W")["sst2"], table)


def test_files_of_prompts_are_contexts(tmp_path, capsys):
    for name, gold in (("one", "positive"), ("two", "")):
        rows = [f'{i},"Film {name} {i}, {{x}} %:",{gold}' for i in range(4)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,prompt,label", *rows]))
    flags = [f"--prompts={tmp_path}/*.csv", "--labels=negative,positive", "--model=m"]
    workdir = tmp_path / "W"
    cli.run(["requests", *flags, f"--workdir={workdir}", "--dry-run"])
    assert not workdir.exists() and "8 requests" in capsys.readouterr().out
    cli.run(["requests", *flags, f"--workdir={workdir}"])
    file = write(tmp_path / "a.jsonl", map(line_of, requests_in(workdir)))
    cli.run(["answers", str(workdir), file])
    tables = tables_of(workdir)
    assert tables["one"].blocks["test"].labels.tolist() == [1, 1, 1, 1]
    assert tables["two"].blocks["test"].labels.tolist() == [-1] * 4
    cli.run(["diagnose", str(workdir)])
    with running() as server:
        ask = ["ask", f"{tmp_path}/one.csv", f"--server={server.address}", "--model=m"]
        cli.run([*ask, "--labels=negative,positive", f"--output={tmp_path}/asked.csv"])
    cli.run(["convert", f"{tmp_path}/asked.csv", f"--output={tmp_path}/asked.safetensors"])
    directly = read(tmp_path / "asked.safetensors")[0].blocks["test"]
    np.testing.assert_allclose(tables["one"].blocks["test"].log_probs, directly.log_probs)


def test_rows_of_ray_and_of_sglang_are_read(tmp_path):
    from pyarrow import Table, parquet

    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(json.dumps({"prompt": f"Film {i}:"}) for i in range(5)))
    flags = [f"--prompts={prompts}", "--labels=negative,positive", "--model=m"]
    cli.run(["requests", *flags, "--form=ray", f"--workdir={tmp_path / 'R'}"])
    (file,) = (tmp_path / "R/requests").glob("*.parquet")
    rows = parquet.read_table(file).to_pylist()
    assert rows[0]["sampling_params"] == {"logprobs": 20, "max_tokens": 1, "temperature": 0}
    answers = []
    for row in rows:
        tops = answer("/v1/chat/completions", row)["choices"][0]["logprobs"]["content"][0]
        ids = {}
        for i, top in enumerate(tops["top_logprobs"]):
            ids[i] = {"logprob": top["logprob"], "rank": i + 1, "decoded_token": top["token"]}
        own = {"outputs": [{"logprobs": [ids]}]}
        answers.append({"custom_id": row["custom_id"], "answer": json.dumps(own)})
    parquet.write_table(Table.from_pylist(answers), tmp_path / "answers.parquet")
    cli.run(["answers", str(tmp_path / "R"), str(tmp_path / "answers.parquet")])
    cli.run(["requests", *flags, f"--workdir={tmp_path / 'W'}"])
    file = write(tmp_path / "a.jsonl", map(line_of, requests_in(tmp_path / "W")))
    cli.run(["answers", str(tmp_path / "W"), file])
    assert_same(tables_of(tmp_path / "R")["prompts"], tables_of(tmp_path / "W")["prompts"])
    labels = [f"--prompts={prompts}", "--labels=yes,no", "--model=m", "--tokenizer=mini"]
    cli.run(["requests", *labels, "--form=sglang", f"--workdir={tmp_path / 'S'}"])
    scored = []
    for request in requests_in(tmp_path / "S"):
        assert request["url"] == "/v1/score"
        scored.append({"custom_id": request["custom_id"], **answer("/v1/score", request["body"])})
    cli.run(["answers", str(tmp_path / "S"), write(tmp_path / "s.jsonl", scored)])
    assert len(tables_of(tmp_path / "S")["prompts"].blocks["test"].row_ids) == 5


REFUSED = {
    "form": (["--form=tgi"], "--form"),
    "protocol": (["--form=vllm", "--api_scores=echo"], "--api_scores: expected chat"),
    "size": (["--shard-size=0"], "--shard-size: expected 1 request or more"),
    "labels alone": (["--labels=a,b"], "--labels: expected --prompts=FILE with this flag"),
    "one label": (["--prompts=p.csv", "--labels=a"], "--labels: expected two or more"),
    "both": (
        ["--prompts=p.csv", "--labels=a,b", "--tasks=sst2"],
        "--prompts: expected no settings",
    ),
    "no file": (["--prompts=none.csv", "--labels=a,b"], "none.csv: expected"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_mistakes_of_requests_are_sentences(name, tmp_path, capsys):
    flags, sentence = REFUSED[name]
    with pytest.raises(SystemExit):
        cli.run(["requests", "--model=m", f"--workdir={tmp_path / 'W'}", *flags])
    assert sentence in capsys.readouterr().err


def test_a_workdir_without_requests_names_the_command(tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.run(["answers", str(tmp_path), "a.jsonl"])
    error = capsys.readouterr().err
    assert "write them by batch-calibration requests" in error and str(tmp_path) in error
    with pytest.raises(SystemExit):
        cli.run(["requests", f"--workdir={tmp_path / 'none'}"])
    assert "of a study (--tasks or --config) or of --prompts=FILES" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_score_without_a_server_names_both_roads(tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.run(["score", *STUDY, "--scorer=api", "--api_scores=chat", f"--workdir={tmp_path}"])
    error = capsys.readouterr().err
    assert "run batch-calibration requests to write them to files, or score with --server" in error

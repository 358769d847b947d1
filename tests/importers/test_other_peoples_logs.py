"""Logs that were cut, mixed or marked in their own way: the right number, or a sentence."""

import gzip
import io
import json
import re
import zipfile
from itertools import product

import log_forms
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from reading_files import notes, read_one

from batch_calibration.errors import InputError
from batch_calibration.importers import Reading, compressed, read

LABELS = ("no", "yes")


def refused(path, **reading):
    with pytest.raises(InputError) as error:
        read(path, Reading(**reading))
    return error.value


def rows_in(path, **reading):
    """The test rows of the file's only table."""
    return read_one(path, **reading).blocks["test"]


# Keys that stand twice


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.jsonl", '{"no": -1.0, "yes": -2.0, "no": -9.0}'),
        ("a.json", '[{"no": -1.0, "yes": -2.0},\n{"no": -3.0, "yes": -2.0, "yes": -1.0}]'),
        ("samples_t.jsonl", '{"doc_id": 0, "doc": {}, "target": 0, "target": 1, "arguments": 1}'),
        ("a.jsonl", '{"choices": [{"logprobs": {"top_logprobs": [{"no": -1, "no": -2}]}}]}'),
        ("a.json", '{"version": 2, "status": "success", "eval": {"task": "a", "task": "b"}}'),
        ("a.json", '{"adapter_spec": {"method": "a"}, "adapter_spec": {"method": "b"}}'),
    ],
)
def test_a_key_that_stands_twice_is_refused(saved, name, line):
    """Python keeps the last of the two without a word."""
    error = refused(saved(line, name), labels=LABELS)
    assert error.expected == "each key once" and error.got.endswith(" twice")


# Saved answers of servers


def echo(question, label, nats, **index):
    """A choice whose prompt was scored with its label."""
    log_probs = {"tokens": [f"{question}:", f" {label}"], "token_logprobs": [None, nats]}
    return {"text": "", "logprobs": log_probs, **index}


def echoes(cell, n=6, labels=LABELS, right=lambda i: i % 2):
    """Lines of n questions and each label; `cell` says what a line has beside its answer."""
    lines = []
    for i, (j, label) in product(range(n), enumerate(labels)):
        choice = echo(f"Q{i}", label, -1.0 - (j == right(i)) - i / 99)
        lines.append(completions(choice, right=cell(j, right(i))))
    return lines


CELLS = {
    "flag": lambda j, right: int(j == right),
    "flag of JSON": lambda j, right: j == right,
    "flag as text": lambda j, right: "true" if j == right else "False",
    "flag with a point": lambda j, right: float(j == right),
    "index": lambda j, right: right,
    "index as text": lambda j, right: str(right),
    "name": lambda j, right: f" {LABELS[right]}",
}


@pytest.mark.parametrize("kind", CELLS)
def test_gold_of_echoes_is_a_flag_an_index_or_a_name(saved, kind):
    """Fields that differ between the lines of a prompt are flags; shared fields name the label."""
    path = saved(echoes(CELLS[kind]))
    assert rows_in(path, labels=LABELS, gold="right").labels.tolist() == [0, 1] * 3
    expected = [0, 1] * 3 if kind.startswith("index") else [1, 0] * 3
    assert rows_in(path, labels=LABELS[::-1], gold="right").labels.tolist() == expected


def test_flags_of_three_labels_some_of_which_are_not_known(saved):
    labels = (*LABELS, "maybe")
    lines = echoes(CELLS["flag"], 4, labels, right=lambda i: (2, 0, 1, 2)[i])
    for line in lines[3:6]:
        line["right"] = None
    assert rows_in(saved(lines), labels=labels, gold="right").labels.tolist() == [2, -1, 1, 2]


@pytest.mark.parametrize(
    ("cell", "got"),
    [
        (lambda j, _: LABELS[j], "the name of the label that the line itself scores"),
        (lambda j, _: j, "the index of the label that the line itself scores"),
        (lambda j, right: int(right and j == 1), "[0, 0]"),
        (lambda j, right: int(not right or j == 1), "[1, 1]"),
        (lambda j, right: 2 * (j == right), "[2, 0]"),
        (lambda j, right: LABELS[j == right], "['yes', 'no']"),
    ],
)
def test_gold_of_echoes_that_is_neither_flag_nor_label_is_refused(saved, cell, got):
    error = refused(saved(echoes(cell)), labels=LABELS, gold="right")
    assert "right" in error.expected and error.got.startswith(got)


def test_lines_of_one_prompt_are_of_one_context(saved):
    path = saved(echoes(CELLS["flag"]))
    error = refused(path, labels=LABELS, by=("right",))
    assert "'right'" in error.expected and error.got == "[1, 0]"


def completions(*choices, new=0, **fields):
    """The response to a request of several prompts, each a choice."""
    response = {"model": "m", "choices": list(choices), "usage": {"completion_tokens": new}}
    return {**fields, "response": response}


def first_list(index, **log_probs):
    """A choice with the likeliest first tokens."""
    logprobs = {"tokens": ["no"], "token_logprobs": [-1.0], "top_logprobs": [log_probs]}
    return {"text": "no", "logprobs": logprobs, "index": index}


def test_prompts_of_one_request_are_read_by_their_index(saved):
    """Batches of prompts come back in any order; a list beside them has a member for each."""
    first = first_list(1, no=-2.0, yes=-0.5), first_list(0, no=-0.25, yes=-3.0)
    second = first_list(0, no=-1.0, yes=-0.75), first_list(1, no=-0.5, yes=-4.0)
    lines = [completions(*first, right=["no", "yes"]), completions(*second, right=["yes", "no"])]
    block = rows_in(saved(lines), labels=LABELS, gold="right")
    expected = [[-0.25, -3.0], [-2.0, -0.5], [-1.0, -0.75], [-0.5, -4.0]]
    assert block.log_probs.tolist() == expected
    assert block.labels.tolist() == [0, 1, 1, 0] and block.row_ids == tuple("0123")
    lines[1]["right"] = "yes"
    error = refused(saved(lines), labels=LABELS, gold="right")
    assert error.expected.startswith("a list of 2 right labels") and error.got == "'yes'"


def test_echoes_of_one_request_have_a_flag_each_or_one_gold_for_one_prompt(saved):
    choices = [echo("Q", "yes", -1.0, index=1), echo("Q", "no", -2.0, index=0)]
    others = echo("P", "no", -3.0, index=0), echo("P", "yes", -4.0, index=1)
    right_response = completions(*others, right=[1, 0])
    for right, labels in (([0, 1], [1, 0]), ("yes", None), (1, None)):
        lines = [completions(*choices, right=right), right_response]
        block = rows_in(saved(lines if labels else lines[:1]), labels=LABELS, gold="right")
        assert block.log_probs[0].tolist() == [-2.0, -1.0]
        assert block.labels.tolist() == (labels or [1])
    more = [echo("R", "no", -2.0, index=2), echo("R", "yes", -3.0, index=3)]
    path = saved([completions(*choices, *more, right=1)])
    assert refused(path, labels=LABELS, gold="right").got == "1 for several prompts"


NO, YES = echo("Q", "no", -1.0, index=0), echo("Q", "yes", -1.0, index=1)


@pytest.mark.parametrize(
    ("choices", "new", "expected"),
    [
        ((first_list(0, no=-1.0, yes=-2.0), first_list(1, no=-1.01, yes=-2.0)), 2, "one choice"),
        ((echo("Q", "no", -1.0), echo("Q", "no", -1.0)), 0, "one choice for each prompt"),
        ((NO, {**YES, "index": 0}), 0, "choices with the indices 0"),
        ((NO, echo("Q", "yes", -1.0)), 0, "choices with the indices 0"),
        ((NO, YES), 3, "the same number of new tokens"),
    ],
)
def test_choices_that_are_not_plainly_prompts_are_refused(saved, choices, new, expected):
    path = saved([completions(*choices, new=new)])
    assert refused(path, labels=LABELS).expected.startswith(expected)


def chat(no, yes, **fields):
    tops = [{"token": "no", "logprob": no}, {"token": "yes", "logprob": yes}]
    choice = {"message": {"content": "x"}, "logprobs": {"content": [{"top_logprobs": tops}]}}
    return {"model": "m", "choices": [choice], **fields}


def test_several_answers_of_a_chat_are_noted(saved):
    lines = [chat(-0.5, -1.0), chat(-2.0, -1.5)]
    lines[1]["choices"] *= 3
    table = read_one(saved(lines), labels=LABELS)
    assert table.blocks["test"].log_probs.tolist() == [[-0.5, -1.0], [-2.0, -1.5]]
    assert "1 of 2 responses hold several answers to one prompt" in notes(table)


def test_prompt_log_probs_of_several_prompts_of_vllm_are_each_read(saved):
    choices = []
    for name, nats in (("no", -1.0), ("yes", -2.5)):
        token_place = {"7": {"logprob": nats, "decoded_token": f" {name}"}}
        choices.append({"text": "", "prompt_logprobs": [None, token_place]})
    block = rows_in(saved([completions(*choices)]), labels=LABELS)
    assert block.log_probs.tolist() == [[-1.0, -2.5]]


def sglang(no, yes):
    return {"text": "", "meta_info": {"output_top_logprobs": [[[no, 1, "no"], [yes, 2, "yes"]]]}}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_lists_of_responses_are_no_pairs_of_request_and_response(saved, size):
    """SGLang answers several texts by a list; a list of 2 or 3 was read as one response."""
    numbers = [(-1.0 - i, -2.0 + i / 4) for i in range(2 * size)]
    batches = [[sglang(*pair) for pair in numbers[at : at + size]] for at in (0, size)]
    for lines in (batches, [batches[0] + batches[1]]):
        found = rows_in(saved(lines), labels=LABELS).log_probs.tolist()
        assert found == [list(pair) for pair in numbers]


FAILED = {"custom_id": "x", "response": {"status_code": 429, "body": {"error": {"message": "no"}}}}


@pytest.mark.parametrize(
    "failed",
    [
        FAILED,
        {"error": {"message": "overloaded"}},
        {"custom_id": "x", "response": None, "error": {"code": "expired"}},
        {"response": {"status_code": 500, "body": "busy"}},
        [{"model": "m"}, {"error": "timeout"}],
        {"choices": [{"finish_reason": "content_filter", "message": {"content": None}}]},
        {"choices": [{"message": {"refusal": "No"}, "logprobs": {"content": None}}]},
    ],
)
def test_requests_that_failed_are_left_out_with_a_note(saved, failed):
    path = saved([chat(-0.5, -1.0), failed, chat(-2.0, -1.5, right="yes"), failed])
    table = read_one(path, labels=LABELS)
    assert table.blocks["test"].log_probs.tolist() == [[-0.5, -1.0], [-2.0, -1.5]]
    assert table.blocks["test"].row_ids == ("0", "2")
    assert "2 of 4 requests failed and are left out; the first is" in notes(table)
    error = refused(saved([failed, failed]), labels=LABELS, format="openai")
    assert "2 of 2 requests failed" in str(error)


def test_prompts_of_which_a_request_failed_are_left_out_with_a_note(saved):
    lines = echoes(CELLS["flag"], 4)
    lines[2] = FAILED
    table = read_one(saved(lines), labels=LABELS, gold="right")
    assert table.blocks["test"].labels.tolist() == [0, 0, 1]
    assert table.blocks["test"].row_ids == ("0", "2", "3")
    assert "1 of 4 prompts lack a" in notes(table)
    assert "not of 'no'" in str(refused(saved(lines[:2] + lines[3:]), labels=LABELS))


# Inspect: where the answer stands


def top(**log_probs):
    return [{"token": token, "logprob": nats} for token, nats in log_probs.items()]


def sample(i, text, score=True, answer=""):
    """A model's answer, a token a word or sign; scores of letters differ from place to place.

    The token in place p has A with -p - 0.5 nats and B with -p - 1.
    """
    tokens = []
    for index, token in enumerate(re.findall(r"\s*(?:\w+|[^\w\s])", text)):
        likely = top(A=-index - 0.5, B=-index - 1.0)
        tokens.append({"token": token, "logprob": -0.1, "top_logprobs": likely})
    scores = {"choice": {"value": "I", "answer": answer}} if score else {}
    output = {"choices": [{"logprobs": {"content": tokens}}]}
    question = {"id": i, "epoch": 1, "choices": ["cat", "dog"], "target": "A"}
    return question | {"scores": scores, "output": output}


def inspect(samples):
    return json.dumps({"version": 2, "status": "success", "eval": {}, "samples": samples})


@pytest.mark.parametrize(
    ("position", "texts"),
    [
        (0, ["B", "B) dog", "B. I say B"]),
        (2, ["ANSWER: B. A reason", "ANSWER: B\n\nA dog barks"]),
        (2, ["answer: b.", "ANSWER: A\nANSWER: B"]),
        (3, ["Answer: (B), not A", "The choice is B."]),
        (4, ["**ANSWER: B**", "Cat or dog? B"]),
        (9, ["It may be A or B.\nANSWER: A", "I say ANSWER: A, but\nANSWER: B"]),
    ],
)
def test_inspect_s_answer_is_the_one_that_its_scorers_take(saved, position, texts):
    for text in texts:
        samples = [sample(0, text), sample(1, text, score=False)]
        found = rows_in(saved(inspect(samples), "t.json")).log_probs.tolist()
        assert found == [[-position - 0.5, -position - 1.0]] * 2, text


@pytest.mark.parametrize(
    ("text", "answer", "position"),
    [
        ("A is wrong. B is right", "B", 4),
        ("ANSWER: A dog", "A", 2),
        ("A is wrong. B is right", "", None),
        ("ANSWER: A dog", "", None),
        ("A. No, B.", "", None),
        ("Hm, cat", "", None),
        ("ANSWER: A", "B", None),
    ],
)
def test_inspect_s_answer_without_a_place_is_left_out_with_a_note(saved, text, answer, position):
    samples = [sample(0, "ANSWER: B"), sample(1, text, answer=answer), sample(2, "ANSWER: A")]
    table = read_one(saved(inspect(samples), "t.json"))
    expected = [2, 2] if position is None else [2, position, 2]
    assert table.blocks["test"].log_probs[:, 0].tolist() == [-at - 0.5 for at in expected]
    is_noted = "1 of 3 samples name no answer, or several" in notes(table)
    assert is_noted == (position is None)


def test_inspect_s_log_in_which_no_answer_has_a_place_is_refused(saved):
    samples = [sample(i, "A is wrong. B is right.") for i in range(3)]
    assert refused(saved(inspect(samples), "t.json")).got == "none in 3 samples"


def test_inspect_s_answers_that_are_no_label_have_the_place_of_the_others(saved):
    """A model that answers at once has its answer in the first place, whatever it says."""
    samples = [sample(0, "B"), sample(1, "Cat, sure!"), sample(2, "A")]
    samples[0]["output"]["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = top(A=-2, B=-1)
    block = rows_in(saved(inspect(samples), "t.json"))
    assert block.log_probs[:, 0].tolist() == [-2.0, -0.5, -0.5]


# Files that unpack to far more than they hold


def zipped(contents):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def as_npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.fixture
def small_limit(monkeypatch):
    """A file may unpack to a mebibyte."""
    monkeypatch.setattr(compressed, "MAX_UNPACKED", 1 << 20)


MANY = 1 << 18
BOMBS = {
    "a.npz": lambda: zipped({"scores.npy": as_npy(np.zeros((MANY // 2, 2)))}),
    "a.eval": lambda: zipped({"header.json": " " * (8 * MANY), "samples/1_epoch_1.json": "{}"}),
    "a.parquet": pd.DataFrame(np.full((MANY, 2), -1.0), columns=LABELS).to_parquet,
    "a.csv.gz": lambda: gzip.compress(b"0" * (8 * MANY)),
    "a.csv.zst": lambda: pa.compress(b"0" * (8 * MANY), codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused(saved, small_limit, name):
    path = saved(BOMBS[name](), name)
    error = refused(path)
    assert error.where == str(path) and "unpacks to at most 0.000977 GiB" in error.expected


def test_a_table_that_compresses_well_is_read(saved, small_limit):
    scores = np.log(np.random.default_rng(0).dirichlet([1, 1], 50_000)).round(1)
    path = saved(zipped({"scores.npy": as_npy(scores)}), "a.npz")
    assert len(rows_in(path).log_probs) == 50_000


@pytest.mark.parametrize("declared", [100, 1 << 40])
@pytest.mark.parametrize(("name", "kind"), [("a.npz", "file of arrays"), ("a.eval", "log")])
def test_a_zip_that_declares_another_size_is_refused(saved, name, kind, declared):
    """A header that says 100 bytes opens no gigabyte, nor does one that says a tebibyte."""
    data = bytearray(BOMBS[name]())
    for mark, at in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        start = data.index(mark) + at
        data[start : start + 4] = (declared % (1 << 32) or (1 << 32) - 2).to_bytes(4, "little")
    expected = f"an intact {kind}" if declared == 100 else f"a file of {len(data):,} bytes that unp"
    assert refused(saved(bytes(data), name), labels=LABELS).expected.startswith(expected)


def test_an_array_whose_header_declares_more_than_the_file_holds_is_refused(saved):
    data = as_npy(np.log(np.full((4, 2), 0.5)))
    for count in (40, 10**9, 10**15):
        shape = f"({count}, 2), }}".ljust(29).encode()
        declared = data.replace(b"(4, 2), }" + b" " * 20, shape)
        assert len(declared) == len(data) and declared != data
        for path in (saved(declared, "a.npy"), saved(zipped({"scores.npy": declared}), "a.npz")):
            assert refused(path).expected == "an intact file of arrays"


def test_zstandard_that_holds_more_than_the_zip_declares_is_refused(saved):
    content = json.dumps(sample(0, "ANSWER: A")).encode()
    data = pa.compress(content + b" " * 10_000_000, codec="zstd", asbytes=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("samples/0_epoch_1.json", data)
        archive.infolist()[0].compress_type, archive.infolist()[0].file_size = 93, len(content)
    assert "unpacks to more than" in str(refused(saved(buffer.getvalue(), "a.eval")))


# Logs of lm-evaluation-harness that were cut or mixed


def harness(i, shift=0.0, doc=None, **more):
    """A line of a log; `doc` is the number of its document, where it is not that of the line."""
    doc = i if doc is None else doc
    scores = -1.0 - doc / 8 - shift, -2.0 + doc / 16 - shift
    known = {"doc_id": i, "doc": {"question": doc}, "doc_hash": f"h{doc}"} | more
    return log_forms.since_0_4_9(log_forms.row(doc, scores, target=doc % 2, **known))


OTHER = [["other", " no"], ["other", " yes"]]
NAME = "samples_t_2026-01-02T03-04-05.6.jsonl"


def results(path, **counts):
    content = {"results": {}, "configs": {"t": {}}, "n-samples": {"t": counts}}
    path.with_name("results_2026-01-02T03-04-05.6.json").write_text(json.dumps(content))


@pytest.mark.parametrize(("rows", "count"), [(6, 10), (10, 6), (10, 10)])
def test_a_log_that_holds_other_rows_than_its_results_count_is_noted(saved, rows, count):
    """A log that is cut at the end of a line looks whole."""
    path = saved(map(harness, range(rows)), NAME)
    results(path, original=1000, effective=count)
    table = read_one(path)
    assert len(table.blocks["test"].labels) == rows
    is_noted = f"holds {rows} rows, but {count} were evaluated according to" in notes(table)
    assert is_noted == (rows != count)


@pytest.mark.parametrize(
    ("rows", "got"),
    [
        (lambda i: harness(i, 3.0, doc=i - 8), "different scores for the doc_ids 0 and 8"),
        (lambda i: harness(i, doc=i - 8, arguments=OTHER), "8 of 16 rows that repeat a document"),
        (lambda i: harness(i, task="b", model="m"), "b m"),
        (lambda i: harness(i, model="n"), "n"),
        (lambda i: harness(i - 8, 3.0, doc_hash=""), ""),
    ],
)
def test_two_logs_in_one_file_are_refused(saved, rows, got):
    """Ids that repeat or go on, matched by prompts, by documents, or by their fields."""
    lines, rows = [harness(i) for i in range(8)], [rows(i) for i in range(8, 16)]
    if "model" in rows[0]:
        lines = [{**line, "task": "a", "model": "m"} for line in lines]
    assert refused(saved(lines + rows, NAME)).got.startswith(got)


def test_a_document_that_a_data_set_repeats_is_noted(saved):
    lines = [*map(harness, range(12)), harness(12, 0.01, doc=3)]
    table = read_one(saved(lines, NAME))
    assert len(table.blocks["test"].labels) == 13
    assert "1 of 13 rows repeat the document of another" in notes(table)
    without = [{**line, "doc": {}, "doc_hash": ""} for line in lines[:12]]
    assert "the document of" not in notes(read_one(saved(without, NAME)))


# Numbers that are no log-probabilities


def losses(kind, nats):
    """A file of a kind that has a loss in place of a log-probability."""
    if kind == "lm_eval":
        return [harness(0), {**harness(1), "filtered_resps": [[str(nats), "False"], ["-1", ""]]}]
    if kind == "echo":
        return [completions(echo("Q", "no", -1.0)), completions(echo("Q", "yes", nats))]
    if kind == "sglang":
        return [sglang(-1.0, -2.0), sglang(-3.0, nats)]
    return [chat(-1.0, -2.0), chat(-1.0, nats)]


@pytest.mark.parametrize("kind", ["lm_eval", "echo", "chat", "sglang"])
def test_a_log_probability_above_0_is_refused(saved, kind):
    path = saved(losses(kind, 1.5), NAME if kind == "lm_eval" else "a.jsonl")
    error = refused(path, labels=LABELS)
    assert error.expected == "a log-probability in nats, which is at most 0" and error.got == "1.5"
    near = 0.004 if kind in ("lm_eval", "echo") else -1.0  # the tokens of a list sum to 1
    assert read(saved(losses(kind, near), path.name), Reading(labels=LABELS))


def test_whole_numbers_of_hundreds_of_digits_are_a_sentence(saved):
    run = json.loads(json.dumps(log_forms.VALUES["helm"]))
    (completion,) = run["request_states"][0]["result"]["completions"]
    completion["tokens"][-1]["logprob"] = 10**400
    path = saved(json.dumps(run), "scenario_state.json")
    assert refused(path).expected == "a log-probability in nats"

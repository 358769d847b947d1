"""Scores of labels wherever a row holds them: one matrix in many forms, against numpy."""

import json
from dataclasses import make_dataclass
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from batch_calibration.importers import Reading, read, tables_of

RANDOM = np.random.default_rng(3)
N = 20
PROBS = RANDOM.dirichlet(np.ones(3), N)[:, :2].round(6)  # the rest is of another token
LOGS = np.log(PROBS)
SHARES = (PROBS / PROBS.sum(axis=1, keepdims=True)).round(6)
GOLD = ["yes" if i % 3 else "no" for i in range(N)]
LABELS = ("yes", "no")
IDS = {"yes": 9642, "no": 2822}
BY_LABELS = {"labels": LABELS}
BY_PROBS = {"from_probs": True}
BY_IDS = {"labels": LABELS, "tokens": {name: (f"token_id:{i}",) for name, i in IDS.items()}}


def logs(i, form="{}"):
    return {form.format(name): float(x) for name, x in zip(LABELS, LOGS[i], strict=True)}


def shares(i):
    return {name: float(x) for name, x in zip(LABELS, SHARES[i], strict=True)}


def top(i, token="token", logprob="logprob", form="{}"):
    listed = [{token: name, logprob: x, "rank": 1} for name, x in logs(i, form).items()]
    return sorted(listed, key=lambda entry: -entry[logprob])


def ranked(i, name="label", score="score"):
    listed = [{name: label, score: x} for label, x in shares(i).items()]
    return sorted(listed, key=lambda entry: -entry[score])


def by_id(i):
    names = {str(IDS[name]): {"logprob": x, "decoded_token": name} for name, x in logs(i).items()}
    return {**names, "5": {"logprob": -9.0, "rank": 3, "decoded_token": " the"}}


def likeliest(i):
    return LABELS[LOGS[i].argmax()]


def position(i, token="token", logprob="logprob", tops="top_logprobs", form="{}"):
    listed = top(i, token, logprob, form)
    return {**listed[0], tops: listed}


def said(text):
    return {"token": text, "logprob": -0.01, "top_logprobs": [{"token": text, "logprob": -0.01}]}


def thinking(i):
    return [
        *map(said, ("<think>", "yes", " or", " no", "</think>", "\n", "Answer", ":")),
        position(i),
    ]


def behind_a_text(i):
    listed = {n: {**e, "decoded_token": f" {e['decoded_token']}"} for n, e in by_id(i).items()}
    rival = {"2": {"logprob": -0.2, "decoded_token": "no"}}
    first = {"1": {"logprob": -2.0, "decoded_token": "Answer"}, **rival}
    colon = {"3": {"logprob": -0.1, "decoded_token": ":"}}
    return {"text": f"Answer: {likeliest(i)}", "logprobs": [first, colon, listed]}


FORMS = {
    "vllm": (lambda i: {"text": "x", "logprobs": [by_id(i)]}, BY_LABELS),
    "vllm, deeper": (lambda i: {"out": {"samples": [{"logprobs": [by_id(i)]}]}}, BY_LABELS),
    "vllm, one dict": (lambda i: {"first_token_logprobs": by_id(i)}, BY_LABELS),
    "vllm, behind a text": (behind_a_text, BY_LABELS),
    "ids": (lambda i: {"lp": [{str(IDS[n]): x for n, x in logs(i).items()}]}, BY_IDS),
    "ids, bare": (lambda i: {"x": {"lp": {str(IDS[n]): x for n, x in logs(i).items()}}}, BY_IDS),
    "langchain": (
        lambda i: {"kwargs": {"response_metadata": {"logprobs": {"content": [position(i)]}}}},
        BY_LABELS,
    ),
    "langchain, twice": (
        lambda i: {"generations": [[{"generation_info": {"logprobs": {"content": [position(i)]}},
                                    "message": {"logprobs": {"content": [position(i)]}}}]]},
        BY_LABELS,
    ),
    "thinking": (lambda i: {"answer": "x", "logprobs": {"content": thinking(i)}}, BY_LABELS),
    "nested chat": (
        lambda i: {"result": {"choices": [{"logprobs": {"content": [position(i)]}}]}}, BY_LABELS),
    "dspy": (
        lambda i: {"outputs": [{"logprobs": {"tokens": ["x"], "top_logprobs": [logs(i, " {}")]}}]},
        BY_LABELS,
    ),
    "tgi": (
        lambda i: {"details": {"prefill": [{"id": 1, "text": "yes", "logprob": -3.0}] * 2,
                               "tokens": [{"id": 3, "text": likeliest(i), "logprob": -0.5}],
                               "top_tokens": [top(i, "text")]}},
        BY_LABELS,
    ),
    "unitxt": (
        lambda i: {"prediction": [position(i, "text", tops="top_tokens", form="▁{}")]}, BY_LABELS),
    "ai21": (
        lambda i: {"completions": [{"data": {"tokens": [
            {"generatedToken": {"token": "▁yes", "logprob": -0.1}, "topTokens": top(i)}]}}]},
        BY_LABELS,
    ),
    "ids beside texts": (lambda i: {"lp": [by_id(i)]}, BY_IDS),
    "other keys": (lambda i: {"head": {"options": top(i, "word", "lp")}}, BY_LABELS),
    "pairs": (lambda i: {"top": [[name, x] for name, x in logs(i).items()]}, BY_LABELS),
    "flair": (lambda i: {"labels": ranked(i, "value", "confidence")}, BY_PROBS),
    "rasa": (
        lambda i: {"intent": {"name": "yes", "confidence": 0.6},
                   "intent_ranking": ranked(i, "name", "confidence"), "entities": []},
        BY_PROBS,
    ),
    "nested pipeline": (lambda i: {"result": [ranked(i)], "ms": 3.5}, BY_PROBS),
    "nested dict": (lambda i: {"result": {"probabilities": shares(i), "cost": 0.2}}, BY_PROBS),
    "nested lists": (
        lambda i: {"result": {"labels": [*LABELS], "scores": SHARES[i].tolist(), "sequence": "q"}},
        BY_PROBS,
    ),
    "classify": (
        lambda i: {"data": [{"index": 0, "label": likeliest(i), "probs": SHARES[i].tolist()}],
                   "usage": {"prompt_tokens": 9}},
        BY_PROBS,
    ),
    "classify, flat": (
        lambda i: {"prediction": likeliest(i), "probs": SHARES[i].tolist()},
        {**BY_PROBS, "labels": ("no", "yes")},
    ),
    "jsonlite": (lambda i: {name: [x] for name, x in logs(i).items()}, {}),
    "jsonlite, nested": (lambda i: {"s": {name: [x] for name, x in logs(i).items()}}, BY_LABELS),
    "numbers beside text": (lambda i: {"s": {**logs(i), "text": "x"}}, BY_LABELS),
}  # fmt: skip


def check(table, scores=None):
    block, expected = table.blocks["test"], LOGS if scores is None else scores
    order = [LABELS.index(name) for name in table.label_names]
    centered = expected - expected.mean(axis=1, keepdims=True)
    ours = np.asarray(block.log_probs, np.float64)[:, np.argsort(order)]
    np.testing.assert_allclose(ours - ours.mean(axis=1, keepdims=True), centered, atol=1e-4)
    assert [table.label_names[label] for label in block.labels] == GOLD[: len(ours)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gold", ["first", "last"])
def test_rows_of_json(saved, form, gold):
    make, said_of = FORMS[form]
    rows = [{"gold": GOLD[i], **make(i)} for i in range(N)]
    rows = rows if gold == "first" else [{**make(i), "gold": GOLD[i]} for i in range(N)]
    (table,) = read(saved(rows), Reading(gold="gold", **said_of))
    check(table)


WRITERS = {
    "csv, json": lambda frame, path: frame.map(
        lambda cell: cell if isinstance(cell, str) else json.dumps(cell)).to_csv(path, index=False),
    "csv, python": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: parquet.write_table(pa.Table.from_pandas(frame), path),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("writer", [*WRITERS, "frame"])
def test_cells_of_tables(tmp_path, form, writer):
    if writer == "parquet" and form == "pairs":
        return  # Arrow has no lists of several kinds
    make, said_of = FORMS[form]
    frame = pd.DataFrame([{**make(i), "gold": GOLD[i]} for i in range(N)])
    reading = Reading(gold="gold", **said_of)
    if writer == "frame":
        (table,) = tables_of(frame, reading)
    else:
        path = tmp_path / f"t.{writer[:3] if 'csv' in writer else writer}"
        WRITERS[writer](frame, path)
        (table,) = read(path, reading)
    check(table)


def test_python_objects_and_their_reprs(tmp_path):
    Logprob = make_dataclass("Logprob", ["logprob", "rank", "decoded_token"])
    cells = []
    for i in range(N):
        listed = {7 + j: Logprob(x, j, name) for j, (name, x) in enumerate(logs(i).items())}
        cells.append([listed])
    frame = pd.DataFrame({"gold": GOLD, "logprobs": cells})
    check(*tables_of(frame, Reading(gold="gold", **BY_LABELS)))
    frame.to_csv(tmp_path / "t.csv", index=False)
    check(*read(tmp_path / "t.csv", Reading(gold="gold", **BY_LABELS)))


def test_arrays_that_numpy_writes_into_cells(tmp_path):
    frame = pd.DataFrame({"gold": GOLD, "probs": [str(row) for row in SHARES]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    check(*read(tmp_path / "t.csv", Reading(gold="gold", labels=LABELS, **BY_PROBS)))


# Rows that lack an answer, and rows with several


def test_a_row_without_candidates_lacks_its_scores(saved, refuses):
    make, said_of = FORMS["vllm"]
    rows = [{**make(i), "gold": GOLD[i]} for i in range(N)]
    rows[4]["logprobs"] = None
    path = saved(rows)
    assert "row 4" in str(refuses(read, path, Reading(gold="gold", **said_of)))
    (table,) = read(path, Reading(gold="gold", missing="drop", **said_of))
    np.testing.assert_allclose(table.blocks["test"].log_probs, np.delete(LOGS, 4, 0), atol=1e-4)
    assert table.blocks["test"].row_ids[4] == "5"


def test_a_label_that_is_not_listed_lies_below_the_listed_tokens(saved):
    rows = [{**FORMS["vllm"][0](i), "gold": GOLD[i]} for i in range(N)]
    del rows[0]["logprobs"][0][str(IDS["no"])]
    (table,) = read(saved(rows), Reading(gold="gold", missing="least", labels=LABELS))
    assert table.blocks["test"].log_probs[0, 1] < -9.0


def test_an_answer_that_names_no_label_is_left_out(saved):
    rows = [{"logprobs": {"content": thinking(i)}, "gold": GOLD[i]} for i in range(N)]
    rows[4]["logprobs"]["content"] = [*map(said, ("I", " cannot", " say"))]
    (table,) = read(saved(rows), Reading(gold="gold", labels=LABELS))
    assert table.blocks["test"].row_ids[3:5] == ("3", "5")


TWO_ANSWERS = {
    "two keys": lambda i: {"first": [by_id(i)], "second": [by_id((i + 1) % N)]},
    "two samples": lambda i: {"out": [{"logprobs": [by_id(i)]}, {"logprobs": [by_id(1 - i % 2)]}]},
    "without labels": lambda i: {"logprobs": [by_id(i)]},
}


@pytest.mark.parametrize("form", TWO_ANSWERS)
def test_answers_to_several_questions_are_refused(saved, form, refuses):
    labels = () if form == "without labels" else LABELS
    error = refuses(read, saved(list(map(TWO_ANSWERS[form], range(N)))), Reading(labels=labels))
    got = {"two keys": "'first' and 'second'", "two samples": "several"}
    assert error.got == got.get(form, "none, beside the candidates in 'logprobs'")


HARD = {
    "a column": lambda i: {"prediction": likeliest(i)},
    "anthropic": lambda i: {
        "role": "assistant",
        "content": [{"type": "text", "text": f"I think {i}"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9},
    },
}


@pytest.mark.parametrize("form", HARD)
def test_answers_without_numbers_are_refused(saved, form, refuses):
    path = saved([{**HARD[form](i), "gold": GOLD[i]} for i in range(N)])
    for labels in ((), LABELS):
        error = refuses(read, path, Reading(gold="gold", labels=labels))
        assert error.expected == "log-probabilities of the labels"


@pytest.mark.parametrize(
    "cell", ["[" * 5000, "{'a': " * 300, "[1] " * 9, "(x" + "." * 99, "[INST]"]
)
def test_cells_that_only_begin_like_lists_are_texts(saved, cell, refuses):
    rows = [{"prompt": cell, **FORMS["vllm"][0](i), "gold": GOLD[i]} for i in range(N)]
    check(*read(saved(rows), Reading(gold="gold", labels=LABELS)))
    path = saved([{"prompt": cell, "gold": gold} for gold in GOLD])
    assert refuses(read, path, Reading(labels=LABELS)).got == "yes"


# Whole files


def chunk(i, content, **choice):
    chosen = {"index": 0, "delta": {}, "logprobs": content and {"content": content}, **choice}
    return {"id": f"c{i}", "object": "chat.completion.chunk", "choices": [chosen]}


@pytest.mark.parametrize("order", ["in turn", "mixed", "events"])
def test_chunks_of_a_stream_are_one_answer(saved, order):
    pieces = []
    for i in range(N):
        whole = thinking(i)
        usage = {**chunk(i, None), "choices": [], "usage": {"total_tokens": 9}}
        pieces.append([chunk(i, None), chunk(i, whole[:4]), chunk(i, whole[4:]), usage])
    turns = zip(*pieces, strict=True) if order == "mixed" else pieces
    rows = [{**piece, "gold": GOLD[int(piece["id"][1:])]} for turn in turns for piece in turn]
    path = saved(rows)
    if order == "events":
        lines = path.read_text().splitlines()
        path = saved("\n\n".join([f"data: {line}" for line in lines] + ["data: [DONE]"]), "a.txt")
    check(*read(path, Reading(gold="gold", labels=LABELS)))


@pytest.mark.parametrize("orient", ["columns", "list", "split", "records", "index", "table"])
def test_json_of_pandas(tmp_path, orient):
    frame = pd.DataFrame({**dict(zip(LABELS, LOGS.T, strict=True)), "gold": GOLD})
    path = tmp_path / "t.json"
    text = json.dumps(frame.to_dict("list")) if orient == "list" else frame.to_json(orient=orient)
    path.write_text(text)
    check(*read(path, Reading(gold="gold")))


def test_lines_of_fasttext(saved, refuses):
    lines = []
    for i in range(N):
        listed = [f"__label__{entry['label']} {entry['score']}" for entry in ranked(i)]
        lines.append(" ".join(listed))
    (table,) = read(saved("\n".join(lines), "p.txt"), Reading(**BY_PROBS))
    order = [table.label_names.index(name) for name in LABELS]
    np.testing.assert_allclose(table.blocks["test"].log_probs[:, order], np.log(SHARES), atol=1e-4)
    path = saved("\n".join([*lines, "__label__yes"]), "p.txt")
    assert refuses(read, path, Reading(**BY_PROBS)).where.endswith("line 21")


def test_letters_of_byte_level_vocabularies(saved):
    names = {"yes": "æĺ¯", "no": "åĲ¦"}
    rows = []
    for i in range(N):
        tops = [{**entry, "token": names[entry["token"]]} for entry in top(i)]
        rows.append({"choices": [{"logprobs": {"content": [{**tops[0], "top_logprobs": tops}]}}]})
    (table,) = read(saved(rows), Reading(labels=("是", "否")))
    np.testing.assert_allclose(table.blocks["test"].log_probs, LOGS, atol=1e-4)


def test_scores_of_each_choice_as_sglang_selects(saved):
    rows = []
    for i in range(N):
        prompts = [[[None, 25, ":"], [x, 32, f" {name}"]] for name, x in logs(i).items()]
        meta = {"input_token_logprobs": prompts, "normalized_prompt_logprobs": LOGS[i].tolist()}
        rows.append({"meta_info": meta, "choices": [*LABELS], "gold": GOLD[i]})
    check(*read(saved(rows), Reading(gold="gold")))


def test_the_way_of_a_file_of_torch(tmp_path, refuses):
    path = tmp_path / "logits.pt"
    with ZipFile(path, "w") as archive:
        archive.writestr("logits/data.pkl", b"\x80\x02}.")
    assert "numpy.savez" in refuses(read, path).remedy


NAMED = {"labels": LABELS}
SHARED = {
    **dict.fromkeys(("vllm_offline.jsonl", "vllm_map.parquet", "langchain_openai.jsonl"), NAMED),
    **dict.fromkeys(("dspy_list.jsonl", "dspy_prediction.jsonl", "unitxt.jsonl"), NAMED),
    **dict.fromkeys(("flair.jsonl", "rasa.jsonl", "vllm_classify.jsonl"), BY_PROBS),
    **{name: {} for name in ("columns.json", "pandas_to_json.json", "r_jsonlite.jsonl")},
    "dict_in_csv_cell.csv": {},
    "ids_floats.jsonl": BY_IDS,
    "stream.jsonl": NAMED,
    "top_logprobs_cell.csv": {**NAMED, "gold": "label"},
    "byte_level_tokens.jsonl": {"labels": ("是", "否")},
}


@pytest.mark.parametrize("name", SHARED)
def test_forms_of_public_reports(shared, name):
    path = shared / "cases" / "reports" / "K_refused_forms" / name
    (table,) = read(path, Reading(**{"gold": "gold", **SHARED[name]}))
    block = table.blocks["test"]
    scores = np.asarray(block.log_probs, np.float64)
    for moved, share in ((scores, 73.3), (scores - scores.mean(axis=0), 88.3)):
        is_right = moved.argmax(axis=1) == np.asarray(block.labels)
        assert round(100 * is_right.mean(), 1) == share


def test_tokens_with_empty_lists_of_candidates_are_no_candidates(refuses):
    rows = []
    for i in range(12):
        pairs = (("yes", -1.5 - i / 10), ("no", -2.5))
        tokens = [{"token": text, "logprob": x, "top_logprobs": []} for text, x in pairs]
        rows.append({"out": {"content": tokens}})
    refuses(tables_of, rows, Reading(labels=("yes", "no")))

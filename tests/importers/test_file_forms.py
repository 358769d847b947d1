"""Files of other tools: the numbers that they hold, or a sentence; rows are made here."""

import json
from dataclasses import replace

import numpy as np
import pytest
from reading_files import notes
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models

from batch_calibration.importers import Reading, read
from batch_calibration.metrics.table import METRICS
from batch_calibration.scoring.models.files import tokenizer_files
from batch_calibration.scoring.models.files.tensors import tensors

N = 24
RANDOM = np.random.default_rng(7)
TWO = ("yes", "no")
PROBS = RANDOM.dirichlet((1.5, 1.0), N)
GOLD = [TWO[i] for i in RANDOM.integers(0, 2, N)]
YES_NO = Reading(labels=TWO, gold="gold")


def token(text, **probs):
    tops = [{"token": text, "logprob": -0.1}] if not probs else []
    tops += [{"token": f" {t}", "logprob": float(np.log(p))} for t, p in probs.items()]
    return {"token": text, "logprob": -0.1, "top_logprobs": tops}


def label_token(i):
    yes, no = PROBS[i]
    return token(f" {TWO[PROBS[i].argmax()]}", yes=yes, no=no)


def chats(make):
    """Rows of a chat, of which `make` gives the tokens before and behind the label's own."""
    rows = []
    for i in range(N):
        before, after = make(i)
        content = [*map(token, before), label_token(i), *map(token, after)]
        rows.append({"choices": [{"logprobs": {"content": content}}], "gold": GOLD[i]})
    return rows


def check(table, probs=PROBS, gold=GOLD, names=TWO):
    order = [table.label_names.index(name) for name in names]
    block = table.blocks["test"]
    np.testing.assert_allclose(block.log_probs[:, order], np.log(probs), atol=1e-5)
    if gold is not None:
        assert [table.label_names[label] for label in block.labels] == list(gold)


# Answers of several tokens


NOTE = ['{"', "note", '": "', "yes", " or", " no", '", "', "label", '": "']


@pytest.mark.parametrize(
    ("before", "after", "at", "said"),
    [
        (["Yes", ", I can help.", " Answer", ":"], ["."], "", "after 'Answer:' in 24 of 24"),
        (["No", " problem.\n", "**Answer", ":**"], [], "", "after 'Answer:'"),
        (["The", " answer", " is"], ["."], "", "after 'Answer:'"),
        (['{"', "reason", '": "', "2 of 3", '", "', "label", '": "'], ['"}'], "", "of 'label'"),
        (["```json\n", '{"', "label", '": "'], ['"', "}\n", "```"], "", "of 'label'"),
        (["So", " it", " is"], ["."], "", "at the only label in 24"),
        (["Yes", " or", " no", "?", " I", " say"], [], "last", "at the last label"),
        (["Yes", ".", " Verdict", " ="], [], "Verdict =", "at 'Verdict ='"),
        (["<think>", "yes", "</think>"], [], "</think>(.*)", "at '</think>(.*)'"),
        (['{"', "a", '":"', "yes", '","', "b", '":"'], ['"}'], "json:b", "of 'b'"),
        ([], ["</s>"], "", ""),
        (["\n", ""], ["<|im_end|>"], "", ""),
        ([], [".", " No", " doubt", "."], "first", ""),
        # A text that begins with a label is no value.
        (NOTE, ['"}'], "", "of 'label'"),
        (['{"', "a", '": "', "no", " doubt", '", "', "label", '": "'], ['"}'], "", "of 'label'"),
    ],
)
def test_the_label_is_read_where_it_is(saved, before, after, at, said):
    path = saved(chats(lambda _: (before, after)))
    (table,) = read(path, Reading(labels=TWO, gold="gold", at=at))
    check(table)
    assert said in notes(table)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["Yes", ", but", " rather"], []),
        (["No", ".\n", "Answer", ":"], [" yes"]),
        (['{"', "a", '":"', "yes", '","', "b", '":"'], ['"}']),
        (["Answer", ": yes,", " Answer", ": no,", " or"], []),
        (NOTE, [" I think", '"}']),
    ],
)
def test_an_answer_that_is_not_plain_is_a_question(saved, before, after, refuses):
    rows = chats(lambda i: (before, after) if i > 3 else ([], []))
    error = refuses(read, saved(rows), YES_NO)
    assert error.key == "at" and "of 24 answers" in error.got


def test_answers_that_name_no_label_are_left_out_with_a_note(saved, refuses):
    rows = chats(lambda i: (["Answer", ":"], []))
    rows[3]["choices"][0]["logprobs"]["content"] = [token("I"), token(" cannot"), token(" say")]
    path = saved(rows)
    (table,) = read(path, YES_NO)
    assert len(table.blocks["test"].log_probs) == N - 1
    assert "1 of 24 answers name no label and are left out" in notes(table)
    none = [{"choices": [{"logprobs": {"content": [token("x")] * 6}}]} for _ in range(3)]
    assert refuses(read, path, Reading(labels=TWO, at="(")).where == "at='('"
    error = refuses(read, saved(none), Reading(labels=TWO))
    assert error.key == "at" and error.got.startswith("'xxxxxx'")


# Tokens behind the label


@pytest.mark.parametrize("behind", ["", " ", "\n", "</s>", "<end_of_turn>", "<|eot_id|>"])
def test_tokens_behind_the_label_do_not_count(saved, behind):
    rows = []
    for i in range(N):
        for j, name in enumerate(TWO):
            texts = [f"Q{i}", " Answer:", f" {name}", behind]
            numbers = [None, -0.5, float(np.log(PROBS[i, j])), -1.0 - j]
            places = [None]
            for k, (text, nats) in enumerate(zip(texts[1:], numbers[1:], strict=True)):
                places.append({str(k): {"logprob": nats, "decoded_token": text}})
            rows.append({"prompt_logprobs": places, "choices": [{}], "gold": GOLD[i]})
    (table,) = read(saved(rows), YES_NO)
    check(table)


# Servers


def ollama(i):
    return {"model": "m", "message": {"content": "x"}, "done": True, "logprobs": [label_token(i)]}


def generate(i):
    return {"model": "m", "response": "x", "done": True, "logprobs": [label_token(i)]}


def responses(i):
    content = [{"type": "output_text", "logprobs": [label_token(i)]}]
    message = {"type": "message", "content": content}
    return {"object": "response", "output": [{"type": "reasoning"}, message], "error": None}


def content_null(i):
    top = {entry["token"]: entry["logprob"] for entry in label_token(i)["top_logprobs"]}
    log_probs = {"content": None, "tokens": ["yes"], "token_logprobs": [-1.0]}
    log_probs["top_logprobs"] = [top]
    return {"choices": [{"message": {"content": "yes"}, "logprobs": log_probs}]}


def gemini(i, names=("logprobsResult", "topCandidates", "chosenCandidates", "logProbability")):
    tops = [{"token": t["token"], names[3]: t["logprob"]} for t in label_token(i)["top_logprobs"]]
    found = {names[1]: [{"candidates": tops}], names[2]: [{"token": "yes"}]}
    return {"candidates": [{"content": {"parts": [{"text": "yes"}]}, names[0]: found}]}


def gemini_python(i):
    return gemini(i, ("logprobs_result", "top_candidates", "chosen_candidates", "log_probability"))


def request_output(i):
    listed = {}
    for number, entry in enumerate(label_token(i)["top_logprobs"]):
        listed[str(number)] = {"logprob": entry["logprob"], "decoded_token": entry["token"]}
    output = {"index": 0, "text": "yes", "token_ids": [0], "logprobs": [listed]}
    return {"request_id": "0", "prompt_logprobs": None, "outputs": [output]}


FORMS = [ollama, generate, responses, content_null, gemini, gemini_python, request_output]


@pytest.mark.parametrize("form", FORMS)
def test_answers_of_other_servers_are_read(saved, form):
    rows = [{**form(i), "gold": GOLD[i]} for i in range(N)]
    (table,) = read(saved(rows), YES_NO)
    check(table)


# Scores that measure nothing


SURE = {"yes": 0.0, "no": -9999.0}
LISTED = {"labels": ["yes", "no"], "scores": [0.0, None]}


@pytest.mark.parametrize("row", [SURE, {"yes": 0.0, "no": -float("inf")}, LISTED])
@pytest.mark.parametrize("missing", [None, "least"])
def test_probabilities_of_0_and_1_measure_nothing(saved, row, missing, refuses):
    reading = Reading(missing=missing, labels=TWO if "yes" in row else ())
    assert "probability 1 in each row" in refuses(read, saved([row] * 5), reading).got


def test_scores_that_are_equal_in_each_row_are_refused(saved, refuses):
    rows = [{"labels": ["A", "B", "C"], "scores": [-4.0 - i / 9] * 3} for i in range(5)]
    assert refuses(read, saved(rows)).got == "equal scores of all labels in each of 5 rows"


def test_metrics_without_a_known_label_are_nan():
    for metric in METRICS.values():
        assert np.isnan(metric(np.log(PROBS), np.full(N, -1)))


# Decisions


@pytest.mark.parametrize("key", ["", "answers", "response"])
def test_answers_of_a_decision_model_are_refused(saved, key, refuses):
    answer = {"choice": "yes", "probabilities": {"yes": 0.7, "no": 0.3}}
    row = {"answers": {"topic": answer}} if key else answer
    row = {"response": row} if key == "response" else row
    path = saved([{"id": "0", **row, "gold": "yes"}] * 2)
    assert refuses(read, path).got == "answers of a decision model"
    assert refuses(read, path, Reading(format="decisions")).got == "decisions"


# Columns


def table_of(make):
    return [{**make(i), "gold": GOLD[i]} for i in range(N)]


def log_probs(i, form="{}"):
    return {form.format(name): float(x) for name, x in zip(TWO, np.log(PROBS[i]), strict=True)}


@pytest.mark.parametrize(
    "form", ["{}_norm", "mean_logprob_{}", "{}_per_token", "total_logprob", "max_logprob"]
)
def test_columns_made_of_others_are_a_question(saved, form, refuses):
    plain = "{}" if "logprob" not in form else "logprob_{}"

    def make(i):
        return {**log_probs(i, plain), **log_probs(i + 1 if i < N - 1 else 0, form)}

    names = tuple(log_probs(0, plain))
    for rows in (table_of(make), [{"s": make(i)} for i in range(N)]):
        path = saved(rows)
        reading = Reading(gold="gold" if "gold" in rows[0] else "")
        if reading.gold or "{}" in form:
            assert repr(names) in refuses(read, path, reading).remedy
        (table,) = read(path, replace(reading, labels=names))
        check(table, names=table.label_names, gold=GOLD if reading.gold else None)


@pytest.mark.parametrize("form", ["{}_log2prob", "log10_{}", "{}_bits"])
def test_logarithms_to_another_base_are_refused(saved, form, refuses):
    path = saved(table_of(lambda i: log_probs(i, form)))
    error = refuses(read, path, Reading(gold="gold"))
    assert f"'{form.format('yes')}', '{form.format('no')}'" in error.got


COUNTS = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}


@pytest.mark.parametrize("cell", [COUNTS, {"input_tokens": 180, "cost": 1e-5}, [15, 27, 1893]])
def test_counts_and_token_ids_are_no_scores(saved, cell, refuses):
    path = saved([{"id": str(i), "x": cell} for i in range(5)])
    for from_probs in (None, False):
        assert refuses(read, path, Reading(from_probs=from_probs)).got == "none among 2 columns"


@pytest.mark.parametrize("form", ["p_{}", "{} prob", "m_7b_{}_probs", "prob.{}"])
def test_what_all_columns_share_is_no_part_of_the_label(saved, form):
    rows = [{form.format(name): p for name, p in zip(TWO, row, strict=True)} for row in PROBS]
    path = saved(table_of(rows.__getitem__))
    for labels in ((), TWO, TWO[::-1], tuple(form.format(name) for name in TWO)):
        (table,) = read(path, Reading(gold="gold", from_probs=True, labels=labels))
        check(table)


def test_mmlus_own_csv_is_read(saved):
    probs = RANDOM.dirichlet(np.ones(4), N)
    gold = ["ABCD"[i % 4] for i in range(N)]
    lines = ["0,1,2,5,m_7b_correct," + ",".join(f"m_7b_choice{x}_probs" for x in "ABCD")]
    for i, row in enumerate(probs):
        lines.append(f"Q {i}?,one,two,{gold[i]},{i % 2 == 0}," + ",".join(map(str, row)))
    (table,) = read(saved("\n".join(lines), "a.csv"), Reading(gold="5", from_probs=True))
    check(table, probs, gold, tuple("ABCD"))


@pytest.mark.parametrize("name", ["p_yes", "yes", "prob.yes"])
def test_one_probability_a_row_is_that_of_two_labels(saved, name):
    path = saved(table_of(lambda i: {name: PROBS[i, 0]}))
    (table,) = read(path, Reading(gold="gold", from_probs=True))
    check(table)
    assert "'no' has 1 - p" in notes(table)


def test_every_label_of_a_pipeline_is_read(saved):
    rows = []
    for row in PROBS:
        pairs = [{"label": f"LABEL_{j}", "score": p} for j, p in enumerate(row)]
        rows.append(sorted(pairs, key=lambda pair: -pair["score"]))
    (table,) = read(saved(json.dumps(rows), "a.json"), Reading(from_probs=True))
    assert table.label_names == ("LABEL_0", "LABEL_1")
    check(table, gold=None, names=table.label_names)


# Other harnesses; the file's own accuracy is the oracle


SCORES = RANDOM.normal(-5, 2, (N, 4)).clip(-20, -0.1)
RIGHT = RANDOM.integers(0, 4, N)
IS_RIGHT = SCORES.argmax(axis=1) == RIGHT


def olmes(i, row):
    outputs = [{"sum_logits": x, "sum_logits_uncond": -9.0 - j} for j, x in enumerate(row)]
    metrics = {"acc_raw": int(IS_RIGHT[i]), "acc_per_token": 0}
    return {"doc_id": i, "metrics": metrics, "model_output": outputs, "label": int(RIGHT[i])}


def write_out(i, row):
    judged = {"truth": str(RIGHT[i]), "acc": str(float(IS_RIGHT[i]))}
    judged |= {f"logit_{j}": x for j, x in enumerate(row)}
    return {"doc_id": i, "prompt_0": f"Q {i}", **judged}


def opencompass(i, row):
    cells = {f"label: {x}": {"PPL": -s} for x, s in zip("ABCD", row, strict=True)}
    return {**cells, "prediction": "A", "gold": "ABCD"[RIGHT[i]]}


HARNESSES = {"t-predictions.jsonl": olmes, "t_write_out_info.json": write_out}
HARNESSES["t.json"] = opencompass


@pytest.mark.parametrize("name", HARNESSES)
def test_other_harnesses_files_are_read(saved, name):
    rows = [HARNESSES[name](i, row) for i, row in enumerate(SCORES)]
    if name == "t.json":
        rows = {str(i): row for i, row in enumerate(rows)}
    (table,) = read(saved(rows if "jsonl" in name else json.dumps(rows, indent=1), name))
    block = table.blocks["test"]
    np.testing.assert_allclose(block.log_probs, SCORES, atol=1e-5)
    assert block.labels.tolist() == RIGHT.tolist()
    assert "own accuracy" not in notes(table)


def test_conditional_probabilities_of_opencompass_are_read(saved):
    rows = {}
    for i, row in enumerate(PROBS):
        rows[str(i)] = {"choices": list(TWO), "prediction": list(row), "gold": GOLD[i]}
    check(read(saved(json.dumps(rows), "t.json"), Reading(from_probs=True, gold="gold"))[0])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.parquet", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs"),
        ("a.pkl", b"\x80\x04\x95\x00", "pickle"),
        ("a.jsonl", b'{"question_id": 1, "model_1": "a", "g1_winner": "model_1"}\n', "FastChat"),
    ],
)
def test_files_that_hold_no_scores_are_named(saved, name, content, said, refuses):
    assert said in str(refuses(read, saved(content, name)))


# Checkpoints


def test_a_tensor_in_two_files_is_refused(tmp_path, refuses):
    for name in ("a", "b"):
        save_file({"w": np.zeros(2, np.float32)}, tmp_path / f"{name}.safetensors")
    error = refuses(list, tensors(tmp_path))
    assert error.where.endswith("b.safetensors") and "'w' only in a.safetensors" in error.expected


def test_a_tokenizer_that_merges_at_random_is_refused(tmp_path, refuses):
    merging = models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], dropout=0.1)
    Tokenizer(merging).save(str(tmp_path / "tokenizer.json"))
    assert refuses(tokenizer_files.read, tmp_path, "causal_lm").got.startswith("dropout 0.1")

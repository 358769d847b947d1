"""Saved responses of servers as score tables: each format, and each sentence."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from response_forms import chat, completion, echoed, generated, llama, old_llama, place, prompted

from batch_calibration.importers import Reading, read
from batch_calibration.responses.servers import RESPONSE_FORMATS, end_log_prob, label_probs

OPENAI, VLLM = RESPONSE_FORMATS["openai"], RESPONSE_FORMATS["vllm"]
SGLANG, LLAMA_CPP = RESPONSE_FORMATS["sglang"], RESPONSE_FORMATS["llama.cpp"]
ROOT = Path(__file__).resolve().parents[2]
YES_NO = Reading(labels=("yes", "no"))
LEAST = Reading(labels=("yes", "no"), missing="least")


@pytest.fixture
def saved(saved):
    """Writes values as JSON Lines."""
    return lambda *values: saved(values, "responses.jsonl")


def scores(table):
    return table.blocks["test"].log_probs


def log(*rows):
    return np.log(np.array(rows))


TOP_K = {
    "chat": (chat, "OpenAI-style responses"),
    "completions": (completion, "OpenAI-style responses"),
    "llama.cpp": (llama, "llama.cpp server"),
    "llama.cpp, older": (old_llama, "llama.cpp server"),
}


@pytest.mark.parametrize("kind", TOP_K)
def test_lists_of_first_tokens_become_a_table(saved, kind):
    make, scorer = TOP_K[kind]
    path = saved(make(yes=0.5, no=0.2, Yes=0.1), make(no=0.7, yes=0.2, x=0.01))
    (table,) = read(path, YES_NO)
    np.testing.assert_allclose(scores(table), log([0.6, 0.2], [0.2, 0.7]), rtol=1e-5)
    assert table.label_names == ("yes", "no")
    assert table.context["scorer"] == scorer and table.context["task"] == "responses"
    assert table.blocks["test"].row_ids == ("0", "1")
    (note,) = table.blocks["test"].spec["notes"]
    assert note == "Tokens taken for the labels: yes: 'yes', 'Yes'; no: 'no'."


def test_a_missing_label_lies_below_the_list(saved, refuses):
    path = saved(chat(yes=0.5, x=0.2), chat(no=0.7, yes=0.2))
    (table,) = read(path, LEAST)
    np.testing.assert_allclose(scores(table)[0], [math.log(0.5), math.log(0.2) - 0.5], rtol=1e-5)
    assert "row 0 has -inf as the score of 'no'" in str(refuses(read, path, YES_NO))


def test_little_label_mass_is_noted(saved):
    (table,) = read(saved(chat(I=0.8, yes=0.1, no=0.05), chat(As=0.8, yes=0.1, no=0.02)), YES_NO)
    assert any("13.5 % of the probability" in note for note in table.blocks["test"].spec["notes"])


def test_batch_output_has_ids_and_fields_have_gold(saved):
    usual, lines = {"id": "b", "error": None, "meta": {"subject": "s"}}, []
    for i, gold in enumerate(("no", "yes", None, 1)):
        response = {"status_code": 200, "body": chat(yes=0.5, no=0.2 + i / 10)}
        lines.append({**usual, "custom_id": f"r{i}", "gold": gold, "response": response})
    (table,) = read(saved(*lines), Reading(labels=("yes", "no"), gold="gold", by=("meta.subject",)))
    block = table.blocks["test"]
    assert block.row_ids == ("r0", "r1", "r2", "r3")
    assert block.labels.tolist() == [1, 0, -1, 1]
    assert table.context["task"] == "responses s" and table.context["model"] == "m-1"


def test_labels_that_are_numbers_are_names(saved):
    lines = [{**chat(**{"-1": 0.5, "1": 0.2 + i / 10}), "gold": 2 * i - 1} for i in range(2)]
    (table,) = read(saved(*lines), Reading(labels=("-1", "1"), gold="gold"))
    assert table.blocks["test"].labels.tolist() == [0, 1]


def test_pairs_lists_and_whole_files_are_read(tmp_path, saved):
    first, two = chat(yes=0.5, no=0.2), chat(yes=0.1, no=0.2)
    expected = log([0.5, 0.2], [0.1, 0.2])
    pairs = [{"request": {"model": "m"}, "response": r, "answer": "yes"} for r in (first, two)]
    lists = [[{"model": "m"}, r, {"answer": "yes"}] for r in (first, two)]
    for values in ((first, two), pairs, lists):
        np.testing.assert_allclose(scores(read(saved(*values), YES_NO)[0]), expected, rtol=1e-5)
    for values in (pairs, lists):
        table = read(saved(*values), Reading(labels=("yes", "no"), gold="answer"))[0]
        assert table.blocks["test"].labels.tolist() == [0, 0]
    path = tmp_path / "whole.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps([first, two], indent=1).encode())
    np.testing.assert_allclose(scores(read(path, YES_NO)[0]), expected, rtol=1e-5)
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(map(json.dumps, (first, two))).encode())
    np.testing.assert_allclose(scores(read(path, YES_NO)[0]), expected, rtol=1e-5)


def test_echoed_prompts_are_grouped_and_their_labels_summed(saved):
    path = saved(
        echoed(["Is", " it", "?", " y", "es", " end"], [None, -1.0, -1.0, -2.0, -0.5, -3.0], new=1),
        echoed(["Is", " it", "?", " no"], [None, -1.0, -1.0, -1.5]),
        echoed(["Was", "?", " no"], [None, -1.0, -0.25]),
        echoed(["Was", "?", " yes"], [None, -1.0, -4.0]),
        echoed(["Was", "?", " yes"], [None, -1.0, -4.5]),
        echoed(["Was", "?", " no"], [None, -1.0, -0.5]),
    )
    (table,) = read(path, YES_NO)
    assert scores(table).tolist() == [[-2.5, -1.5], [-4.0, -0.25], [-4.5, -0.5]]
    prompt = OPENAI.prompt_tokens(echoed(["A", " yes"], [None, -1.0]))
    assert end_log_prob(prompt, "yes", "") == (-1.0, 1)


def test_the_longest_label_that_a_prompt_ends_with_is_meant(saved):
    longer = echoed(["Q:", " not", " so"], [None, -1.0, -2.0])
    path = saved(longer, echoed(["Q:", " so"], [None, -4.0]))
    (table,) = read(path, Reading(labels=("so", "not so")))
    assert scores(table).tolist() == [[-4.0, -3.0]]


def test_vllm_prompt_log_probs(saved):
    alone = prompted([None, place(5, " it", -1.0), place(7, " yes", -0.5)])
    second = place(5, " it", -1.0, The=(8, -0.2))
    places = [None, second, place(9, " no", -2.5, the=(8, -0.1))]
    ids = prompted(places, prompt_token_ids=[1, 5, 9])
    assert end_log_prob(VLLM.prompt_tokens(alone), "yes", "") == (-0.5, 1)
    (table,) = read(saved(alone, ids), YES_NO)
    assert scores(table).tolist() == [[-0.5, -2.5]]
    assert table.context["scorer"] == "vLLM, prompt_logprobs"
    offline = {"prompt_token_ids": [1, 7], "prompt_logprobs": [None, place(7, "yes", -0.5)]}
    assert end_log_prob(VLLM.prompt_tokens(offline), "yes", "") == (-0.5, 1)
    assert VLLM.first_tokens(completion(yes=1.0)) == {"yes": 0.0}


def test_sglang_generate(saved):
    top = [[math.log(0.5), 7, " yes"], [math.log(0.3), 8, " a"]]
    fixed = [[math.log(0.5), 7, " yes"], [math.log(0.01), 9, " no"]]
    path = saved(generated(top, fixed), generated(top, [*fixed[:1], [math.log(0.2), 9, " no"]]))
    (table,) = read(path, YES_NO)
    np.testing.assert_allclose(scores(table), log([0.5, 0.01], [0.5, 0.2]), rtol=1e-5)
    bare = {"meta_info": {"output_token_ids_logprobs": [[[-1.0, 7, None], [-2.0, 9, None]]]}}
    assert SGLANG.first_tokens(bare) == {"token_id:7": -1.0, "token_id:9": -2.0}
    named = Reading(labels=("yes", "no"), tokens={"yes": ("token_id:7",), "no": ("token_id:9",)})
    other_reply = {"meta_info": {"output_token_ids_logprobs": [[[-1.5, 7, None], [-2.0, 9, None]]]}}
    assert scores(read(saved(bare, other_reply), named)[0]).tolist() == [[-1.0, -2.0], [-1.5, -2.0]]


def test_sglang_prompts_that_end_with_labels(saved):
    responses = []
    for label, value in (("yes", -1.0), ("no", -2.0)):
        tokens = [[None, 1, "Q:"], [value, 2, f" {label}"]]
        responses.append({"meta_info": {"input_token_logprobs": tokens}})
    assert scores(read(saved(*responses), YES_NO)[0]).tolist() == [[-1.0, -2.0]]


def test_sglang_score(saved):
    many = {"scores": [[0.9, 0.1], [0.25, 0.75]], "object": "scoring", "model": "m"}
    (table,) = read(saved({**many, "custom_id": "a"}, many), YES_NO)
    np.testing.assert_allclose(scores(table), log(*many["scores"] * 2), rtol=1e-5)
    assert any("softmax over the labels" in note for note in table.blocks["test"].spec["notes"])
    raw = {"scores": [[0.2, 0.1], [0.25, 0.05]], "object": "scoring", "custom_id": "a"}
    (table,) = read(saved(raw), YES_NO)
    assert "notes" in table.blocks["test"].spec  # 30 % of the probability
    (table,) = read(saved({**raw, "scores": [[0.2, 0.7]]}), YES_NO)
    assert table.blocks["test"].row_ids == ("a",)


def test_probabilities_of_tokens_with_one_text_are_added_but_one_listed_twice_is_one():
    two = {"meta_info": {"output_top_logprobs": [[[-1.0, 7, "x"], [-2.0, 8, "x"]]]}}
    assert SGLANG.first_tokens(two)["x"] == pytest.approx(np.logaddexp(-1.0, -2.0))
    tops = [{"token": "x", "logprob": -1.0}] * 2
    twice = {"choices": [{"logprobs": {"content": [{"top_logprobs": tops}]}}]}
    assert OPENAI.first_tokens(twice) == {"x": -1.0}


NULL = {"choices": [{"logprobs": None, "message": {"content": "yes"}}]}
EMPTY = {"choices": [{"logprobs": {"content": [{"token": "yes", "top_logprobs": []}]}}]}
NO_TOPS = {"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": [-1.0]}}]}
NAMELESS = {"choices": [{"logprobs": {"content": [{"top_logprobs": [{"logprob": -1}]}]}}]}
SHIFTED = echoed(["Q", " yes"], [None, -1.0], new=1)
SHIFTED["choices"][0]["text"] += " and"
SAMPLED = {"completion_probabilities": [{"top_probs": [{"token": "yes", "prob": 0.5}]}]}


TEXTLESS = {"meta_info": {"input_token_logprobs": [[None, 1, None]]}}
TWICE = {"choices": completion(yes=1.0)["choices"] * 2}
OLD = {"probs": [{"probs": [{"tok_str": "a", "prob": 2}]}]}
RIVALS = prompted([None, place(5, "a", -1.0, b=(6, -2.0))])


@pytest.mark.parametrize(
    ("call", "response", "got"),
    [
        (OPENAI.first_tokens, {}, "choices; got none"),
        (OPENAI.first_tokens, NULL, "logprobs are null"),
        (OPENAI.first_tokens, EMPTY, "top_logprobs=20 (chat)"),
        (OPENAI.first_tokens, NO_TOPS, "top_logprobs=20 (chat)"),
        (OPENAI.first_tokens, TWICE, "n=1"),
        (OPENAI.first_tokens, {"choices": [{"logprobs": {"top_logprobs": [{"yes": "x"}]}}]}, "'x'"),
        (OPENAI.first_tokens, NAMELESS, "got None"),
        (OPENAI.prompt_tokens, NO_TOPS, "got only the answer's"),
        (OPENAI.prompt_tokens, chat(yes=1.0), "echo=true, logprobs=1"),
        (OPENAI.prompt_tokens, SHIFTED, "without echo"),
        (VLLM.prompt_tokens, NULL, "prompt_logprobs=0"),
        (VLLM.prompt_tokens, RIVALS, "return_token_ids=true"),
        (VLLM.prompt_tokens, prompted([None, place(5, None, -1.0)]), "decoded_token"),
        (SGLANG.first_tokens, {"meta_info": {}}, "top_logprobs_num=20"),
        (SGLANG.first_tokens, {"meta_info": {"output_top_logprobs": [[["x"]]]}}, "got ['x']"),
        (SGLANG.prompt_tokens, {"meta_info": {}}, "logprob_start_len=0"),
        (SGLANG.prompt_tokens, TEXTLESS, "none: ask with return_text_in_logprobs=true"),
        (label_probs, {"scores": [[0.5], 1]}, "got none"),
        (label_probs, {"scores": [[0.5, 0.9]]}, "got [0.5, 0.9]"),
        (label_probs, {"scores": [[0.5, None]]}, "got [0.5, nan]"),
        (LLAMA_CPP.first_tokens, {}, "n_probs=20"),
        (LLAMA_CPP.first_tokens, SAMPLED, "post_sampling_probs=false"),
        (LLAMA_CPP.first_tokens, OLD, "got 2.0"),
    ],
)
def test_responses_without_scores_are_refused(call, response, got, refuses):
    error = str(refuses(call, response))
    assert error.startswith("response: ") and got in error


@pytest.mark.parametrize(
    ("tokens", "values", "got"),
    [
        (["Q", " no"], [None, -1.0], "'Q no'"),
        (["Q", ":yes"], [None, -1.0], "':yes'"),
        (["yes", ""], [None, -1.0], "of each token of the label 'yes'"),
        (["Q", "yes"], [None, -9999.0], "of each token of the label 'yes'"),
    ],
)
def test_an_echo_without_its_label_is_refused(tokens, values, got, refuses):
    prompt = OPENAI.prompt_tokens(echoed(tokens, values))
    assert got in str(refuses(end_log_prob, prompt, "yes", "response"))


GOLD = Reading(labels=("yes", "no"), gold="gold")


BOTH, HALVES = chat(yes=0.5, no=0.2), [chat(yes=0.5, no=0.5), chat(yes=0.5, no=0.5)]
NUMBERED = {**chat(**{"1": 0.5, "2": 0.2}), "gold": 0}
SAME_ID = [{**BOTH, "custom_id": "a"}, {**chat(yes=0.4), "custom_id": "a"}]


@pytest.mark.parametrize(
    ("values", "reading", "got"),
    [
        ([BOTH], Reading(), "got none: pass labels="),
        ([chat(yes=0.5)], Reading(labels=("yes", "yes")), "got yes, yes"),
        ([chat(yes=0.5, x=0.4)], LEAST, "label 'no'"),
        ([{**BOTH, "gold": "maybe"}], GOLD, "line 1: expected the right label in 'gold'"),
        ([{**BOTH, "gold": 2}], GOLD, "got 2"),
        ([NUMBERED], Reading(labels=("1", "2"), gold="gold"), "got 0"),
        ([{**BOTH, "golden": "yes"}], GOLD, "did you mean 'golden'"),
        ([BOTH], Reading(labels=("yes", "no"), ids="row"), "named 'row'"),
        ([BOTH, NULL], YES_NO, "line 2: its logprobs are null"),
        ([BOTH, 7], YES_NO, "line 2: expected a response as a JSON object; got 7"),
        ([BOTH, [1]], YES_NO, "got [1]"),
        (HALVES, YES_NO, "every score is -0.693147"),
        ([chat(yes=1.0, no=1.0)], YES_NO, "row 0: expected log-probabilities"),
        (SAME_ID, LEAST, "row id 'a' appears 2 times"),
        ([echoed(["Q", " yes"], [None, -1.0])], YES_NO, "not of 'no'"),
        ([echoed(["Q", " maybe"], [None, -1.0])], YES_NO, "'Q maybe'"),
        ([{"scores": [[0.5, 0.2, 0.1]], "object": "scoring"}], YES_NO, "got 3"),
    ],
)
def test_files_of_responses_that_are_not_plain_are_refused(saved, values, reading, got, refuses):
    assert got in str(refuses(read, saved(*values), reading))


def test_torn_and_foreign_files_are_refused(tmp_path, refuses):
    path, line = tmp_path / "r.jsonl", json.dumps(BOTH).encode()
    for data, got in (
        (line + b"\n" + line[:50], "line 2: expected JSON"),
        (line + b"\n\xff", "UTF-8"),
        (b"[\n" + line, "r.jsonl: expected JSON"),
        (b"\n \n", "got none"),
    ):
        path.write_bytes(data)
        assert got in str(refuses(read, path, Reading(labels=("yes", "no"), format="openai")))


@pytest.mark.parametrize("block", [2, 3])
def test_the_page_on_responses_and_missing_labels_runs(block, saved, monkeypatch):
    lines = [{**chat(yes=0.1 + i / 20, no=0.2), "answer": "yes"} for i in range(12)]
    monkeypatch.chdir(saved(*lines).parent)
    text = (ROOT / "docs/your-scores.md").read_text()
    names = {}
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[block], names)
    assert np.isfinite(names["corrected"]).all() and len(names["corrected"]) == 12

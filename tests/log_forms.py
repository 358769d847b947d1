"""Rows of logs of evaluation harnesses, and small whole logs of every kind for the fuzz."""

import io
import json
import zipfile

from batch_calibration.importers import Reading

READINGS = Reading(), Reading(missing="least"), Reading(by=("choices",)), Reading(gold="answer")
READINGS += Reading(by=("subject",), missing="drop"), Reading(filter="none", missing=-30.0)
READINGS += (Reading(labels=("yes", "no")),)
CHOICES = ("no", "yes")
HEAD = "Q: is it?\nA: yes\n\nQ: was it?\nA: no\n\n"


def row(i, scores=(-1.0, -2.0), choices=CHOICES, target=0, head=HEAD, **more):
    """A line as 0.4.0 to 0.4.2 had it in memory: arguments, answers and target untouched."""
    prompt = f"{head}Q: number {i}?\nA:"
    return {
        "doc_id": i,
        "doc": {"question": f"number {i}", "subject": "odd" if i % 2 else "even"},
        "target": target,
        "arguments": [[prompt, f" {choice}"] for choice in choices],
        "resps": [[[score, False]] for score in scores],
        "filtered_resps": [[score, False] for score in scores],
        **more,
    }


def texts(value):
    """Answers after `sanitize_list` of the harness, since 0.4.3."""
    return [texts(element) for element in value] if isinstance(value, list) else str(value)


def since_0_4_3(line):
    line["arguments"] = {
        f"gen_args_{i}": {f"arg_{j}": x for j, x in enumerate(pair)}
        for i, pair in enumerate(line["arguments"])
    }
    return {**line, "resps": texts(line["resps"]), "filtered_resps": texts(line["filtered_resps"])}


def since_0_4_9(line):
    line = since_0_4_3(line)
    return {**line, "target": str(line["target"]), "filter": "none", "metrics": ["acc"]}


def _harness(old):
    lines = []
    for i in range(4):
        line = row(i, (-1.0 - i / 8, -2.0 + i / 4), target=i % 2, acc=float(i % 2 == 0))
        line["doc"]["answer"] = i % 2
        line["arguments"] += [["", " no"], ["", " yes"]]
        line["filtered_resps"] += [[-0.5, False], [-0.25, False]]
        line["acc_mutual_info"] = 1.0
        lines.append(line if old else since_0_4_9(line))
    return lines


def token(text, likely):
    top = [{"token": name, "logprob": x, "bytes": None} for name, x in likely.items()]
    return {"token": text, "logprob": -0.1, "bytes": None, "top_logprobs": top}


def sample(i, likely=None, target="A", choices=("cat", "dog"), wrote=("ANSWER", ":"), **more):
    likely = likely or {" A": -0.5 - i / 8, "A": -3.0, " B": -1.5, " the": -4.0}
    wrong = {"ANSWER": -0.1, "I": -2.0}
    content = [*(token(text, wrong) for text in wrote), token(max(likely, key=likely.get), likely)]
    message = {"role": "assistant", "content": "A"}
    answers = [{"message": message, "logprobs": {"content": content}}]
    graded = {"choice": {"value": "C", "answer": "A", "explanation": "ANSWER: A"}}
    asked = {"id": i, "epoch": 1, "input": f"number {i}?", "choices": list(choices) or None}
    asked |= {"target": target, "metadata": {"subject": "odd" if i % 2 else "even"}}
    return asked | {"output": {"model": "m", "choices": answers}, "scores": graded} | more


ABOUT = {"task": "toy", "model": "openai/m", "dataset": {"name": "animals"}}
ABOUT["packages"] = {"inspect_ai": "0.3.1"}
HEADER = {"version": 2, "status": "success", "eval": ABOUT}


def state(i, at, scores=(-1.0, -2.0), mode="original", trial=0, **more):
    """A request of `multiple_choice_separate_*`."""
    texts, half = ("no", "quite so"), scores[1] / 2
    spelled = [(" no", scores[0])] if at == 0 else [(" quite", half), (" so", half)]
    tokens = [("Q", -5.0), (" it?", -4.0), (" A:", -3.0), *spelled]
    listed = [{"text": text, "logprob": x} for text, x in tokens]
    references = []
    for j, text in enumerate(texts):
        references.append({"output": {"text": text}, "tags": ["correct"] * (j == i % 2)})
    instance = {"input": {"text": f"number {i}"}, "id": f"id{i}", "split": "test", **more}
    completion = {"text": "", "logprob": -9.0, "tokens": listed}
    request = {"instance": instance | {"references": references}, "reference_index": at}
    request |= {"request": {"prompt": f"Q: a?\nA: no\n\nQ: number {i}?\nA: {texts[at]}"}}
    request |= {"request_mode": mode, "train_trial_index": trial}
    return request | {"result": {"success": True, "completions": [completion]}}


def separate(n=4, **more):
    return [state(i, at, (-1.0 - i, -2.0), **more) for i in range(n) for at in (0, 1)]


def joint(i, likely):
    row = state(i, 0)
    row |= {"reference_index": None, "request_mode": None, "output_mapping": {"A": "x", "B": "y"}}
    row["request"]["prompt"] = f"Q: number {i}?\nA. x\nB. y\nAnswer:"
    tokens = [{"text": " A", "logprob": -0.5} | ({"top_logprobs": likely} if likely else {})]
    row["result"]["completions"][0]["tokens"] = tokens
    return row


def helm_run(states, method="multiple_choice_separate_original"):
    spec = {"method": method, "model": "org/m", "max_train_instances": 1}
    return {"adapter_spec": spec, "request_states": states}


RESULTS = {
    "results": {"t": {"acc,none": 0.5}},
    "configs": {"t": {"dataset_path": "json", "num_fewshot": 1}},
    "n-shot": {"t": 1},
    "config": {"model": "hf", "model_args": "pretrained=m", "fewshot_seed": 1},
    "lm_eval_version": "0.4.13",
}
FORMATS = ("lm_eval", "inspect_ai", "helm")
NAMES = {"lm_eval": "samples_t_2026-01-02T03-04-05.6.jsonl", "lm_eval_old": "m_t.jsonl"}
NAMES |= {"inspect_ai": "t.json", "inspect_ai_zip": "t.eval"}
NAMES |= dict.fromkeys(("helm", "helm_joint"), "scenario_state.json")
"""Kind of log -> what its file is called."""
JOINT = [joint(i, {" A": -0.5 - i, "B": -3.0}) for i in range(3)]
SAMPLES = [sample(i, target="AB"[i % 2], choices="ab", wrote=()) for i in range(3)]
INSPECT = HEADER | {"samples": SAMPLES}
VALUES = {"lm_eval": _harness(False), "lm_eval_old": _harness(True), "inspect_ai": INSPECT}
VALUES |= {"inspect_ai_zip": INSPECT, "helm": helm_run(separate(3))}
VALUES["helm_joint"] = helm_run(JOINT, "multiple_choice_joint")


def as_log(name, value, as_text):
    """The bytes of a log of a kind that holds a value."""
    if name == "lm_eval" and isinstance(value, list):
        return "\n".join(map(as_text, value)).encode() + b"\n"
    if name != "inspect_ai_zip" or not isinstance(value, dict):
        return as_text(value).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        samples = value.get("samples")
        for i, sample in enumerate(samples if isinstance(samples, list) else []):
            archive.writestr(f"samples/{i}_epoch_1.json", as_text(sample))
        header = {k: content for k, content in value.items() if k != "samples"}
        archive.writestr("header.json", as_text(header))
    return buffer.getvalue()


def results():
    """Results as they lie next to a log of the harness."""
    return json.loads(json.dumps(RESULTS))

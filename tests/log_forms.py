"""Lines of logs of lm-evaluation-harness, and small whole logs of every kind for the fuzz."""

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


def _inspect():
    top = [{"token": name, "logprob": -1.0 - j} for j, name in enumerate((" A", "B", "x"))]
    samples = []
    for i in range(3):
        listed = [{"token": " A", "logprob": -0.5 - i, "top_logprobs": top}]
        sample = {"id": i, "epoch": 1, "choices": ["a", "b"], "target": "AB"[i % 2]}
        sample |= {"metadata": {"subject": "ab"[i % 2]}, "scores": {"choice": {"value": "C"}}}
        samples.append(sample | {"output": {"choices": [{"logprobs": {"content": listed}}]}})
    head = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}}
    return head | {"samples": samples}


def _helm(joint):
    states = []
    for i in range(3):
        for j in range(1 if joint else 2):
            token = {"text": (" no", " yes")[j], "logprob": -1.0 - i - j}
            if joint:
                token = {"text": " A", "logprob": -0.5, "top_logprobs": {" A": -0.5 - i, "B": -3.0}}
            listed = [{"output": {"text": text}, "tags": ["correct"]} for text in CHOICES]
            state = {"instance": {"id": f"id{i}", "references": listed}, "reference_index": j}
            state |= {"request_mode": "original", "train_trial_index": 0}
            state |= {"output_mapping": {"A": "no", "B": "yes"}, "request": {"prompt": f"{i} no"}}
            states.append(state | {"result": {"completions": [{"tokens": [token]}]}})
    method = "multiple_choice_joint" if joint else "multiple_choice_separate_original"
    return {"adapter_spec": {"method": method, "max_train_instances": 1}, "request_states": states}


RESULTS = {
    "results": {"t": {"acc,none": 0.5}},
    "configs": {"t": {"dataset_path": "json", "num_fewshot": 1}},
    "n-shot": {"t": 1},
    "config": {"model": "hf", "model_args": "pretrained=m", "fewshot_seed": 1},
    "lm_eval_version": "0.4.13",
}
FORMATS = ("lm_eval", "inspect_ai", "helm")
NAMES = {
    "lm_eval": "samples_t_2026-01-02T03-04-05.6.jsonl",
    "lm_eval_old": "m_t.jsonl",
    "inspect_ai": "t.json",
    "inspect_ai_zip": "t.eval",
    "helm": "scenario_state.json",
    "helm_joint": "scenario_state.json",
}
"""Kind of log -> what its file is called."""
VALUES = {"lm_eval": _harness(False), "lm_eval_old": _harness(True), "inspect_ai": _inspect()}
VALUES |= {"inspect_ai_zip": _inspect(), "helm": _helm(False), "helm_joint": _helm(True)}


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

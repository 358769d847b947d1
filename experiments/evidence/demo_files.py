"""Writes the files of `batch-calibration demo`: scores of the embedded model, and judgments.

python -m experiments.evidence.demo_files batch_calibration/cli/demo
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np

from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.settings import Settings
from batch_calibration.studies import csv_text
from batch_calibration.studies.loading import load_scorer
from batch_calibration.studies.scoring import render_contexts

ROWS = 200


def make_demo() -> dict[str, bytes]:
    """Returns the name and content of each file of the demo; the contents are deterministic."""
    rows = {"tasks": "mnli", "limit": ROWS, "limit_rows": "first"}
    settings = Settings.of(model="mini", data="mini", shots=0, methods="icl,bc", **rows)
    (context,) = render_contexts(settings, tuple(settings.grid()))
    test = context.blocks["test"]
    texts = list(cast(Sequence[str], test.inputs))
    answer = usual_jax(load_scorer(settings).score)(texts, context.label_texts)
    forms = [form for form, *_ in context.label_texts]
    words = [form.strip() for form in forms]
    table, prompts, log = [["id", *words, "label"]], [["id", "prompt", "label"]], list[str]()
    for row, (text, label) in enumerate(zip(texts, test.labels, strict=True)):
        scores = [f"{score:.4f}" for score in answer.log_probs[row].tolist()]
        table.append([str(row), *scores, words[label]])
        prompts.append([str(row), text, words[label]])
        sample: dict[str, object] = {"doc_id": row, "doc": {"text": text}, "target": str(label)}
        sample["arguments"] = [[text, form] for form in forms]
        sample["resps"] = [[[float(score), False]] for score in scores]
        sample["filtered_resps"] = [[float(score), False] for score in scores]
        sample["acc"] = float(answer.log_probs[row].argmax() == label)
        log.append(json.dumps(sample))
    # The judge prefers the answer shown first by 0.8 nats, on average.
    random, judged = np.random.default_rng(0), list[str]()
    for number in range(2 * ROWS):
        is_first, worth = bool(random.integers(2)), float(random.normal(0.3 * (number % 2), 1.5))
        log_odds = 0.8 + (worth if is_first else -worth)
        pair = {"candidate": "ab"[number % 2], "question": number // 2}
        pair |= {"candidate_first": is_first, "log_odds_first": round(log_odds, 3)}
        judged.append(json.dumps(pair))
    contents = {"demo.csv": csv_text(table), "demo_prompts.csv": csv_text(prompts)}
    contents["demo_samples.jsonl"] = "\n".join([*log, ""])
    contents["demo_judge.jsonl"] = "\n".join([*judged, ""])
    return {name: content.encode() for name, content in contents.items()}


if __name__ == "__main__":
    for file, text in make_demo().items():
        (Path(sys.argv[1]) / file).write_bytes(text)

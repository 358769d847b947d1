"""Asks a server for the most probable first tokens, keeps each answer, and corrects the labels.

    batch-calibration demo
    API_KEY=... python examples/api.py demo_prompts.csv http://127.0.0.1:8000/v1 MODEL yes maybe no

Any OpenAI-style server with log-probabilities works. Answers stay in answers.jsonl; a second run
asks only for the others. `batch-calibration ask` does the same with retries, limits and a price.
"""

import csv
import json
import os
import sys
from pathlib import Path
from urllib.request import Request, urlopen

from batch_calibration import Reading, calibrate, diagnose, predict, read

prompts, server, model, *labels = sys.argv[1:]
answers = Path("answers.jsonl")
lines = answers.read_text(encoding="utf-8").splitlines() if answers.exists() else []
answered = {json.loads(line)["id"] for line in lines}

with (
    open(prompts, newline="", encoding="utf-8") as rows,
    answers.open("a", encoding="utf-8") as out,
):
    for row in csv.DictReader(rows):
        if row["id"] in answered:
            continue
        body = {
            "model": model,
            "messages": [{"role": "user", "content": row["prompt"]}],
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 20,
        }
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        request = Request(f"{server}/chat/completions", json.dumps(body).encode(), headers)
        with urlopen(request, timeout=120) as response:
            line = {"id": row["id"], "label": row.get("label", ""), "response": json.load(response)}
        out.write(f"{json.dumps(line)}\n")
        out.flush()

# A label that is not among the 20 tokens gets a score below the lowest returned one.
reading = Reading(labels=tuple(labels), gold="label", missing="least")
(table,) = read(answers, reading)
scores = table.blocks["test"].log_probs
print(diagnose(scores, table.blocks["test"].labels, label_names=table.label_names))
corrected = calibrate(scores)
print("predictions:", *[table.label_names[i] for i in predict(corrected)[:8]])

"""The refusals of the doors in `refusals.toml`, and the files and arrays that their calls read.

Every file holds the same 40 rows, and is wrong in one way. A name beginning with "good" is of a file in which that was corrected by hand.
"""

import csv
import io
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import log_forms
import numpy as np
import response_forms
import tiny

chance = np.random.default_rng(54)
RIGHT = np.array([0, 1, 1, 0, 1] * 8)
NAMES = ("no", "yes")
GOLD = [NAMES[right] for right in RIGHT]
_margin = np.round(chance.normal(0.0, 1.0, 40) + 2.0 * RIGHT - 1.0 + 1.5, 3)  # towards yes
SCORES = np.stack([-np.logaddexp(0.0, _margin), -np.logaddexp(0.0, -_margin)], axis=1).round(6)
PROBS = np.exp(SCORES).round(6)
MISSING = np.where(PROBS < 0.05, np.nan, SCORES)  # as where a server lists few tokens


def accuracies(scores: np.ndarray, right: np.ndarray = RIGHT) -> list[float]:
    """Accuracies in % of scores [n, k] as they are and after BC."""
    both = scores, scores - scores.mean(axis=0)
    return [round(100 * float((s.argmax(axis=1) == right).mean()), 1) for s in both]


def least(scores: np.ndarray) -> np.ndarray:
    """Scores with each missing one half a nat below the least of its row."""
    return np.where(np.isnan(scores), np.nanmin(scores, axis=1)[:, None] - 0.5, scores)


MAYBE = np.where(np.arange(40) % 4 == 3, -2.5, np.nan)
"""Scores of a third label, which most rows lack."""
EVEN, ODD = slice(0, None, 2), slice(1, None, 2)
THIRD = np.insert(SCORES, 2, -9.0, axis=1)
ANSWERS = {
    "all rows": accuracies(SCORES),
    "least": accuracies(least(MISSING)),
    "least of three": accuracies(least(np.insert(SCORES, 2, MAYBE, axis=1))),
    "probabilities as logits": accuracies(PROBS),
    "losses as logits": accuracies(-SCORES),
    "half of the bias": [None, accuracies(SCORES - SCORES.mean(axis=0) / 2)[0]],
    "third right once": accuracies(THIRD, np.where(np.arange(40) == 0, 2, RIGHT)),
    "twice": 2 * accuracies(SCORES),
    "each half": accuracies(SCORES[:20], RIGHT[:20]) + accuracies(SCORES[20:], RIGHT[20:]),
    "each model": accuracies(SCORES[EVEN], RIGHT[EVEN]) + accuracies(SCORES[ODD], RIGHT[ODD]),
    "each number of choices": accuracies(SCORES[EVEN], RIGHT[EVEN])
    + accuracies(THIRD[ODD], RIGHT[ODD]),
}
"""Name -> accuracies in % as the scores are and after BC, of each context."""


def rows(scores: np.ndarray = SCORES, **columns: Iterable[object]) -> list[dict[str, object]]:
    """A dict for each row: its scores, None where one is missing, then other columns."""
    cells = [list(map(_cell, row)) for row in scores]
    lines = [dict(zip(NAMES, row, strict=False)) for row in cells]
    columns = {"gold": GOLD, **columns}
    return [{**line, **{k: v[i] for k, v in columns.items()}} for i, line in enumerate(lines)]


def _cell(number: float) -> float | None:
    return None if np.isnan(number) else float(number)


def table(rows: list[dict[str, object]]) -> str:
    """Rows as CSV."""
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def lines(rows: Iterable[object]) -> str:
    """Rows as JSON Lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def renamed(rows: list[dict[str, object]], **names: str) -> list[dict[str, object]]:
    """Rows with other names of columns."""
    return [{names.get(key, key): cell for key, cell in row.items()} for row in rows]


def answers(form: str) -> str:
    """Saved answers of a chat server, the label alone, in a sentence, or in two of them."""
    saved = []
    for line in rows():
        probs = {name: float(np.exp(line[name])) for name in NAMES}
        if form == "top 1":
            best = max(probs, key=probs.__getitem__)
            probs = {best: probs[best], "It": 0.001}
        body = response_forms.chat(**probs)
        place = body["choices"][0]["logprobs"]["content"]
        if form == "reasoned":
            words = "I", " see", " no", " sign", " of", " it", ",", " but", " maybe", " "
            place[:0] = [{"token": word, "logprob": 0.0, "top_logprobs": []} for word in words]
        saved.append({"gold": line["gold"], **body})
    return lines(saved)


def _less(row: Mapping[str, list]) -> list:
    return [[score - 0.25, False] for score, _ in row["filtered_resps"]]


def harness(**change: object) -> str:
    """A log of lm-evaluation-harness."""
    log = []
    for i, (pair, right) in enumerate(zip(SCORES.tolist(), RIGHT.tolist(), strict=True)):
        choices = change.get("choices", NAMES)
        log.append(log_forms.row(i, pair, choices, right))
        log[-1] |= {"filter": "none"} if change else {}
    if "filters" in change:
        log += [{**row, "filter": "other", "filtered_resps": _less(row)} for row in log]
    return lines(log)


def judgments(**columns: list[object]) -> str:
    """40 judged pairs, each of 20 questions in both orders."""
    orders = {"question": [i // 2 for i in range(40)], "candidate_first": [True, False] * 20}
    columns = orders | columns
    return lines(dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


BINARY = PROBS.max(axis=1).tolist()
KINDS = ["a", "b"] * 20
FILES: dict[str, str | bytes] = {
    "good.csv": table(rows()),
    "good_probs.csv": table(rows(PROBS)),
    "probs.csv": table(rows(PROBS)),
    "percent.csv": table(rows(100 * PROBS)),
    "losses.csv": table(rows(-SCORES)),
    "bits.csv": table(rows(SCORES / np.log(2))),
    "log10.csv": table(renamed(rows(SCORES / np.log(10)), no="log10_no", yes="log10_yes")),
    "mixed.csv": table(rows(np.where(np.arange(40)[:, None] < 20, PROBS, SCORES))),
    "logits.csv": table(rows(SCORES + 20.0)),
    "one_above.csv": table(renamed(rows(SCORES), no="logprob_no", yes="logprob_yes")).replace(
        f"{SCORES[0, 0]},", "3.5,", 1
    ),
    "missing.csv": table(rows(MISSING)),
    "rare.csv": table(rows(maybe=[*map(_cell, MAYBE)])),
    "greedy.csv": table(rows(np.where(SCORES == SCORES.max(axis=1)[:, None], 0.0, np.nan))),
    "whole.csv": table(rows(votes=[i % 7 for i in range(40)])),
    "label.csv": table(renamed(rows(gold=RIGHT), gold="label")),
    "from_one.csv": table(rows(gold=RIGHT + 1)),
    "signs.csv": table(rows(gold=2 * RIGHT - 1)),
    "misspelt.csv": table(rows(gold=["noo", *GOLD[1:]])),
    "third.csv": table(rows(maybe=[-9.5] * 39 + [-9.25], gold=[*GOLD[1:], "maybe"])),
    "no_names.csv": table(rows()).split("\n", 1)[1],
    "ragged.csv": table(rows()).replace("\n", ",1\n", 2).replace(",1\n", "\n", 1),
    "word.csv": table(rows()).replace(f"{SCORES[0, 0]},", "much,", 1),
    "same_ids.csv": table(rows(id=[0, *range(39)])),
    "models.csv": table(rows(model=KINDS)),
    "equal.csv": table(rows(SCORES * 0 - 1.5)),
    "binary.csv": table([{"p": p, "gold": g} for p, g in zip(BINARY, GOLD, strict=True)]),
    "empty.csv": "",
    "head.csv": "no,yes,gold\n",
    "notes.txt": "no scores\n",
    "table.pkl": b"\x80\x04\x95",
    "pointer.csv": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "two.npz": npz(first=SCORES, second=SCORES, gold=RIGHT),
    "words.npz": npz(gold=RIGHT),
    "frame.json": json.dumps({name: [row[name] for row in rows()] for name in rows()[0]}),
    "long.csv": table([
        {"question_id": i, "choice": name, "loglikelihood": row[j], "answer": GOLD[i]}
        for i, row in enumerate(SCORES.tolist()) for j, name in enumerate(NAMES)
    ]),
    "ranked.csv": table([
        {"label_1": NAMES[b], "score_1": max(row), "label_2": NAMES[1 - b], "score_2": min(row)}
        for row in SCORES.tolist() for b in [int(np.argmax(row))]
    ]),
    "dicts.jsonl": lines(
        {"scores": {k: row[k] for k in NAMES if row[k] is not None}, "gold": row["gold"]}
        for row in rows(MISSING)
    ),
    "samples_filters.jsonl": harness(filters=True),
    "samples_plain.jsonl": harness(),
    "samples_counts.jsonl": lines(
        log_forms.row(i, (*pair, -9.0)[: 2 + i % 2], ("a", "b", "c")[: 2 + i % 2], right)
        for i, (pair, right) in enumerate(zip(SCORES.tolist(), RIGHT.tolist(), strict=True))
    ),
    "samples_maybe.jsonl": lines(
        log_forms.row(i, (*pair, -9.0), ("no", "yes", "maybe"), right if i else 2)
        for i, (pair, right) in enumerate(zip(SCORES.tolist(), RIGHT.tolist(), strict=True))
    ),
    "sampled.json": json.dumps(log_forms.VALUES["inspect_ai"]).replace("choices", "answers", 3),
    "samples_nan.jsonl": harness().replace(f"{SCORES[0, 0]}", "NaN"),
    "results.json": json.dumps(log_forms.RESULTS),
    "chat.jsonl": answers(""),
    "top_1.jsonl": answers("top 1"),
    "reasoned.jsonl": answers("reasoned"),
    "set-00000-of-00002.csv": table(rows()[:20]),
    "set-00001-of-00002.csv": table(rows()[20:]),
    "other-00001-of-00002.csv": table(renamed(rows()[20:], no="nay")),
    "floor.csv": table(rows(np.where(np.isnan(MISSING), -1000.0, SCORES))),
    "good_judged.jsonl": judgments(p_first=[0.9, 0.2] * 20),
    "ratings_as_said.jsonl": judgments(log_odds_first=[5, 2] * 20),
    "llama/config.json": json.dumps(tiny.CAUSAL_FAMILIES["llama"] | {"model_type": "llama", "wide": 2}),
    "quantized/config.json": json.dumps({"model_type": "llama", "quantization_config": {"bits": 4}}),
    "messages.jsonl": lines([{"id": 1, "prompt": [{"role": "user", "content": "Is it?"}]}]),
    "good_prompts.csv": "id,prompt,label\n1,Is it?,yes\n2,Was it?,no\n",
    "good_config.py": "def get_config():\n    return {'data': 'mini', 'tasks': ('sst2',)}\n",
    "good_signs.csv": table(rows()),
    "good_prompt_2.csv": table(rows(SCORES - 0.5)),
    "ids.csv": table(rows(id=range(40))),
    "ratings.jsonl": judgments(preference=[5, 2] * 20),
    "chances.jsonl": judgments(log_odds_first=[0.9, 0.2] * 20),
    "judged.jsonl": judgments(score=[0.9, 0.2] * 20),
    "ordered.jsonl": lines({"p_first": 0.7} for _ in range(20)),
    "one_order.jsonl": judgments(p_first=[0.9, 0.2] * 20, candidate_first=[True] * 40),
    "prompts.csv": "question_text,label\nIs it?,yes\nWas it?,no\n",
    "prompts_same_id.csv": "id,prompt\n1,Is it?\n1,Was it?\n",
    "config_of_list.py": "def get_config():\n    return [1]\n",
    "config_fails.py": "def get_config():\n    return {'shots': 1 / 0}\n",
    "config_empty.py": "shots = 1\n",
    "config_key.py": "def get_config():\n    return {'data': 'mini', 'tasks': ('sst2',), 'shot': 1}\n",
}
"""Name -> text or bytes."""
ARRAYS = {
    "scores": SCORES, "probs": PROBS, "gold": RIGHT, "missing": MISSING, "percent": 100 * PROBS,
    "names": GOLD, "signs": 2 * RIGHT - 1, "table": rows(),
    "floored": np.where(PROBS < 0.05, -np.inf, SCORES),
    "holes": np.where(PROBS < 0.05, -9999.0, SCORES),
}  # fmt: skip
"""Name -> what a call in Python is given by it."""

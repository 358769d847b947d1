"""Files and arrays that the doors refuse, as the calls of `refusals.toml` name them.

All hold the same 40 rows, and each is wrong in one way; "good" names have nothing wrong.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence

import log_forms
import numpy as np
import response_forms
import tiny

NAMES = ("no", "yes")
RIGHT = np.array([0, 1, 1, 0, 1] * 8)
GOLD = [NAMES[right] for right in RIGHT]
MARGIN = np.random.default_rng(54).normal(2.0 * RIGHT + 0.5, 1.0).round(3)  # 1.5 nats towards yes
SCORES = -np.logaddexp(0.0, np.stack([MARGIN, -MARGIN], axis=1)).round(6)
PROBS = np.exp(SCORES).round(6)
TENS = np.stack([10 - (10 * PROBS[:, 1]).round(), (10 * PROBS[:, 1]).round()], axis=1)
"""Ten sampled answers a row."""
HARD = [NAMES[j] for j in SCORES.argmax(axis=1)]
SAMPLED = [["no"] * int(no) + ["yes"] * int(yes) for no, yes in TENS]
MISSING = np.where(PROBS < 0.05, np.nan, SCORES)
MAYBE = np.where(np.arange(40) % 4 == 3, -2.5, np.nan)
"""Scores of a third label, which most rows lack."""
THREE = np.insert(SCORES, 2, -9.0, axis=1)
EVEN, ODD = slice(0, None, 2), slice(1, None, 2)


def accuracies(scores: np.ndarray, right: np.ndarray = RIGHT) -> list[float]:
    """Accuracies in % of scores [n, k] as they are and after BC."""
    both = scores, scores - scores.mean(axis=0)
    return [round(100 * float((s.argmax(axis=1) == right).mean()), 1) for s in both]


def least(scores: np.ndarray) -> np.ndarray:
    """Scores with each missing one half a nat below the lowest of its row."""
    return np.where(np.isnan(scores), np.nanmin(scores, axis=1)[:, None] - 0.5, scores)


ANSWERS: dict[str, Sequence[float]] = {
    "all rows": accuracies(SCORES),
    "all rows twice": 2 * accuracies(SCORES),
    "all but the first": accuracies(SCORES[1:], RIGHT[1:]),
    "each half": accuracies(SCORES[:20], RIGHT[:20]) + accuracies(SCORES[20:], RIGHT[20:]),
    "each model": accuracies(SCORES[EVEN], RIGHT[EVEN]) + accuracies(SCORES[ODD], RIGHT[ODD]),
    "each count": accuracies(SCORES[EVEN], RIGHT[EVEN]) + accuracies(THREE[ODD], RIGHT[ODD]),
    "half of the bias": accuracies(SCORES - SCORES.mean(axis=0) / 2)[:1] * 2,
    "least": accuracies(least(MISSING)),
    "least of three": accuracies(least(np.insert(SCORES, 2, MAYBE, axis=1))),
    "exchanged": accuracies(SCORES, 1 - RIGHT),
    "six rows": accuracies(SCORES[:6], RIGHT[:6]),
    "six rows exchanged": accuracies(SCORES[:6], 1 - RIGHT[:6]),
    "probabilities as logits": accuracies(PROBS),
    "counts": accuracies(np.log((TENS + 0.5) / 11)),
    "counts as logits": accuracies(TENS),
    "one hot as logits": accuracies(np.eye(2)[SCORES.argmax(axis=1)]),
    "three contexts": 3 * accuracies(SCORES),
    "third label": accuracies(THREE),
    "third right once": accuracies(THREE, np.array([2, *RIGHT[1:]])),
}
"""Name -> accuracies in % before and after BC of each context."""


def rows(scores: np.ndarray = SCORES, names: Sequence[str] = NAMES, **columns: Iterable) -> list:
    """A dict for each row: its scores, None where one is missing, its right label, more columns."""
    cells = np.where(np.isnan(scores), None, scores).T.tolist()
    columns = {**dict(zip(names, cells, strict=True)), "gold": GOLD, **columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def table(lines: list[dict]) -> str:
    """Rows as CSV."""
    file = io.StringIO()
    writer = csv.DictWriter(file, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def labeled(**columns: Iterable) -> str:
    """Ids of rows and their right labels."""
    columns = {"row": range(40), "label": GOLD, **columns}
    return table(
        [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
    )


def json_lines(lines: Iterable) -> str:
    """Rows as JSON Lines."""
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def archive(**arrays: np.ndarray) -> bytes:
    """Arrays as .npz."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def log(scores: Sequence = SCORES, choices: Sequence[str] = NAMES, **more: str) -> list[dict]:
    """Lines of lm-evaluation-harness; a row has as many choices as scores."""
    lines = []
    for i, (row, right) in enumerate(zip(scores, RIGHT.tolist(), strict=True)):
        lines.append(log_forms.row(i, tuple(row), choices[: len(row)], right, **more))
    return lines


def judgments(**columns: list) -> str:
    """Judged pairs, each of 20 questions in both orders."""
    pairs = {"question": [i // 2 for i in range(40)], "candidate_first": [True, False] * 20}
    frame = pairs | columns
    return json_lines(
        dict(zip(frame, row, strict=True)) for row in zip(*frame.values(), strict=True)
    )


def answers(words: Sequence[str] = (), top: int = 2) -> str:
    """Saved answers of a chat server: words, then the label's token among so many most probable."""
    saved = []
    for probs, label in zip(PROBS, GOLD, strict=True):
        order = np.argsort(-probs)[:top] if top == 1 else (0, 1)
        body = response_forms.chat(**{NAMES[j]: float(probs[j]) for j in order}, It=1e-4)
        places = body["choices"][0]["logprobs"]["content"]
        places[:0] = [{"token": word, "logprob": 0.0, "top_logprobs": []} for word in words]
        saved.append({"gold": label, **body})
    return json_lines(saved)


def ranked_rows() -> str:
    """The most probable label first, in each row."""
    lines = []
    for pair in SCORES:
        first, second = np.argsort(-pair).tolist()
        row = {"label_1": NAMES[first], "score_1": pair[first]}
        lines.append({**row, "label_2": NAMES[second], "score_2": pair[second]})
    return table(lines)


def advice(*shares: tuple[str, float], names: Sequence[str] = NAMES) -> str:
    """A file of advice to match the shares of the first label in some contexts."""
    contexts = []
    for context, first in shares or [("good", 0.4)]:
        options = {"target_prior": dict(zip(names, (first, 1 - first), strict=True))}
        about = {"context": context, "labels": names, "method": "prior_matching"}
        about |= {"options": options, "source": "stated", "reason": ["Match the shares."]}
        contexts.append(about)
    return json.dumps({"advice": contexts})


CONFIG = "def get_config():\n    return {}\n"
ONE_ABOVE = np.vstack([[3.5, -1.0], SCORES[1:]])
NUMBERS = log(choices=("1", "0"))
for _line, _right in zip(NUMBERS, RIGHT, strict=True):
    _line["doc"]["answer"], _line["target"] = int(_right), str(_right)
EVERY_ROW = np.arange(40)[:, None]
COUNTS = [row[: 2 + i % 2] for i, row in enumerate(THREE)]
THIRD = {**log(THREE, "abc")[0], "target": 2}
INSPECT = log_forms.VALUES["inspect_ai"]
GREEDY = np.where(PROBS > 0.5, 0.0, np.nan)
LLAMA = tiny.CAUSAL_FAMILIES["llama"] | {"model_type": "llama"}
MESSAGES = [{"id": 1, "prompt": [{"role": "user", "content": "Is it?"}]}]
THOUGHT = "I", " see", " no", " sign", " of", " it", ",", " but", " maybe", " "
FILES: dict[str, str | bytes] = {
    "good.csv": table(rows()),
    "good_prompt_2.csv": table(rows(SCORES - 0.5)),
    "probs.csv": table(rows(PROBS)),
    "percent.csv": table(rows(100 * PROBS)),
    "counts.csv": table(rows(TENS)),
    "one_hot.csv": table(rows(np.eye(2)[SCORES.argmax(axis=1)])),
    "answers.csv": labeled(answer=HARD, swapped=HARD[::-1]),
    "samples.jsonl": json_lines({"answers": row} for row in SAMPLED),
    "exchanged.csv": table(rows(gold=(1 - RIGHT).tolist())),
    "six.csv": table(rows(SCORES[:6, ::-1], ("yes", "no"), gold=RIGHT[:6].tolist())),
    "losses.csv": table(rows(-SCORES)),
    "bits.csv": table(rows(SCORES / np.log(2))),
    "logits.csv": table(rows(SCORES + 20.0)),
    "one_above.csv": table(rows(ONE_ABOVE, ("logprob_no", "logprob_yes"))),
    "missing.csv": table(rows(MISSING)),
    "floor.csv": table(rows(np.nan_to_num(MISSING, nan=-1000.0))),
    "third.csv": table(rows(THREE, (*NAMES, "extra"))),
    "rare.csv": table(rows(np.insert(SCORES, 2, MAYBE, axis=1), (*NAMES, "maybe"))),
    "greedy.csv": table(rows(GREEDY)),
    "whole.csv": table(rows(votes=[i % 7 for i in range(40)])),
    "label.csv": table(rows(gold=RIGHT)).replace("gold", "label"),
    "from_one.csv": table(rows(gold=RIGHT + 1)),
    "signs.csv": table(rows(gold=2 * RIGHT - 1)),
    "misspelt.csv": table(rows(gold=["noo", *GOLD[1:]])),
    "ragged.csv": table(rows()).replace(",yes\n", "\n", 1),
    "ids.csv": table(rows(id=range(40))),
    "same_ids.csv": table(rows(id=[0, *range(39)])),
    "models.csv": table(rows(model=["a", "b"] * 20)),
    "equal.csv": table(rows(np.full((40, 2), -1.5))),
    "binary.csv": table(rows(PROBS[:, 1:], "p")),
    "head.csv": "no,yes,gold\n",
    "good_labels.csv": labeled(),
    "good_contexts.csv": labeled(context=["good"] * 40),
    "unfilled.csv": labeled(label=[""] * 40),
    "unknown_row.csv": labeled(row=[*range(39), 400]),
    "unknown_label.csv": labeled(label=["noo", *GOLD[1:]]),
    "row_again.csv": labeled(row=[0, *range(39)]),
    "two_columns.csv": labeled(number=range(40)[::-1]).replace("row", "question"),
    "zeros.csv": table(rows(id=["1.0", *range(1, 40)])),
    "notes.txt": "no scores\n",
    "table.pkl": b"\x80\x04\x95",
    "two.npz": archive(first=SCORES, second=SCORES, gold=RIGHT),
    "models.npz": archive(scores=np.stack([SCORES, SCORES]), gold=RIGHT),
    "words.npz": archive(gold=RIGHT),
    "ranked.csv": ranked_rows(),
    "set-00000-of-00002.csv": table(rows()[:20]),
    "set-00001-of-00002.csv": table(rows()[20:]),
    "samples_plain.jsonl": json_lines(log()),
    "samples_filters.jsonl": json_lines(log(filter="none") + log(SCORES - 0.25, filter="other")),
    "samples_counts.jsonl": json_lines(log(COUNTS, "abc")),
    "samples_maybe.jsonl": json_lines([THIRD, *log(THREE, "abc")[1:]]),
    "samples_numbers.jsonl": json_lines(NUMBERS),
    "samples_nan.jsonl": json_lines(log(np.where(EVERY_ROW == 0, np.nan, SCORES))),
    "results.json": json.dumps(log_forms.RESULTS),
    "sampled.json": json.dumps(INSPECT).replace('"choices": ["a', '"c": ["a'),
    "chat.jsonl": answers(),
    "top_1.jsonl": answers(top=1),
    "reasoned.jsonl": answers(THOUGHT),
    "ratings.jsonl": judgments(preference=[5, 2] * 20),
    "ratings_as_said.jsonl": judgments(p_first=[1, 0] * 20),
    "chances.jsonl": judgments(log_odds_first=[0.9, 0.2] * 20),
    "one_order.jsonl": judgments(p_first=[0.9, 0.2] * 20, candidate_first=[True] * 40),
    "good_judged.jsonl": judgments(p_first=[0.9, 0.2] * 20),
    "prompts.csv": "question_text,label\nIs it?,yes\nWas it?,no\n",
    "good_prompts.csv": "id,prompt,label\n1,Is it?,yes\n2,Was it?,no\n",
    "messages.jsonl": json_lines(MESSAGES),
    "llama/config.json": json.dumps({**LLAMA, "wide": 2}),
    "quantized/config.json": json.dumps({**LLAMA, "quantization_config": {"bits": 4}}),
    "config_of_list.py": CONFIG.replace("{}", "[1]"),
    "config_fails.py": CONFIG.replace("{}", "{'shots': 1 / 0}"),
    "advice.json": advice(),
    "advice_apart.json": advice(("one", 0.4), ("two", 0.5)),
    "advice_good_bad.json": advice(names=("good", "bad")),
    "good_config.py": CONFIG.replace("{}", "{'data': 'mini', 'tasks': ('sst2',)}"),
}  # fmt: skip
"""Name -> text or bytes."""
ARRAYS = {
    "scores": SCORES, "probs": PROBS, "missing": MISSING, "gold": RIGHT, "names": GOLD,
    "floored": np.nan_to_num(MISSING, nan=-np.inf), "counts": TENS,
}  # fmt: skip
"""Name -> what a call in Python is given by it."""

"""Logs, answers and columns as other people have them, each with the truth: see `truths.py`."""

import csv
import io
import re
from pathlib import Path
from random import Random

import numpy as np
from reading_files import lines
from truths import Case, Generator, read_by_name

from batch_calibration.importers import Reading


def make_rows(chance: Random, labels, most=12):
    """Scores by label and a right label, in rows by their id."""
    rows = {}
    for i in range(chance.randint(2, most)):
        scores = {name: round(-chance.expovariate(0.5) - 0.01, 4) for name in labels}
        rows[str(i)] = {"scores": scores, "gold": chance.choice(labels)}
    return rows


PAIRS = (("no", "yes"), ("no", "not sure"), ("positive", "positively"), ("A", "B"), ("1", "10"))
"""Labels, some of which begin others."""
BEFORE_LABEL = (
    "|Answer: |**Answer:** |**|The answer is |Final answer: **|So it is |Let us see.\n\nAnswer: |"
    '{"label": "|{"confidence": 0.9, "label": "|```json\n{"a":"|{"reason": "other no doubt", '
    '"label": "|{"note": "{first} or {second}", "label": "|{other}, one could say. Answer: |'
    "{other} or {label}? Answer: |\r\n|Answer\uff1a|Not {other}. |{other}. Answer: "
)
AFTER_LABEL = (
    '||.|**|</s>|\r\n|"}|", "reason": "{other} is wrong"}|", "p": 0.5}|. It is not {other}.|'
    ' (not {other})|!|"}\n```| since {label} it is.'
)


def several_tokens(chance: Random, folder: Path):
    """Chats whose answers hold the label somewhere; the scores are those of its own token."""
    labels = chance.choice(PAIRS)
    rows = make_rows(chance, labels, 6)
    written = []
    for row in rows.values():
        other = next(name for name in labels if name != row["gold"])
        names = {"other": other, "label": row["gold"], "first": labels[0], "second": labels[1]}
        before, after = map(chance.choice, (BEFORE_LABEL.split("|"), AFTER_LABEL.split("|")))
        for key, name in names.items():
            before, after = before.replace(f"{{{key}}}", name), after.replace(f"{{{key}}}", name)
        text = f"{before}{row['gold']}{after}"
        tokens, start, content = re.findall(r"\s*(?:\w+|[^\w\s])|\s+$", text), 0, []
        row["scores"] = {name: round(nats - 2, 4) for name, nats in row["scores"].items()}
        for token in tokens:
            likely = {name: round(-chance.expovariate(0.5) - 2, 4) for name in labels}
            if start <= len(before) < start + len(token):
                likely = row["scores"]
            start += len(token)
            # Of a label of two words its first token is listed.
            top = [{"token": name.split()[0], "logprob": x} for name, x in likely.items()]
            content.append({"token": token, "logprob": -0.1, "top_logprobs": top})
        message = {"choices": [{"logprobs": {"content": content}}], "gold": row["gold"]}
        written.append(message)
    path = folder / "several.jsonl"
    path.write_text(lines(written))
    reading = Reading(labels=labels, gold="gold")
    # An answer that cannot be told may be left out.
    yield Case(lambda: {**rows, **read_by_name(path, reading)}, rows)


MADE = """
    {a}_norm norm_{a} mean_logprob sum_logprob max_logprob total_tokens {a}_rank latency
    {a}_token_id avg_{a} logprob_diff usage {a}_tokens perplexity {a}_per_token entropy margin
"""
SHARED = (("", ""), ("logprob_", ""), ("p_", "_lp"), ("m_choice", "_logprobs"), ("logit_", ""))


def derived_columns(chance: Random, folder: Path):
    """A CSV file whose columns hold scores, numbers made of them, and texts, in any order."""
    labels = chance.choice(PAIRS)
    start, end = chance.choice(SHARED)
    rows = make_rows(chance, labels)
    columns = {f"{start}{x}{end}": [row["scores"][x] for row in rows.values()] for x in labels}
    scores = list(columns.values())
    for name in chance.sample(MADE.split(), chance.choice((0, 1, 1, 2))):
        key = name.replace("{a}", chance.choice(list(columns)))
        size = np.array(scores).sum(axis=0)
        columns[key] = [round(float(x) / chance.choice((1, 2, -1)), 4) for x in size]
    gold = [row["gold"] for row in rows.values()]
    space = chance.choice(("", "", " ", "Ġ"))
    columns["gold"] = [f"{space}{name}" for name in gold]
    names = list(columns)
    chance.shuffle(names)
    text = io.StringIO()
    ends = chance.choice(("\n", "\r\n"))
    writer = csv.writer(text, lineterminator=ends)
    writer.writerows([names, *zip(*(columns[name] for name in names), strict=True)])
    path = folder / "derived.csv"
    path.write_bytes(chance.choice(("", "\ufeff")).encode() + text.getvalue().encode())

    def read() -> dict[str, object]:
        # Labels may go by their column's name.
        full = {f"{start}{name}{end}": name for name in labels}
        found = read_by_name(path, Reading(gold="gold"))
        for row in found.values():
            row["scores"] = {full.get(name, name): x for name, x in row["scores"].items()}
            row["gold"] = full.get(row["gold"], row["gold"])
        return found

    yield Case(read, rows)


GENERATORS: tuple[Generator, ...]
GENERATORS = several_tokens, derived_columns

"""Answers of several tokens, columns of other tools, `ask` run by run, and judged pairs."""

import contextlib
import csv
import io
import math
import re
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
from api_server import Reply, running
from fuzz_logs import lines, make_rows
from reading_files import notes
from truths import Case, read_by_name

from batch_calibration import importers
from batch_calibration.cli import options
from batch_calibration.cli.asking import ask_server
from batch_calibration.errors import InputError
from batch_calibration.importers import Reading
from batch_calibration.integrations import judges

PAIRS = (("no", "yes"), ("no", "not sure"), ("positive", "positively"), ("A", "B"), ("1", "10"))
"""Labels, some of which begin others."""
BEFORE_LABEL = (
    "", "Answer: ", "**Answer:** ", "**", "The answer is ", "Final answer: **", "So it is ",
    "Let us see.\n\nAnswer: ", '{"label": "', '{"confidence": 0.9, "label": "', '```json\n{"a":"',
    '{"reason": "other no doubt", "label": "', '{"note": "{first} or {second}", "label": "',
    "{other}, one could say. Answer: ", "{other} or {label}? Answer: ", "\r\n", "Answer\uff1a",
    "Not {other}. ", "{other}. Answer: ",
)  # fmt: skip
AFTER_LABEL = (
    "", "", ".", "**", "</s>", "\r\n", '"}', '", "reason": "{other} is wrong"}', '", "p": 0.5}',
    ". It is not {other}.", " (not {other})", "!", '"}\n```', " since {label} it is.",
)  # fmt: skip


def several_tokens(chance: Random, folder: Path):
    """Chats whose answers hold the label somewhere; the scores are those of its own token."""
    labels = chance.choice(PAIRS)
    rows = make_rows(chance, labels, 6)
    written = []
    for row in rows.values():
        other = next(name for name in labels if name != row["gold"])
        names = {"other": other, "label": row["gold"], "first": labels[0], "second": labels[1]}
        before, after = chance.choice(BEFORE_LABEL), chance.choice(AFTER_LABEL)
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
        (table,) = importers.read(path, Reading(gold="gold"))
        if "may be no label's" in notes(table):
            raise InputError("a column that may be no label's is named first")
        found = read_by_name(path, Reading(gold="gold"))
        for row in found.values():
            row["scores"] = {full.get(name, name): x for name, x in row["scores"].items()}
            row["gold"] = full.get(row["gold"], row["gold"])
        return found

    yield Case(read, rows)


def answers_asked_for(chance: Random, folder: Path):
    """An output of `ask` after runs over files that change, refusals and a server that goes."""
    labels = chance.choice((("no", "yes"), ("entailment", "no"), ("not sure", "no")))
    pool = ("no", " yes", "ent", "entail", "entailment", "not", " No", "the", "sure", "x")
    top = chance.choice((2, 3, 20))

    def listed(text: str) -> dict[str, float]:
        mine = Random(f"{labels}{text}")
        tokens = mine.sample(pool, mine.randint(2, 5))
        weights = [mine.random() + 0.01 for _ in tokens]
        return {t: math.log(w / sum(weights) / 1.1) for t, w in zip(tokens, weights, strict=True)}

    gone = [math.inf]

    def reply(number: int, path: str, body: dict) -> Reply:
        text = body["messages"][0]["content"]
        if number >= gone[0]:
            return Reply("gone", 404)
        if text.startswith("filtered"):
            return Reply({"error": {"message": "policy", "code": "content_filter"}}, 400)
        content = [{"token": t, "logprob": x} for t, x in listed(text).items()]
        return Reply({"choices": [{"logprobs": {"content": [{"top_logprobs": content}]}}]})

    def scores_of(path: Path) -> dict[str, object]:
        with path.open(newline="") as file:
            return {
                row["id"]: [row[x] for x in ("prompt", *labels)] for row in csv.DictReader(file)
            }

    number = chance.randrange(10**9)
    path, output = folder / f"{number}.jsonl", folder / f"{number}.csv"
    rows = {f"r{i}": f"film {i}" for i in range(chance.randint(2, 6))}

    def ask(some: dict[str, str], into: Path) -> None:
        path.write_text(lines({"id": name, "prompt": text} for name, text in some.items()))
        flags = [f"--labels={','.join(labels)}", f"--output={into}", f"--top_logprobs={top}"]
        flags += ["--model=m", f"--server={server.address}", "--missing=least"]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            ask_server(options.parse(["ask", str(path), *flags]))

    with running(reply) as server:
        for step in range(chance.randint(1, 4)):
            how = chance.choice(("add", "add", "edit", "drop", "goes"))
            kind = chance.choice(("film", "filtered", "a\rb"))
            if how == "add":
                rows[f"s{step}"] = f"{kind} {step}"
            elif how == "edit":
                rows[chance.choice(list(rows))] = f"{kind} again {step}"
            elif how == "drop" and len(rows) > 2:
                del rows[chance.choice(list(rows))]
            gone[0] = len(server.asked) + chance.randint(0, 3) if how == "goes" else math.inf
            with contextlib.suppress(InputError):
                ask(rows, output)
        gone[0] = math.inf
        try:
            ask(rows, output)
        except InputError:  # each row by itself is then a sentence or its number, too
            return
        found = scores_of(output)
        for name, cells in list(found.items()):  # each row as if it were asked alone
            alone = folder / f"{number}-{name}.csv"
            with contextlib.suppress(InputError):
                ask({name: cells[0]}, alone)
                lists = scores_of(alone)[name]
                yield Case(partial(list, cells), lists, is_plain=True)


def judged_pairs(chance: Random, folder: Path):
    """Judged pairs whose candidate is shown first in some share; the preference of the places."""
    first, second, rows = [], [], []
    flags = chance.choice(((True, False), ("true", "false"), (1, 0), ("first", "second")))
    for number in range(chance.randint(4, 40)):
        is_first = chance.random() < chance.choice((0.2, 0.5, 0.8))
        margin = round(chance.gauss(-1, 2), 4)
        (first if is_first else second).append(margin)
        cells = {
            "candidate": "m", "question": number, "candidate_first": flags[not is_first],
            "log_odds_first": margin, "human": chance.choice(("first", "second", "")),
        }  # fmt: skip
        keys = list(cells)
        chance.shuffle(keys)
        rows.append({key: cells[key] for key in keys})
    path = folder / "judged.jsonl"
    if chance.random() < 0.5:
        path = folder / "judged.csv"
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(chance.choice(("", "\ufeff")) + text.getvalue(), newline="")
    else:
        path.write_text(lines(rows))
    means = [np.mean(margins) for margins in (first, second) if margins]

    def read() -> dict[str, object]:
        judged = judges.read_judgments([path])
        return {"nats": judges.position_preference(judged)[0],
                "people": [judged.human.tolist()]}  # fmt: skip

    people = []
    for row in rows:
        shown_first = row["candidate_first"] == flags[0]
        people.append(-1 if not row["human"] else int((row["human"] == "first") == shown_first))
    yield Case(read, {"nats": float(np.mean(means)), "people": [people]}, flags[0] != "first")


GENERATORS = (several_tokens, derived_columns, answers_asked_for, judged_pairs)

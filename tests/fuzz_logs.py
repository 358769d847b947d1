"""Logs and answers as other people have them, each with the truth: see `truths.py`."""

import json
import math
import re
from functools import partial
from pathlib import Path
from random import Random

from truths import Case, Generator, read_by_name

from batch_calibration.importers import Reading

WORDS = ("no", "yes", "maybe", "entailment", "A", "B", "World", "not so")


def make_rows(chance: Random, labels, most=12):
    """Scores by label and a right label, in rows by their id."""
    rows = {}
    for i in range(chance.randint(2, most)):
        scores = {name: round(-chance.expovariate(0.5) - 0.01, 4) for name in labels}
        rows[str(i)] = {"scores": scores, "gold": chance.choice(labels)}
    return rows


def gold_by_scores(rows):
    """The right label by the scores of a row, for files that do not name their rows."""
    golds = {}
    for row in rows.values():
        golds[" ".join(f"{x}:{y:.4f}" for x, y in sorted(row["scores"].items()))] = row["gold"]
    return golds


def read_part(path, reading, fields):
    """Read a file by scores; the rows of `rest` may be left out."""
    return {**fields, **gold_by_scores(read_by_name(path, reading))}


def lines(objects) -> str:
    return "".join(f"{json.dumps(line)}\n" for line in objects)


def repeated_keys(chance: Random, folder: Path):
    """JSON Lines one of whose objects has a key twice, with the same value or another one."""
    labels = chance.sample(WORDS, chance.choice((2, 3)))
    rows = make_rows(chance, labels)
    texts = [json.dumps({**row["scores"], "right": row["gold"]}) for row in rows.values()]
    is_whole = chance.random() < 0.3
    if not is_whole:
        line = chance.randrange(len(texts))
        key, cell = chance.choice(list(json.loads(texts[line]).items()))
        new = cell if chance.random() < 0.2 else chance.choice((-0.5, labels[0], None))
        texts[line] = f"{texts[line][:-1]}, {json.dumps(key)}: {json.dumps(new)}}}"
    path = folder / "repeated.jsonl"
    path.write_text("\n".join(texts) if chance.random() < 0.5 else f"[{', '.join(texts)}]")
    reading = Reading(labels=tuple(labels), gold="right")
    yield Case(partial(read_by_name, path, reading), rows, is_plain=is_whole)


def echoed_labels(chance: Random, folder: Path):
    """Prompts scored with each label, whose gold is a flag, a name or an index, some not whole."""
    labels = chance.sample(WORDS, chance.choice((2, 2, 3)))
    rows = make_rows(chance, labels)
    kind = chance.choice(("flag", "true", "name", "index", "own name", "own index", "several"))
    is_batch, answers = kind != "several" and chance.random() < 0.4, []
    for i, row in rows.items():
        choices, cells, right = [], [], labels.index(row["gold"])
        for j, name in enumerate(labels):
            log_probs = {
                "tokens": [f"Q{i}:", f" {name}"],
                "token_logprobs": [None, row["scores"][name]],
            }
            choices.append({"index": j, "text": "", "logprobs": log_probs})
            cells.append({
                "flag": int(j == right), "true": j == right, "name": labels[right], "index": right,
                "own name": name, "own index": j, "several": int(j <= right),
            }[kind])  # fmt: skip
        if is_batch:
            chance.shuffle(choices)
            answers.append(({"choices": choices}, cells))
        else:
            answers += [
                ({"choices": [made]}, cell) for made, cell in zip(choices, cells, strict=True)
            ]
    if not is_batch and chance.random() < 0.5:
        chance.shuffle(answers)
    written = [{"response": response, "right": cell} for response, cell in answers]
    # Where every line has a 1, the file is one of indices to the byte.
    if all(cell == 1 for _, cell in answers):
        return
    is_whole = chance.random() < 0.7
    if not is_whole:
        damage = "failed" if is_batch else chance.choice(("cut", "failed", "twice"))
        at = chance.randrange(len(written))
        if damage == "cut":
            del written[at]
        elif damage == "failed":
            written[at] = {"error": {"message": "busy"}, "right": written[at]["right"]}
        else:
            written.append({**written[at], "right": chance.choice((0, 1, labels[0]))})
    path = folder / "echoed.jsonl"
    path.write_text(lines(written))
    truth = gold_by_scores(rows)
    reading = Reading(labels=tuple(labels), gold="right")
    yield Case(partial(read_part, path, reading, {} if is_whole else truth), truth)


def prompts_of_requests(chance: Random, folder: Path):
    """Answers to several prompts in one response, in any order, and answers of a chat."""
    labels = chance.sample(WORDS[:3], 2)
    rows = make_rows(chance, labels)
    for row in rows.values():  # of one list of tokens
        row["scores"] = {name: round(score - 1, 4) for name, score in row["scores"].items()}
    waiting, written = list(rows.values()), []
    is_whole = chance.random() < 0.7
    while waiting:
        size = chance.randint(1, 4)
        batch, waiting = waiting[:size], waiting[size:]
        golds, choices = [row["gold"] for row in batch], []
        for i, row in enumerate(batch):
            log_probs = {"tokens": ["x"], "token_logprobs": [-1.0], "top_logprobs": [row["scores"]]}
            choices.append({"index": i, "text": "x", "logprobs": log_probs})
        chance.shuffle(choices)
        gold = golds if len(batch) > 1 or chance.random() < 0.5 else golds[0]
        written.append({"response": {"choices": choices}, "right": gold})
    if not is_whole:
        line = chance.choice(written)
        damage = chance.choice(("gold", "index", "again", "failed"))
        if damage == "gold":
            line["right"] = line["right"][0] if isinstance(line["right"], list) else labels
        elif damage == "index":
            line["response"]["choices"][0]["index"] = chance.choice((0, 1, 7, None))
        elif damage == "again":
            line["response"]["choices"] *= 2
        else:
            line["response"] = {"error": "busy"}
    path = folder / "batches.jsonl"
    path.write_text(lines(written))
    truth = gold_by_scores(rows)
    reading = Reading(labels=tuple(labels), gold="right", format="openai")
    yield Case(partial(read_part, path, reading, {} if is_whole else truth), truth, is_whole)


BEFORE = (
    "", "", "Let us see. ", "A dog barks, so ", "It may be A or B. ", "B looks right. Still, ",
    "Not C!\n", "First: what is asked?\n\n",
)  # fmt: skip
AFTER = ("", "", ".", "\n", ". A reason", ", not B", "\n\nA and B are alike.", ") it is.", "**")
"""Texts that models write around an answer; the article "A" may or may not be one."""


def inspect_answers(chance: Random, folder: Path):
    """Samples whose answer stands among other letters: marked, recorded, alone or not at all."""
    labels, samples, truth = "ABCD"[: chance.choice((2, 3, 4))], [], {}
    for i in range(chance.randint(2, 8)):
        answer = chance.choice(labels)
        before, after = chance.choice(BEFORE), chance.choice(AFTER)
        kind = chance.choice(("marked", "marked", "recorded", "at once", "alone", "open"))
        mark = {"marked": "ANSWER: ", "recorded": "ANSWER: "}.get(kind, "")
        if kind == "at once":
            before = after = ""
        elif kind == "alone":
            before, after = chance.choice(("", "It is ", "So: ")), chance.choice((".", "\n", ""))
        text = f"{before}{mark}{answer}{after}"
        tokens, start, answer_at = [], 0, None
        for number, token in enumerate(re.findall(r"\s*(?:\w+|[^\w\s])|\s+$", text)):
            if start <= len(before + mark) < start + len(token):
                answer_at = number
            start += len(token)
            likely = {name: round(-chance.expovariate(0.5) - 2, 4) for name in labels}
            top = [{"token": name, "logprob": nats} for name, nats in likely.items()]
            tokens.append({"token": token, "logprob": -0.1, "top_logprobs": top})
        scores = {"choice": {"value": "I", "answer": answer}} if kind == "recorded" else {}
        samples.append({
            "id": i, "epoch": 1, "choices": list(labels.lower()), "target": answer,
            "scores": scores, "output": {"choices": [{"logprobs": {"content": tokens}}]},
        })  # fmt: skip
        # What is open may be left out; what is read of it stands where it was put.
        likely = {token["token"]: token["logprob"] for token in tokens[answer_at]["top_logprobs"]}
        truth[str(i)] = {"scores": likely, "gold": answer}
    path = folder / "answers.json"
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": {}, "samples": samples}))
    yield Case(lambda: {**truth, **read_by_name(path)}, truth)


def cut_and_mixed_logs(chance: Random, folder: Path):
    """Logs of a harness, whole, cut at the end of a line, in any order, or two in one file."""
    labels = chance.sample(WORDS, chance.choice((2, 3)))
    rows = make_rows(chance, labels)
    kind = chance.choice(("whole", "shuffled", "cut", "twice", "model", "model goes on", "field"))
    is_old = chance.random() < 0.5

    def line(row_id, row, document, **more):
        pairs = [[f"Q: {document}?\nA:", f" {name}"] for name in labels]
        nats = list(row["scores"].values())
        gold = labels.index(row["gold"])
        return {
            "doc_id": int(row_id), "doc": {"question": document}, "arguments": pairs,
            "target": gold if is_old else str(gold),
            "filtered_resps": [[x if is_old else str(x), False] for x in nats],
            **({} if is_old else {"doc_hash": f"h{document}"}), **more,
        }  # fmt: skip

    log = [line(row_id, row, row_id) for row_id, row in rows.items()]
    truth, path = dict(rows), folder / "samples_t_2026-01-02T03-04-05.6.jsonl"
    if kind == "shuffled":
        chance.shuffle(log)
    elif kind == "cut":
        log = log[: chance.randint(1, len(log))]
        truth = {row_id: rows[row_id] for row_id in list(rows)[: len(log)]}
    elif kind == "twice":
        log += log
    elif kind != "whole":
        truth = None  # scores of two models are no scores of one
        for row_id, row in list(make_rows(chance, labels).items())[: len(rows)]:
            row["scores"] = {name: nats - 9 for name, nats in row["scores"].items()}
            number = int(row_id) + (0 if kind == "model" else len(rows))
            field = {"model": "b"} if kind == "field" else {}
            log.append(line(number, row, number if kind == "field" else row_id, **field))
    path.write_text(lines(log))
    counts = {"n-samples": {"t": {"original": len(rows), "effective": len(rows)}}}
    (folder / "results_2026-01-02T03-04-05.6.json").write_text(json.dumps(counts))
    yield Case(partial(read_by_name, path), truth, is_plain=truth is not None)


def labels_in_each_row(chance: Random, folder: Path):
    """Probabilities next to their labels, in an order of their own in each row."""
    labels = chance.sample(WORDS, chance.choice((2, 3, 4)))
    names, numbers = chance.choice((("labels", "scores"), ("choices", "probs")))
    written, truth = [], {}
    for i in range(chance.randint(2, 30)):
        weights = [chance.random() + 0.05 for _ in labels]
        probs = {name: weight / sum(weights) for name, weight in zip(labels, weights, strict=True)}
        gold = chance.choice(labels)
        order = sorted(labels, key=lambda name: -probs[name])
        if chance.random() < 0.2:
            chance.shuffle(order)
        written.append({names: order, numbers: [probs[name] for name in order], "gold": gold})
        nats = {name: math.log(prob) for name, prob in probs.items()}
        truth[str(i)] = {"scores": nats, "gold": gold}
    path = folder / "each_row.jsonl"
    path.write_text(lines(written))
    chosen = chance.choice(((), tuple(labels), tuple(reversed(labels))))
    yield Case(partial(read_by_name, path, Reading(labels=chosen, gold="gold", from_probs=True)),
               truth)  # fmt: skip


GENERATORS: tuple[Generator, ...] = (
    repeated_keys, echoed_labels, prompts_of_requests, inspect_answers, cut_and_mixed_logs,
    labels_in_each_row,
)  # fmt: skip

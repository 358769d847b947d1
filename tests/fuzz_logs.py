"""Logs and answers as other people have them, each with the truth: see `truths.py`."""

import json
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
        golds[" ".join(f"{name}:{row['scores'][name]:.4f}" for name in sorted(row["scores"]))] = (
            row["gold"]
        )
    return golds


def read_part(path, reading, rest):
    """What is read of a file by scores; the rows of `rest` may be left out."""
    return {**rest, **gold_by_scores(read_by_name(path, reading))}


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
    is_batch, answers = chance.random() < 0.4, []
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
                ({"choices": [choice]}, cell) for choice, cell in zip(choices, cells, strict=True)
            ]
    if not is_batch and chance.random() < 0.5:
        chance.shuffle(answers)
    written = [{"response": response, "right": cell} for response, cell in answers]
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


GENERATORS: tuple[Generator, ...] = (repeated_keys, echoed_labels)

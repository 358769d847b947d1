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


GENERATORS: tuple[Generator, ...] = (repeated_keys,)

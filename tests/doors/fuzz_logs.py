"""Logs, answers and columns as other people have them, each with the truth: see `truths.py`."""

import csv
import io
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
from reading_files import lines, notes
from truths import Case, Generator, read_by_name

from batch_calibration import importers
from batch_calibration.errors import InputError
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
        (table,) = importers.read(path, Reading(gold="gold"))
        if "All columns of real numbers are labels" in notes(table):
            raise InputError("columns that may be no label's are named first")
        found = read_by_name(path, Reading(gold="gold"))
        for row in found.values():
            row["scores"] = {full.get(name, name): x for name, x in row["scores"].items()}
            row["gold"] = full.get(row["gold"], row["gold"])
        return found

    yield Case(read, rows)


OTHER_NAMES = """
    score reward z log_odds logit margin latency latency_ms seconds duration elapsed cost cost_usd
    price tokens n_tokens prompt_tokens usage entropy perplexity ppl nll loss bpc gap rank rank_id
    confidence certainty temperature top_p seed run run_id fold split epoch step lr batch weight
    weights sample_weight prior posterior mean std var min max sum avg total count n k idx index id
    row row_id doc_id uid uuid key hash version model model_name task task_name subset subject topic
    category group cluster domain source lang language locale country city latitude longitude lat
    lon altitude depth height width length chars words age sex income salary revenue tax balance
    credit debit amount rate yield close open high low volume bid ask spread volatility beta alpha
    gamma sigma mu tau theta x y w h area distance speed angle heading pitch roll time date year
    month day hour minute timestamp created updated bp_sys bp_dia pulse bmi glucose dose weight_kg
    half_life ph temp humidity pressure wind rain co2 pm25 snr db gain freq hz amplitude phase
    signal noise bleu rouge chrf comet ter f1 precision recall auc ece brier kappa agreement votes
    likes stars rating helpful difficulty toxicity sentiment polarity subjectivity readability
    similarity cosine distance_l2 bm25 tfidf idf pagerank degree centrality attention
    avg_logprob cum_logprob sum_logprob logprob logprob_diff prob other_prob rest mass null_score
    cls_score no_answer abstain refusal human machine baseline oracle teacher student delta diff
    ratio pct percent share fraction quantile p50 p95 err error residual target_len gold_len
"""
"""Names of columns in tables of many fields."""
OWN_LABELS = (
    ("no", "yes"), ("negative", "positive"), ("ham", "spam"), ("A", "B", "C"), ("False", "True"),
    ("entailment", "neutral", "contradiction"), ("world", "sports", "business", "tech"),
    ("0", "1"), ("1", "2", "3"), ("LABEL_0", "LABEL_1"),
)  # fmt: skip


def other_column(chance: Random, scores: np.ndarray) -> list[object]:
    """Numbers or texts of a column that has no label's scores."""
    n, kind = len(scores), chance.randrange(8)
    if kind == 0:  # made of the scores
        row = scores @ [chance.uniform(-1, 1) for _ in scores.T]
        return [round(float(x), 4) for x in row]
    makes = (
        lambda i: round(chance.expovariate(1), 4),
        lambda i: round(-chance.expovariate(1), 4),
        lambda i: round(chance.gauss(0, 1), 4),
        lambda i: round(chance.random(), 4),
        lambda i: chance.randrange(100),
        lambda i: f"text {chance.randrange(5)}",
        lambda i: 0.5,
    )
    return list(map(makes[kind - 1], range(n)))


def tables_with_other_columns(chance: Random, folder: Path):
    """Known labels beside other columns, in files, frames and arrays, with gaps in any form."""
    draws, labels = np.random.default_rng(chance.randrange(2**32)), chance.choice(OWN_LABELS)
    n, k = chance.randint(6, 60), len(labels)
    mass = chance.choice((1.0, 1.0, 0.9))
    probs = mass * draws.dirichlet(np.linspace(1, 2, k), n)
    scores = np.log(probs).round(4)
    # The right labels follow the scores, without a bias of theirs.
    weights = probs / probs.mean(axis=0)
    gold = [draws.choice(k, p=row / row.sum()) for row in weights]
    gap = chance.choice((None, None, None, float("nan"), -9999.0, -100.0, -1e9))
    if gap is not None:
        scores[draws.random((n, k)) < 0.2] = gap
        scores[np.arange(n), draws.integers(k, size=n)] = -1.2346
    start, end = chance.choice(SHARED)
    names = [f"{start}{label}{end}" for label in labels]
    columns: dict[str, object] = dict(zip(names, scores.T.tolist(), strict=True))
    for name in chance.sample(OTHER_NAMES.split(), chance.choice((0, 1, 1, 2, 3))):
        columns.setdefault(name, other_column(chance, np.nan_to_num(scores)))
    if chance.random() < 0.2:
        more = chance.choice(("_norm", "_z", "_cal", "_per_byte", " (raw)"))
        columns |= {f"{x}{more}": (scores[:, j] / 2).tolist() for j, x in enumerate(names)}
    classes = list(range(k))  # of the indices: words often have another order than their columns
    if len(labels[0]) > 1 and labels[0] not in ("False", "LABEL_0") and chance.random() < 0.5:
        chance.shuffle(classes)
    form = chance.randrange(4)
    as_cell = (str, str.upper, lambda x: f" {x}", lambda x: classes.index(labels.index(x)))[form]
    columns["gold"] = [as_cell(labels[j]) for j in gold]
    if form == 3 and set(labels) & {"0", "1", "2", "3"}:
        columns["gold"] = [labels[j] for j in gold]
    order = list(columns)
    chance.shuffle(order)
    columns = {name: columns[name] for name in order}
    rows = {}
    for i in range(n):
        lacks = np.isnan(scores[i]) | (scores[i] <= -100)
        by_label = {x: (None if lacks[j] else scores[i, j]) for j, x in enumerate(labels)}
        rows[str(i)] = {"scores": by_label, "gold": labels[gold[i]]}
    reading = Reading(gold="gold", missing=None if gap is None else "least")
    frame = pd.DataFrame(columns)
    path = folder / f"t.{chance.choice(('csv', 'jsonl', 'parquet', 'frame', 'dict'))}"
    source: object = path
    if path.suffix == ".csv":
        frame.to_csv(path, index=chance.random() < 0.3)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        source = frame if path.suffix == ".frame" else columns

    def read(reading: Reading) -> dict[str, object]:
        read_it = importers.tables_of if source is not path else importers.read
        (table,) = read_it(source, reading)
        block, said = table.blocks["test"], notes(table)
        label_of = dict(zip(names, labels, strict=True))
        own = [label_of.get(name, name) for name in table.label_names]
        if set(own) != set(labels) and "All columns of real numbers are labels" in said:
            raise InputError("columns that may be no label's are named first")
        filled = {tuple(place) for place in block.spec.get("filled", [])}
        found = {}
        for i, row_id in enumerate(block.row_ids):
            by_label = dict(zip(own, map(float, block.log_probs[i]), strict=True))
            by_label |= {own[j]: None for j in range(len(own)) if (i, j) in filled}
            right = own[block.labels[i]] if block.labels[i] >= 0 else ""
            found[row_id] = {"scores": by_label, "gold": right}
        is_other = any(found[row]["gold"] != rows[row]["gold"] for row in found)
        if is_other and "is read as" in said and form == 3:
            raise InputError("the meaning of indices is named first")
        return found

    yield Case(partial(read, reading), rows)
    yield Case(partial(read, replace(reading, labels=tuple(names))), rows)


GENERATORS: tuple[Generator, ...]
GENERATORS = several_tokens, derived_columns, tables_with_other_columns

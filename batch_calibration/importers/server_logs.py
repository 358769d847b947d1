"""Saved answers of servers: scores from first tokens, whole prompts, or `/v1/score`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.server_lines import ID, Line, read_lines, split_prompts
from batch_calibration.responses import (
    RESPONSE_FORMATS,
    SPACES,
    PromptTokens,
    end_log_prob,
    label_probs,
    scores_of_top_k,
)

MAX_TOKENS_FOR_MASS = 3
"""Tokens that a label may have for the mass of all labels to tell whether the model answers so."""

# Server -> what its files have in their first bytes: all patterns of one of the tuples.
PATTERNS: dict[str, list[tuple[bytes, ...]]] = {
    "vllm": [(rb'"prompt_logprobs"\s*:\s*\[',)],
    "openai": [(rb'"choices"\s*:\s*\[\s*\{', rb'"logprobs"')],
    "sglang": [
        (rb'"meta_info"\s*:\s*\{',),
        (rb'"scores"\s*:\s*\[\s*\[', rb'"object"\s*:\s*"scoring"'),
    ],
    "llama.cpp": [(rb'"completion_probabilities"\s*:\s*\[\s*\{',)],
}


def recognizes(server: str, path: Path, start: bytes) -> bool:
    """Whether the first bytes of a file are JSON with what a server answers."""
    del path
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] not in (b"{", b"["):
        return False
    return any(all(re.search(p, text) for p in patterns) for patterns in PATTERNS[server])


def read(server: str, path: Path, reading: Reading) -> list[Imported]:
    """Scores of the labels that `reading.labels` names.

    Responses that score their prompts score the label each prompt ends with; of others the first
    generated token's list is read; `/v1/score` of SGLang has scores in the order of its ids.
    """
    response_format = RESPONSE_FORMATS[server]
    lines = read_lines(path)
    if server == "sglang" and "scores" in lines[0].body:  # a file holds one kind of response
        return [_from_label_probs(path, lines, reading)]
    if not response_format.has_prompt(lines[0].body):
        tops = [response_format.first_tokens(line.body, line.where) for line in lines]
        return [_from_first_tokens(path, lines, tops, reading, response_format.scorer)]
    if server == "openai":
        # A request may hold several prompts, each a choice.
        lines = [prompt for line in lines for prompt in split_prompts(line)]
    prompts = [response_format.prompt_tokens(line.body, line.where) for line in lines]
    return [_from_prompts(path, lines, prompts, reading, response_format.scorer)]


def _imported(
    path: Path, lines: Sequence[Line], reading: Reading, scores: np.ndarray, scorer: str
) -> Imported:
    """Scores [n, k] of `reading.labels` with what the lines [n] say beside them."""
    context: dict[str, Json] = {"task": reading.task or path.stem, "scorer": scorer}
    if isinstance(model := lines[0].body.get("model"), str):
        context["model"] = model
    # Files of batches bring ids of their own.
    ids = reading.ids or (ID if all(ID in line.fields for line in lines) else "")
    return Imported(
        str(path),
        scores,
        reading.labels,
        labels=_gold(lines, reading) if reading.gold else None,
        row_ids=tuple(line.text(ids) for line in lines) if ids else None,
        about=context,
        columns={name: [line.text(name) for line in lines] for name in reading.by},
        full=True,
    )


def _from_first_tokens(
    path: Path,
    lines: Sequence[Line],
    tops: Sequence[Mapping[str, float]],
    reading: Reading,
    scorer: str,
) -> Imported:
    """Scores of labels from the likeliest first tokens of each line."""
    labels = _labels(path, reading)
    top = scores_of_top_k(tops, labels, reading.tokens, str(path))
    for name in labels:
        if not top.tokens[name]:
            likely = list(dict.fromkeys(max(row, key=row.__getitem__) for row in tops))[:5]
            raise InputError(
                f"{path}: none of the {len(tops)} rows returned a token of the label "
                f"{shown(name)}; the likeliest returned are {shown(likely)}: name the tokens that "
                "mean it (tokens), ask for more tokens, or score the whole label."
            )
    imported = _imported(path, lines, reading, top.log_probs, scorer)
    taken = "; ".join(f"{name}: {', '.join(map(repr, t))}" for name, t in top.tokens.items())
    return replace(imported, bound=top.bound, notes=(f"Tokens taken for the labels: {taken}.",))


def _from_prompts(
    path: Path,
    lines: Sequence[Line],
    prompts: Sequence[PromptTokens],
    reading: Reading,
    scorer: str,
) -> Imported:
    """Scores from prompts that each end with one label; those of one prompt make a row."""
    labels = _labels(path, reading)
    # A prompt may stand there twice; its second scores are another row: (prompt, 2).
    rows: dict[tuple[str, int], dict[int, float]] = {}
    first_line: dict[tuple[str, int], Line] = {}
    times: dict[tuple[str, int], int] = {}
    longest = 0
    for line, prompt in zip(lines, prompts, strict=True):
        text = "".join(prompt.tokens).translate(SPACES).rstrip()
        endings = [name for name in labels if text.endswith(name.strip())]
        if not endings:
            raise InputError(
                where=line.where,
                expected=f"a prompt that ends with one of the labels ({', '.join(labels)}), "
                f"but it ends with {shown(text[-30:])}",
                remedy="name the labels as the prompts have them (--labels)",
            )
        label = max(endings, key=len)  # "not so" ends in "so" as well
        log_prob, size = end_log_prob(prompt, label, line.where)
        longest = max(longest, size)
        j, question = labels.index(label), text[: -len(label.strip())].rstrip()
        times[question, j] = times.get((question, j), 0) + 1
        row = question, times[question, j]
        rows.setdefault(row, {})[j] = log_prob
        first_line.setdefault(row, line)
    # A row that lacks a label has no bound either: nothing says how low it lies.
    for row, log_probs in rows.items():
        if len(log_probs) < len(labels):
            lacking = next(name for j, name in enumerate(labels) if j not in log_probs)
            raise InputError(
                f"{first_line[row].where}: its prompt has scores of {len(log_probs)} labels of "
                f"{len(labels)}, not of {shown(lacking)}; score each label after the same prompt."
            )
    scores = np.array([list(map(row.__getitem__, range(len(labels)))) for row in rows.values()])
    imported = _imported(path, [first_line[row] for row in rows], reading, scores, scorer)
    return replace(imported, full=longest <= MAX_TOKENS_FOR_MASS)


def _from_label_probs(path: Path, lines: list[Line], reading: Reading) -> Imported:
    """The scores of SGLang's `/v1/score`, each response of one row or many."""
    labels = _labels(path, reading)
    blocks, row_lines = [], []
    for line in lines:
        block = label_probs(line.body, line.where)
        blocks.append(block)
        row_lines += [line] * len(block)
    for line, block in zip(lines, blocks, strict=True):
        if block.shape[1] != len(labels):
            raise InputError(
                where=line.where,
                expected=f"{len(labels)} scores a row, one for each of {', '.join(labels)}",
                got=block.shape[1],
                remedy="name the labels of its label_token_ids in their order",
            )
    probs = np.concatenate(blocks)
    if len(row_lines) > len(lines):
        # The fields beside a response are of all its rows; none of them is an id of one.
        row_lines = [line.without_id() for line in row_lines]
    # A softmax over the labels alone says nothing of the other tokens.
    are_shares = bool((np.abs(probs.sum(axis=1) - 1) < 1e-3).all())  # a thousandth for rounding
    note = "The probabilities are shares among the labels (softmax), not of the whole vocabulary."
    with np.errstate(divide="ignore"):
        scores = np.log(probs)  # minus infinity where a label was not returned
    imported = _imported(path, row_lines, reading, scores, "SGLang, /v1/score")
    return replace(imported, full=False, notes=(note,)) if are_shares else imported


def _labels(path: Path, reading: Reading) -> tuple[str, ...]:
    """The labels that a person names, which no response names."""
    if len(set(reading.labels)) < max(2, len(reading.labels)):
        raise InputError(
            where=path,
            expected="the labels as the model answers them, two or more and each once",
            got=", ".join(reading.labels) or "none",
            remedy="say --labels=yes,no",
        )
    return reading.labels


def _gold(lines: Sequence[Line], reading: Reading) -> np.ndarray:
    """The right label of each line: by name, or by index where no name is a number; -1 for null."""
    # A label that is itself a number is never taken by index.
    index_of = {name.strip(): j for j, name in enumerate(reading.labels)}
    if not any(name.lstrip("-").isdecimal() for name in index_of):
        index_of |= {str(j): j for j in range(-1, len(reading.labels))}  # -1 for unknown
    answers = [line.value(reading.gold) for line in lines]
    if all(answer is None for answer in answers):
        lines[0].text(reading.gold)  # which says that there is no such field
    gold = []
    for line, answer in zip(lines, answers, strict=True):
        label = -1 if answer is None else index_of.get(str(answer).strip())
        if label is None:
            raise InputError(
                where=line.where,
                expected=f"the right label in {reading.gold!r}, one of "
                f"{', '.join(reading.labels)}, its index where none is a number, or null",
                got=shown(answer),
            )
        gold.append(label)
    return np.array(gold, np.int32)

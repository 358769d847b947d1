"""Saved answers of servers: scores from first tokens, whole prompts, or `/v1/score`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.server_lines import (
    Line,
    named_labels,
    numbers_of,
    read_lines,
    split_choices,
    to_imported,
)
from batch_calibration.importers.server_prompts import read_prompts
from batch_calibration.responses import RESPONSE_FORMATS, label_probs, scores_of_top_k, value_at

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


def recognizes(server: str, _: Path, start: bytes) -> bool:
    """Whether the first bytes of a file are JSON with what a server answers."""
    if start.lstrip()[:1] not in (b"{", b"["):
        return False
    for patterns in PATTERNS[server]:
        if all(re.search(pattern, start) for pattern in patterns):
            return True
    return False


def read(server: str, path: Path, reading: Reading) -> list[Imported]:
    """Scores of the labels that `reading.labels` names.

    Responses that score their prompts score the label each prompt ends with; of others the first
    generated token's list is read; `/v1/score` of SGLang has scores in the order of its ids.
    """
    response_format = RESPONSE_FORMATS[server]
    lines = read_lines(path)
    answered, notes = _answered(lines)
    first = answered[0].body  # a file holds one kind of response
    if server == "sglang" and "scores" in first:
        imported = _from_label_probs(path, answered, reading)
    elif not response_format.has_prompt(first):
        answered = _split_prompts(answered, reading)
        tops = [response_format.first_tokens(line.body, line.where) for line in answered]
        imported = _from_first_tokens(path, answered, tops, reading, response_format.scorer)
        notes += _note_several_answers(answered)
    else:
        # A request of completions may hold several prompts, each a choice.
        choices = list(chain.from_iterable(map(split_choices, answered)))
        prompts = [response_format.prompt_tokens(line.body, line.where) for line in choices]
        failed = len(lines) - len(answered)
        imported = read_prompts(path, choices, prompts, reading, response_format.scorer, failed)
    return [replace(imported, notes=(*notes, *imported.notes))]


def _answered(lines: list[Line]) -> tuple[list[Line], list[str]]:
    """The lines that the server answered, and a note on the others."""
    failed = [line for line in lines if line.failure]
    if not failed:
        return lines, []
    count = f"{len(failed):,} of {len(lines):,}"
    first = f"the first is {failed[0].where} ({failed[0].failure})"
    if len(failed) == len(lines):
        raise InputError(f"{failed[0].where}: {count} requests failed, {first}; ask again.")
    return [line for line in lines if not line.failure], [
        f"{count} requests failed and are left out; {first}."
    ]


def _split_prompts(lines: Sequence[Line], reading: Reading) -> list[Line]:
    """A line for each prompt that was answered; the right label of one is not that of another."""
    prompts = []
    for line in lines:
        choices = split_choices(line)
        if len(choices) > 1 and reading.gold and choices[0].is_shared(reading.gold):
            raise InputError(
                where=line.where,
                expected=f"a list of {len(choices)} right labels in {reading.gold!r}, one for each "
                "prompt of the request",
                got=shown(line.value(reading.gold)),
            )
        prompts += choices
    return prompts


def _note_several_answers(lines: Sequence[Line]) -> list[str]:
    count = sum(value_at(line.body, "choices", 1) is not None for line in lines)
    if not count:
        return []
    return [
        f"{count:,} of {len(lines):,} responses hold several answers to one prompt (n > 1); the "
        "first token's list is read from the first of them."
    ]


def _from_first_tokens(
    path: Path, lines: Sequence[Line], tops: Sequence[Mapping[str, float]], reading: Reading,
    scorer: str,
) -> Imported:  # fmt: skip
    """Scores of labels from the likeliest first tokens of each line."""
    labels = named_labels(path, reading)
    top = scores_of_top_k(tops, labels, reading.tokens, str(path))
    for name in labels:
        if not top.tokens[name]:
            likely = list(dict.fromkeys(max(row, key=row.__getitem__) for row in tops))[:5]
            raise InputError(
                f"{path}: none of the {len(tops)} rows returned a token of the label "
                f"{shown(name)}; the likeliest returned are {shown(likely)}: name the tokens that "
                "mean it (tokens), ask for more tokens, or score the whole label."
            )
    imported = to_imported(path, lines, reading, top.log_probs, scorer, row_ids=numbers_of(lines))
    taken = "; ".join(f"{name}: {', '.join(map(repr, t))}" for name, t in top.tokens.items())
    return replace(imported, bound=top.bound, notes=(f"Tokens taken for the labels: {taken}.",))


def _from_label_probs(path: Path, lines: list[Line], reading: Reading) -> Imported:
    """The scores of SGLang's `/v1/score`, each response of one row or many."""
    labels = named_labels(path, reading)
    blocks, row_lines = [], list[Line]()
    for line in lines:
        block = label_probs(line.body, line.where)
        if block.shape[1] != len(labels):
            raise InputError(
                where=line.where,
                expected=f"{len(labels)} scores a row, one for each of {', '.join(labels)}",
                got=block.shape[1],
                remedy="name the labels of its label_token_ids in their order",
            )
        blocks.append(block)
        row_lines += [line] * len(block)
    probs = np.concatenate(blocks)
    if len(row_lines) > len(lines):
        # The fields beside a response are of all its rows; none of them is an id of one.
        row_lines = [line.without_id() for line in row_lines]
    # A softmax over the labels alone says nothing of the other tokens.
    are_shares = bool((np.abs(probs.sum(axis=1) - 1) < 1e-3).all())  # a thousandth for rounding
    note = "The probabilities are shares among the labels (softmax), not of the whole vocabulary."
    with np.errstate(divide="ignore"):
        scores = np.log(probs)  # minus infinity where a label was not returned
    imported = to_imported(
        path, row_lines, reading, scores, "SGLang, /v1/score", row_ids=numbers_of(row_lines)
    )
    return replace(imported, full=False, notes=(note,)) if are_shares else imported

"""Saved answers of servers: scores from first tokens, whole prompts, or `/v1/score`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError, shown, spell
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.choices import read_flag
from batch_calibration.importers.server_lines import (
    SavedAnswer,
    answer_numbers,
    import_answers,
    named_labels,
    read_lines,
    right_labels,
    split_choices,
)
from batch_calibration.responses import (
    RESPONSE_FORMATS,
    SPACES,
    PromptTokens,
    end_log_prob,
    label_probs,
    scores_of_top_k,
    value_at,
)

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
        imported = read_scored_prompts(
            path, choices, prompts, reading, response_format.scorer, failed
        )
    return [replace(imported, notes=(*notes, *imported.notes))]


def _answered(lines: list[SavedAnswer]) -> tuple[list[SavedAnswer], list[str]]:
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


def _split_prompts(lines: Sequence[SavedAnswer], reading: Reading) -> list[SavedAnswer]:
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


def _note_several_answers(lines: Sequence[SavedAnswer]) -> list[str]:
    count = sum(value_at(line.body, "choices", 1) is not None for line in lines)
    if not count:
        return []
    return [
        f"{count:,} of {len(lines):,} responses hold several answers to one prompt (n > 1); the "
        "first token's list is read from the first of them."
    ]


def _from_first_tokens(
    path: Path, lines: Sequence[SavedAnswer], tops: Sequence[Mapping[str, float]], reading: Reading,
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
    imported = import_answers(
        path, lines, reading, top.log_probs, scorer, row_ids=answer_numbers(lines)
    )
    taken = "; ".join(f"{name}: {', '.join(map(repr, t))}" for name, t in top.tokens.items())
    return replace(imported, bound=top.bound, notes=(f"Tokens taken for the labels: {taken}.",))


def _from_label_probs(path: Path, lines: list[SavedAnswer], reading: Reading) -> Imported:
    """The scores of SGLang's `/v1/score`, each response of one row or many."""
    labels = named_labels(path, reading)
    blocks, row_lines = [], list[SavedAnswer]()
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
    imported = import_answers(
        path, row_lines, reading, scores, "SGLang, /v1/score", row_ids=answer_numbers(row_lines)
    )
    return replace(imported, full=False, notes=(note,)) if are_shares else imported


MAX_TOKENS_FOR_MASS = 3
"""Tokens that a label may have for the mass of all labels to tell whether the model answers so."""


class ScoredPrompt(NamedTuple):
    """A prompt that was scored with labels."""

    number: int  # how many other prompts stand before it
    log_probs: dict[int, float]  # label's index -> log-probability, nats
    lines: dict[int, SavedAnswer]  # label's index -> the answer that has it

    def scores(self) -> list[float]:
        """The log-probabilities in the order of the labels."""
        return [self.log_probs[label] for label in sorted(self.log_probs)]

    def cells(self, name: str) -> list[object]:
        """A field of its lines, in the order of the labels."""
        return [self.lines[label].value(name) for label in sorted(self.lines)]

    def first_line(self) -> SavedAnswer:
        """The line that stands first in the file."""
        return min(self.lines.values(), key=lambda line: line.number)

    def shares(self, name: str) -> bool:
        """Whether all its lines have the same in a field."""
        return len(set(map(str, self.cells(name)))) == 1


def read_scored_prompts(
    path: Path,
    lines: Sequence[SavedAnswer],
    scored_prompts: Sequence[PromptTokens],
    reading: Reading,
    scorer: str,
    failed: int,
) -> Imported:
    """Scores from prompts that each end with one label; those of one prompt make a row.

    Prompts that lack a label are left out where as many requests failed, and refused otherwise.
    """
    labels = named_labels(path, reading)
    prompts, longest = _group_prompts(lines, scored_prompts, labels)
    # A row that lacks a label has no bound either: nothing says how low it lies.
    rows = [prompt for prompt in prompts if len(prompt.lines) == len(labels)]
    if len(prompts) * len(labels) - len(lines) > failed:
        partial = next(prompt for prompt in prompts if len(prompt.lines) < len(labels))
        name = next(name for j, name in enumerate(labels) if j not in partial.lines)
        raise InputError(
            f"{partial.first_line().where}: its prompt has scores of {len(partial.lines)} labels "
            f"of {len(labels)}, not of {shown(name)}; score each label after the same prompt."
        )
    if not rows:
        raise InputError(where=path, expected="a prompt with a score of each label", got="none")
    for row in rows:
        for name in reading.by:
            if not row.shares(name):
                raise InputError(
                    where=row.first_line().where,
                    expected=f"one {name!r} on all lines of its prompt",
                    got=shown(row.cells(name)),
                )
    imported = import_answers(
        path,
        list(map(ScoredPrompt.first_line, rows)),
        reading,
        np.array(list(map(ScoredPrompt.scores, rows))),
        scorer,
        gold=_right_labels(prompts, rows, reading) if reading.gold else None,
        row_ids=tuple(str(row.number) for row in rows),
    )
    if len(rows) < len(prompts):
        note = f"{len(prompts) - len(rows):,} of {len(prompts):,} prompts lack a label that failed."
        imported = replace(imported, notes=(note,))
    return replace(imported, full=longest <= MAX_TOKENS_FOR_MASS)


def _group_prompts(
    lines: Sequence[SavedAnswer], scored_prompts: Sequence[PromptTokens], labels: Sequence[str]
) -> tuple[list[ScoredPrompt], int]:
    """The prompts in the file's order, and the number of tokens of the longest label."""
    # A prompt may stand there twice; its second scores are another row: (prompt, 2).
    prompts: dict[tuple[str, int], ScoredPrompt] = {}
    times: dict[tuple[str, int], int] = {}
    longest = 0
    for line, scored in zip(lines, scored_prompts, strict=True):
        text = "".join(scored.tokens).translate(SPACES).rstrip()
        endings = [name for name in labels if text.endswith(name.strip())]
        if not endings:
            raise InputError(
                where=line.where,
                expected=f"a prompt that ends with one of the labels ({', '.join(labels)}), "
                f"but it ends with {shown(text[-30:])}",
                remedy=f"name the labels as the prompts have them ({spell('labels')})",
            )
        label = max(endings, key=len)  # "not so" ends in "so" as well
        log_prob, size = end_log_prob(scored, label, line.where)
        longest = max(longest, size)
        j = labels.index(label)
        question = text[: -len(label.strip())].rstrip()
        times[question, j] = times.get((question, j), 0) + 1
        key = question, times[question, j]
        prompt = prompts.setdefault(key, ScoredPrompt(len(prompts), {}, {}))
        prompt.log_probs[j], prompt.lines[j] = log_prob, line
    return list(prompts.values()), longest


def _right_labels(
    prompts: Sequence[ScoredPrompt], rows: Sequence[ScoredPrompt], reading: Reading
) -> np.ndarray:
    """The right label of each row, a prompt with a line for each label.

    What all lines of a prompt share is a label's name or its index. What differs is a flag of the
    line, true where its own label is the right one.
    """
    name, k = reading.gold, len(reading.labels)
    prompt_of: dict[str, ScoredPrompt] = {}  # request -> the prompt that its one value is of
    for row in rows:
        for line in row.lines.values():
            if line.is_shared(name) and prompt_of.setdefault(line.request, row) is not row:
                raise InputError(
                    where=line.request,
                    expected=f"a list in {name!r} of a right label for each choice",
                    got=f"{shown(line.value(name))} for several prompts",
                )
    if all(prompt.shares(name) for prompt in prompts):
        return right_labels(list(map(ScoredPrompt.first_line, rows)), reading)
    cells = set()
    for row in rows:
        cells.add(tuple(str(cell).strip() for cell in row.cells(name)))
    # A flag of JSON is no index, and the last label may be right in every row.
    kinds = {tuple(map(str, range(k))): "index", tuple(map(str.strip, reading.labels)): "name"}
    if len(cells) == 1 and (kind := kinds.get(*cells)):
        raise InputError(
            where=rows[0].first_line().where,
            expected=f"the right label of its prompt in {name!r}",
            got=f"the {kind} of the label that each line scores itself, in all lines",
        )
    return np.array([_right_flag(row, reading) for row in rows], np.int32)


def _right_flag(row: ScoredPrompt, reading: Reading) -> int:
    """The label whose line says that it is the right one, -1 where no line says anything."""
    cells = row.cells(reading.gold)
    if all(cell is None for cell in cells):
        return -1
    flags = list(map(read_flag, cells))
    if flags.count(True) != 1 or None in flags:
        raise InputError(
            where=row.first_line().where,
            expected=f"in {reading.gold!r} the right label on all lines of its prompt, or 1 on the "
            "line of the right label and 0 on the others",
            got=shown(cells),
        )
    return flags.index(True)

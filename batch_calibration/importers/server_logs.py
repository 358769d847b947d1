"""Reads scores in saved responses of servers: of tokens, of prompts, or of `/v1/score`."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files import Json, text_at, value_at
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.gold import name_indices
from batch_calibration.importers.questions import read_flag
from batch_calibration.importers.server_lines import ID, SavedAnswer, read_answers, split_choices
from batch_calibration.importers.text_files import read_json
from batch_calibration.responses import servers, top_k
from batch_calibration.responses.answers import choose_places
from batch_calibration.responses.servers import ResponseFormat

PATTERNS = {
    # https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html
    "vllm": rb'(?=.*"prompt_logprobs"\s*:\s*\[)|'
    rb'(?=.*"outputs"\s*:\s*\[\s*\{)(?=.*"decoded_token")',
    # https://platform.openai.com/docs/api-reference
    "openai": rb'(?=.*"choices"\s*:\s*\[\s*\{)(?=.*"logprobs")|'
    rb'(?=.*"output"\s*:\s*\[\s*\{)(?=.*"top_logprobs")',
    # https://docs.sglang.ai/basic_usage/native_api.html
    # Of several choices, each is a prompt with its own score in a column.
    "sglang": rb'(?=.*"meta_info"\s*:\s*\{(?-s:(?!.*"normalized_prompt_logprobs")))|'
    rb'(?=.*"scores"\s*:\s*\[\s*\[)(?=.*"object"\s*:\s*"scoring")',
    # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
    "llama.cpp": rb'.*"completion_probabilities"\s*:\s*\[\s*\{',
    # https://docs.ollama.com/api
    "ollama": rb'(?=.*"logprobs"\s*:\s*\[\s*\{)(?=.*"model")'
    rb'(?=.*("done"|"(message|response)"\s*:))',
    # https://ai.google.dev/api/generate-content
    "gemini": rb'.*"logprobs(R|_r)esult"\s*:',
}
"""Server -> pattern of the beginning of its files, after the first bracket."""
MAX_TOKENS_FOR_MASS = 3
"""The most tokens of a label for which the labels' total probability describes the answers."""
ScoredPrompt = dict[int, tuple[float, SavedAnswer]]
"""The scores of a prompt: index of a label -> its log-probability in nats, and the answer."""


def recognizes(server: str, _: Path, start: bytes) -> bool:
    """Checks whether the first bytes of a file are JSON with answers of a server."""
    pattern = rb"\s*(data:)?\s*[{\[](" + PATTERNS[server] + rb")"
    return re.match(pattern, start, re.DOTALL) is not None


def read(server: str, path: Path, reading: Reading) -> list[Imported]:
    """Reads the scores of `reading.labels` in saved responses of a server.

    The scores are those of generated tokens, of labels at the end of prompts, or of SGLang's
    `/v1/score`, in the order of its ids.
    """
    response_format, answers = servers.RESPONSE_FORMATS[server], read_answers(path)
    if not answers:
        return read_json(path, reading)  # a response deeper inside of each row
    if len(set(reading.labels)) < max(2, len(reading.labels)):
        expected = "two or more different labels, as the model writes them"
        got, remedy = ", ".join(reading.labels) or "none", f"pass {spell('labels', ('yes', 'no'))}"
        raise InputError.at(path, expected, got, remedy, "labels")
    answered, notes = _answered(answers)
    first = answered[0].body  # a file holds one kind of response
    if server == "sglang" and "scores" in first:
        imported = _from_label_probs(path, answered, reading)
    elif response_format.has_prompt(first):
        # A request of completions may hold several prompts, each a choice.
        choices = list(chain.from_iterable(map(split_choices, answered)))
        failed = len(answers) - len(answered)
        imported = _from_prompts(path, choices, reading, response_format, failed)
    else:
        choices = list(chain.from_iterable(_split_prompts(answer, reading) for answer in answered))
        imported = _from_tokens(path, choices, reading, response_format)
    return [replace(imported, notes=(*notes, *imported.notes))]


def _from_tokens(
    path: Path, answers: list[SavedAnswer], reading: Reading, kind: ResponseFormat
) -> Imported:
    """Returns the scores of the labels at their positions among the generated tokens."""
    where = [answer.where for answer in answers]
    found = [kind.read_answer(answer.body, answer.where) for answer in answers]
    written = [answer.tokens for answer in found]
    places, notes = choose_places(written, where, reading.labels, reading.at, reading.tokens)
    rows = [i for i, place in enumerate(places) if place is not None]
    tops = [kind.tokens_at(found[i], places[i], where[i]) for i in rows]
    answers = [answers[i] for i in rows]
    top = top_k.scores_of_top_k(tops, reading.labels, reading.tokens, str(path))
    top_k.refuse_absent_labels(top, tops, str(path))
    several = sum(value_at(answer.body, "choices", 1) is not None for answer in answers)
    if several:
        notes.append(
            f"{several:,} of {len(answers):,} responses hold several answers to one prompt "
            "(n > 1); only the first answer is read."
        )
    imported = _import_answers(path, answers, reading, top.log_probs, kind.scorer)
    notes.append(servers.note_tokens(top.tokens))
    return replace(imported, bound=top.bound, notes=(*notes, *imported.notes))


def _answered(answers: list[SavedAnswer]) -> tuple[list[SavedAnswer], list[str]]:
    """Returns the responses of successful requests, and a note on failed requests."""
    answered = [answer for answer in answers if not answer.failure]
    if len(answered) == len(answers):
        return answers, []
    first = next(answer for answer in answers if answer.failure)
    count = f"{len(answers) - len(answered):,} of {len(answers):,}"
    reason = f"the first is {first.where} ({first.failure})"
    if not answered:
        raise InputError(f"{first.where}: {count} requests failed, {reason}; ask again.")
    return answered, [f"{count} requests failed and are left out; {reason}."]


def _split_prompts(answer: SavedAnswer, reading: Reading) -> list[SavedAnswer]:
    """Returns an answer for each prompt of a request; raises if they share a right label."""
    choices = split_choices(answer)
    if len(choices) > 1 and reading.gold and choices[0].is_shared(reading.gold):
        expected = f"a list of {len(choices)} right labels in {reading.gold!r}, one for each prompt"
        raise InputError.at(answer.where, expected, shown(answer.value(reading.gold)))
    return choices


def _from_label_probs(path: Path, answers: list[SavedAnswer], reading: Reading) -> Imported:
    """Returns the scores of SGLang's `/v1/score`, with one or more rows per response."""
    blocks, answer_of_row = [], list[SavedAnswer]()
    for answer in answers:
        block = servers.label_probs(answer.body, answer.where)
        if block.shape[1] != len(reading.labels):
            expected = f"a score in each row for each of {', '.join(reading.labels)}"
            remedy = "name the labels in the order of label_token_ids"
            raise InputError.at(answer.where, expected, block.shape[1], remedy)
        blocks.append(block)
        answer_of_row += [answer] * len(block)
    probs = np.concatenate(blocks)
    if len(probs) > len(answers):
        # A response's fields belong to all its rows, so its id identifies no row.
        answer_of_row = [answer.without_id() for answer in answer_of_row]
    with np.errstate(divide="ignore"):
        scores = np.log(probs)  # minus infinity where a label was not returned
    imported = _import_answers(path, answer_of_row, reading, scores, "SGLang, /v1/score")
    # A softmax over the labels excludes other tokens; a thousandth is rounding.
    if not (np.abs(probs.sum(axis=1) - 1) < 1e-3).all():
        return imported
    note = "The probabilities are a softmax over the labels, not over the whole vocabulary."
    return replace(imported, full=False, notes=(note, *imported.notes))


# Prompts that each end with a label


def _from_prompts(
    path: Path, answers: list[SavedAnswer], reading: Reading, kind: ResponseFormat, failed: int
) -> Imported:
    """Returns scores of prompts that end with a label; the answers to one prompt are a row.

    Prompts without all labels are left out if enough requests failed; otherwise they raise an
    error.
    """
    labels = reading.labels
    prompts, longest = _group_prompts(answers, kind, labels)
    # A row that lacks a label has no bound for its score, so it is left out.
    rows = {number: prompt for number, prompt in enumerate(prompts) if len(prompt) == len(labels)}
    if len(prompts) * len(labels) - len(answers) > failed:
        partial = next(prompt for prompt in prompts if len(prompt) < len(labels))
        absent = next(name for j, name in enumerate(labels) if j not in partial)
        raise InputError(
            f"{_first_answer(partial).where}: its prompt has scores of {len(partial)} of "
            f"{len(labels)} labels, not of {shown(absent)}; score each label after the same prompt."
        )
    if not rows:
        raise InputError.at(path, "a prompt with a score for each label", "none")
    scores = np.zeros((len(rows), len(labels)))  # in nats
    for i, prompt in enumerate(rows.values()):
        scores[i] = [prompt[label][0] for label in sorted(prompt)]
        for name in reading.by:
            if not _is_shared(prompt, name):
                expected = f"the same {name!r} on all lines of a prompt"
                got = shown(_cells(prompt, name))
                raise InputError.at(_first_answer(prompt).where, expected, got)
    gold = _right_labels(prompts, list(rows.values()), reading) if reading.gold else None
    firsts = list(map(_first_answer, rows.values()))
    ids = tuple(map(str, rows))
    imported = _import_answers(path, firsts, reading, scores, kind.scorer, gold=gold, row_ids=ids)
    if len(rows) < len(prompts):
        note = f"{len(prompts) - len(rows):,} of {len(prompts):,} prompts lack a failed label."
        imported = replace(imported, notes=(note, *imported.notes))
    return replace(imported, full=longest <= MAX_TOKENS_FOR_MASS)


def _group_prompts(
    answers: list[SavedAnswer], kind: ResponseFormat, labels: Sequence[str]
) -> tuple[list[ScoredPrompt], int]:
    """Returns the prompts in the file's order, and the number of tokens of the longest label."""
    # A prompt may occur twice; its second scores are another row: (prompt, 2).
    prompts: dict[tuple[str, int], ScoredPrompt] = {}
    times: dict[tuple[str, int], int] = {}
    longest = 0
    for answer in answers:
        scored = kind.prompt_tokens(answer.body, answer.where)
        texts = {}  # label -> the prompt that ends with it
        for name in labels:
            ended = "".join(servers.without_end(scored, name).tokens)
            text = ended.translate(top_k.SPACES).rstrip()
            if text.endswith(name.strip()):
                texts[name] = text
        if not texts:
            expected = f"a prompt that ends with one of the labels ({', '.join(labels)})"
            remedy = f"name the labels as the prompts have them ({spell('labels')})"
            raise InputError.at(answer.where, expected, shown(text[-30:]), remedy)
        label = max(texts, key=len)  # "not so" ends in "so" as well
        log_prob, size = servers.end_log_prob(scored, label, answer.where)
        longest, j = max(longest, size), labels.index(label)
        question = texts[label][: -len(label.strip())].rstrip()
        times[question, j] = times.get((question, j), 0) + 1
        prompts.setdefault((question, times[question, j]), {})[j] = (log_prob, answer)
    return list(prompts.values()), longest


def _cells(prompt: ScoredPrompt, name: str) -> list[object]:
    """Returns a field of a prompt's answers, in the order of the labels."""
    return [prompt[label][1].value(name) for label in sorted(prompt)]


def _is_shared(prompt: ScoredPrompt, name: str) -> bool:
    """Checks whether a field is equal in all answers to a prompt."""
    return len(set(map(str, _cells(prompt, name)))) == 1


def _first_answer(prompt: ScoredPrompt) -> SavedAnswer:
    """Returns the prompt's first answer in the file."""
    return min((answer for _, answer in prompt.values()), key=lambda answer: answer.number)


def _right_labels(
    prompts: Sequence[ScoredPrompt], rows: Sequence[ScoredPrompt], reading: Reading
) -> np.ndarray:
    """Returns the right label [n] of each row, a prompt with an answer for each label.

    A field that is equal in all answers to a prompt is a label's name or its index. Another field
    is a flag, which is true in the answer with the right label.
    """
    name, k = reading.gold, len(reading.labels)
    prompt_of: dict[str, ScoredPrompt] = {}  # request -> the prompt of its single value
    for row in rows:
        for _, answer in row.values():
            if answer.is_shared(name) and prompt_of.setdefault(answer.request, row) is not row:
                expected = f"a list in {name!r} with a right label for each choice"
                got = f"{shown(answer.value(name))} for several prompts"
                raise InputError.at(answer.request, expected, got)
    if all(_is_shared(prompt, name) for prompt in prompts):
        return _label_indices(list(map(_first_answer, rows)), reading)[0]
    cells = {tuple(map(str.strip, map(str, _cells(row, name)))) for row in rows}
    # A flag of JSON is no index, and the last label may be right in every row.
    kinds = {tuple(map(str, range(k))): "index", tuple(map(str.strip, reading.labels)): "name"}
    if len(cells) == 1 and (kind := kinds.get(*cells)):
        expected = f"the right label of its prompt in {name!r}"
        got = f"the {kind} of the label that the line itself scores, on all lines"
        raise InputError.at(_first_answer(rows[0]).where, expected, got)
    gold = np.full(len(rows), -1, np.int32)  # -1 where no answer has a flag
    for i, row in enumerate(rows):
        flags = list(map(read_flag, _cells(row, name)))
        if flags.count(True) == 1 and None not in flags:
            gold[i] = flags.index(True)
        elif _cells(row, name) != [None] * k:
            expected = f"{name!r} with the right label on all lines of a prompt, or 1 on its line"
            raise InputError.at(_first_answer(row).where, expected, shown(_cells(row, name)))
    return gold


# Answers as rows of scores


def _import_answers(
    path: Path,
    answers: Sequence[SavedAnswer],
    reading: Reading,
    scores: np.ndarray,
    scorer: str,
    *,
    gold: np.ndarray | None = None,
    row_ids: tuple[str, ...] | None = None,
) -> Imported:
    """Returns the scores [n, k] of `reading.labels` with the fields of the answers [n].

    Args:
        path: The file.
        answers: The answer of each row.
        reading: The user's description of the file, which names the fields.
        scores: The scores in nats.
        scorer: The scorer's name in the context.
        gold: [n], the indices of right labels. None reads them from the field `reading.gold`.
        row_ids: The ids of answers without an id. None numbers the answers.
    """
    context: dict[str, Json] = {"task": reading.task or path.stem, "scorer": scorer}
    if model := text_at(answers[0].body, "model"):
        context["model"] = model
    order, notes = tuple[str, ...](), tuple[str, ...]()
    if gold is None and reading.gold:
        gold, order, notes = _label_indices(answers, reading)
    # Files of batches have ids of their own.
    ids = reading.ids or (ID if all(ID in answer.fields for answer in answers) else "")
    numbers = tuple(str(answer.number) for answer in answers)
    if ids:
        row_ids = tuple(answer.text(ids) for answer in answers)
    elif row_ids is None and len(set(numbers)) == len(numbers):  # no response has several rows
        row_ids = numbers
    columns = {}
    for name in reading.by:
        columns[name] = [answer.text(name) for answer in answers]
    imported = Imported(str(path), scores, reading.labels, gold, row_ids, about=context, full=True)
    return replace(imported, columns=columns, notes=notes, index_names=order)


def _label_indices(
    answers: Sequence[SavedAnswer], reading: Reading
) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Returns the right label [n] of each answer, the order of its indices, and notes.

    A right label is a name, or an index if no name is a number; null becomes -1. The order is () if
    right labels are names.
    """
    # A label that is itself a number is never taken by index.
    index_of = {name.strip(): j for j, name in enumerate(reading.labels)}
    if not any(name.lstrip("-").isdecimal() for name in index_of):
        index_of |= {str(j): j for j in range(-1, len(reading.labels))}  # -1 for unknown
    cells = [answer.value(reading.gold) for answer in answers]
    if all(cell is None for cell in cells):
        answers[0].text(reading.gold)  # raises: there is no such field
    gold = []
    texts, order, notes = name_indices(cells, reading.labels, reading.gold_names)
    for answer, cell, text in zip(answers, cells, texts, strict=True):
        label = -1 if cell is None else index_of.get(text)
        if label is None:
            expected = f"the right label in {reading.gold!r}: its name, index or null"
            got = f"{shown(cell)} for the labels {', '.join(reading.labels)}"
            raise InputError.at(answer.where, expected, got)
        gold.append(label)
    return np.array(gold, np.int32), order, notes

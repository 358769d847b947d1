"""The ways of asking a server for label scores: what is sent, and what is read from the answer."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays import absent
from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers import openai, sglang, vllm
from batch_calibration.importers.top_k import scores_of_top_k
from batch_calibration.scoring.api.answers import Asked
from batch_calibration.settings import ApiScores

ROUNDING = 1e-3
"""Nats that a log-probability may lie above 0 by rounding."""


class Question(NamedTuple):
    """One text and the labels that may follow it.

    Attributes:
        model: what the server calls the model.
        text: the prompt.
        forms: the texts of all labels.
        top: how many of the likeliest first tokens are asked for.
        ids: the prompt's token ids, for ways that send ids.
        label_ids: the token id of each form, for such ways.
    """

    model: str
    text: str
    forms: tuple[str, ...]
    top: int
    ids: tuple[int, ...] = ()
    label_ids: tuple[int, ...] = ()


Part = list[float] | Mapping[str, float]
"""What one answer says: scores of some forms in their order, or first tokens and their scores."""


class Way(NamedTuple):
    """A way of asking.

    Attributes:
        requests: of a question, in the order of its forms where each has one.
        read: answer, question and number of the request -> what the answer says.
        first_tokens: whether answers are lists of first tokens.
        sends_ids: whether token ids are sent, which takes a tokenizer.
        instead: what to try where a server cannot do it.
    """

    requests: Callable[[Question], list[Asked]]
    read: Callable[[Json, Question, int], Part]
    first_tokens: bool = False
    sends_ids: bool = False
    instead: str = ""


def _completion(question: Question, **others: Json) -> Asked:
    body: dict[str, Json] = {
        "model": question.model,
        "prompt": question.text,
        "max_tokens": 1,
        "temperature": 0,
    }
    return Asked("completions", body | others)


def _echo(question: Question) -> list[Asked]:
    return [
        _completion(question, prompt=question.text + form, echo=True, logprobs=1)
        for form in question.forms
    ]


def _read_echo(answer: Json, question: Question, number: int) -> Part:
    form = question.forms[number]
    return [_at_most_0(openai.label_log_prob(_object(answer), form, "the answer"))]


def _prompt_logprobs(question: Question) -> list[Asked]:
    return [
        _completion(question, prompt=question.text + form, prompt_logprobs=0)
        for form in question.forms
    ]


def _read_prompt_logprobs(answer: Json, question: Question, number: int) -> Part:
    return [_at_most_0(vllm.label_log_prob(_object(answer), question.forms[number], "the answer"))]


def _logprob_token_ids(question: Question) -> list[Asked]:
    return [
        _completion(
            question,
            prompt=list(question.ids),
            logprobs=1,
            logprob_token_ids=list(question.label_ids),
            return_tokens_as_token_ids=True,
        )
    ]


def _read_logprob_token_ids(answer: Json, question: Question, _: int) -> Part:
    row = vllm.first_token_top_k(_object(answer), "the answer")
    names = [f"token_id:{number}" for number in question.label_ids]
    lacking = [name for name in names if name not in row]
    if lacking:
        raise InputError(
            where="the answer",
            expected=f"the log-probabilities of {', '.join(names)}",
            got=f"none of {', '.join(lacking)}",
            remedy="vLLM's servers take logprob_token_ids from July 2026 on",
        )
    return [_at_most_0(row[name]) for name in names]


def _score(question: Question) -> list[Asked]:
    body: dict[str, Json] = {
        "model": question.model,
        "query": list(question.ids[:-1]),
        "items": [[question.ids[-1]]],
        "label_token_ids": list(question.label_ids),
        "apply_softmax": False,
    }
    return [Asked("score", body)]


def _read_score(answer: Json, question: Question, _: int) -> Part:
    probs = sglang.label_probs(_object(answer), "the answer")
    if probs.shape != (1, len(question.label_ids)):
        raise InputError(
            where="the answer",
            expected=f"scores [1, {len(question.label_ids)}]",
            got=probs.shape,
        )
    if not probs.all():
        raise InputError(
            "the answer: a label's probability is 0, too small for the numbers that it gives."
        )
    return [float(value) for value in np.log(probs[0])]


def _top_k(question: Question) -> list[Asked]:
    return [_completion(question, logprobs=question.top)]


def _chat(question: Question) -> list[Asked]:
    body: dict[str, Json] = {
        "model": question.model,
        "messages": [{"role": "user", "content": question.text}],
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": question.top,
    }
    return [Asked("chat/completions", body)]


def _read_top_k(answer: Json, question: Question, _: int) -> Part:
    row = openai.first_token_top_k(_object(answer), "the answer")
    # What the whole list says is checked before the answer is kept.
    scores_of_top_k([row], (), where="the answer")
    return row


def _at_most_0(nats: float) -> float:
    if not nats <= ROUNDING or absent(np.array(nats)):
        raise InputError(
            where="the answer",
            expected="a label's log-probability in nats, at most 0",
            got=f"{nats:g}",
        )
    return nats


def _object(answer: Json) -> Mapping[str, object]:
    if not isinstance(answer, dict):
        raise InputError(where="the answer", expected="a JSON object", got=shown(answer))
    return answer


WAYS: dict[ApiScores, Way] = {
    "echo": Way(_echo, _read_echo, instead="prompt_logprobs (vLLM), top_k or chat"),
    "prompt_logprobs": Way(
        _prompt_logprobs, _read_prompt_logprobs, instead="echo, score (SGLang), top_k or chat"
    ),
    "logprob_token_ids": Way(
        _logprob_token_ids,
        _read_logprob_token_ids,
        sends_ids=True,
        instead="prompt_logprobs (older vLLM), score (SGLang), echo or top_k",
    ),
    "score": Way(_score, _read_score, sends_ids=True, instead="echo, top_k or chat"),
    "top_k": Way(_top_k, _read_top_k, first_tokens=True, instead="chat or echo"),
    "chat": Way(_chat, _read_top_k, first_tokens=True, instead="top_k or echo"),
}
"""Setting `api_scores` -> how it is done."""

"""The ways of asking a server for label scores: what is sent, and what is read from the answer."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays import find_missing
from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.responses import RESPONSE_FORMATS, label_probs, scores_of_top_k, value_at
from batch_calibration.scoring.api.answers import Request
from batch_calibration.scoring.api.echoes import label_log_probs
from batch_calibration.settings import ApiScores

ROUNDING = 1e-3  # nats that a log-probability may lie above 0 by rounding
SUM_ROUNDING = 0.02
"""What the sum of a decision's probabilities may differ from 1 by: servers round to few digits."""
DECISION_NAME, DECISION = "label", "Which option goes on after the text?"
"""How the one question of a decision is called, and what it asks: the state is the whole prompt."""
WHERE = "the answer"  # what sentences call it


class Question(NamedTuple):
    """One text and the labels that may follow it."""

    model: str  # what the server calls the model
    text: str  # the prompt
    forms: tuple[str, ...]  # the texts of all labels
    top: int  # how many of the likeliest first tokens are asked for
    ids: tuple[int, ...] = ()  # the prompt's token ids, for protocols that send ids
    label_ids: tuple[int, ...] = ()  # the token id of each form, for such protocols


FormScores = list[float] | Mapping[str, float]
"""What one answer says: scores of some forms in their order, or first tokens and their scores."""


class ApiProtocol(NamedTuple):
    """A way of asking."""

    # Of a question, in the order of its forms where each has one.
    requests: Callable[[Question], list[Request]]
    # Answer, question and number of the request -> what the answer says.
    read: Callable[[Json, Question, int], FormScores]
    first_tokens: bool = False  # whether answers are lists of first tokens
    sends_ids: bool = False  # whether token ids are sent, which takes a tokenizer
    asks_all: bool = False  # whether one request names all labels
    instead: str = ""  # what to try where a server cannot do it

    @property
    def asks_once(self) -> bool:
        """Whether one request is about all labels of a prompt."""
        return self.first_tokens or self.sends_ids or self.asks_all


def _completion(question: Question, **fields: Json) -> Request:
    body: dict[str, Json] = {"model": question.model, "prompt": question.text}
    # Some servers refuse 0 tokens.
    return Request("completions", body | {"max_tokens": 1, "temperature": 0} | fields)


def _per_form(question: Question, **fields: Json) -> list[Request]:
    """A request for each form, which ends its prompt."""
    return [_completion(question, prompt=question.text + form, **fields) for form in question.forms]


def _read_prompt(server: str, answer: Json, question: Question, number: int) -> FormScores:
    """The score of the form that a prompt ends with."""
    prompt = RESPONSE_FORMATS[server].prompt_tokens(_object(answer), WHERE)
    # Of the prompt's tokens too: a server that has one above 0 gives no log-probabilities.
    for log_prob in prompt.log_probs:
        if log_prob > ROUNDING:
            _at_most_0(log_prob)
    form, hides_first = question.forms[number], server == "vllm"
    log_probs = label_log_probs(prompt, question.text, form, WHERE, hides_first)
    return [_at_most_0(float(log_probs.sum()))]


def _logprob_token_ids(question: Question) -> list[Request]:
    ids: Json = list(question.label_ids)
    asks = {"logprobs": 1, "logprob_token_ids": ids, "return_tokens_as_token_ids": True}
    return [_completion(question, prompt=list(question.ids), **asks)]


def _read_logprob_token_ids(answer: Json, question: Question, _: int) -> FormScores:
    log_probs = RESPONSE_FORMATS["vllm"].first_tokens(_object(answer), WHERE)
    _refuse_other_size(answer, len(question.ids))
    names = [f"token_id:{number}" for number in question.label_ids]
    lacking = [name for name in names if name not in log_probs]
    if lacking:
        raise InputError(
            where=WHERE,
            expected=f"the log-probabilities of {', '.join(names)}",
            got=f"none of {', '.join(lacking)}",
            remedy="vLLM's servers take logprob_token_ids from July 2026 on",
        )
    return [_at_most_0(log_probs[name]) for name in names]


def _score(question: Question) -> list[Request]:
    body: dict[str, Json] = {
        "model": question.model,
        # SGLang joins query and item; the last token of the prompt is the item.
        "query": list(question.ids[:-1]),
        "items": [[question.ids[-1]]],
        "label_token_ids": list(question.label_ids),
        "apply_softmax": False,  # probabilities over the vocabulary, not among labels
    }
    return [Request("score", body)]


def _read_score(answer: Json, question: Question, _: int) -> FormScores:
    probs, k = label_probs(_object(answer), WHERE), len(question.label_ids)
    if probs.shape != (1, k):
        raise InputError(where=WHERE, expected=f"scores [1, {k}]", got=probs.shape)
    if not probs.all():
        raise InputError(
            f"{WHERE}: a label's probability is 0, too small for the numbers that it gives."
        )
    return list(map(float, np.log(probs[0])))


def _top_k(question: Question) -> list[Request]:
    return [_completion(question, logprobs=question.top)]


def _chat(question: Question) -> list[Request]:
    messages: Json = [{"role": "user", "content": question.text}]
    body: dict[str, Json] = {"model": question.model, "messages": messages}
    body |= {"max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": question.top}
    return [Request("chat/completions", body)]


def _read_top_k(answer: Json, question: Question, _: int) -> FormScores:
    log_probs = RESPONSE_FORMATS["openai"].first_tokens(_object(answer), WHERE)
    # What the whole list says is checked before the answer is kept.
    scores_of_top_k([log_probs], (), where=WHERE)
    return log_probs


def _systemone(question: Question) -> list[Request]:
    # In the order of their names, so that a prior does not depend on how a task orders its labels.
    options: dict[str, Json] = dict.fromkeys(sorted(map(str.strip, question.forms)))
    if len(options) < len(question.forms):
        raise InputError(
            where="config.api_scores=systemone", expected="labels of different names",
            got=shown(list(question.forms)), remedy="give each label one form of its own",
        )  # fmt: skip
    decision: Json = {"type": "choice", "instructions": DECISION, "criteria": options}
    body: dict[str, Json] = {"model": question.model, "state": question.text}
    return [Request("systemone", body | {"questions": {DECISION_NAME: decision}})]


def _read_systemone(answer: Json, question: Question, _: int) -> FormScores:
    """The logarithms of the probabilities of the options, which sum to 1."""
    probabilities = value_at(answer, "answers", DECISION_NAME, "probabilities")
    names = [form.strip() for form in question.forms]
    if not isinstance(probabilities, dict) or set(probabilities) != set(names):
        raise InputError(
            where=WHERE, expected=f"a probability for each of {', '.join(names)}",
            got=shown(probabilities),
        )  # fmt: skip
    scores = []
    for name in names:
        share = probabilities[name]
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise InputError(
                where=f"{WHERE}, {name!r}", expected="a probability above 0, of 1 at most",
                got=shown(share),
            )  # fmt: skip
        scores.append(float(np.log(share)))
    total = float(np.exp(scores).sum())
    if abs(total - 1.0) > SUM_ROUNDING:
        raise InputError(where=WHERE, expected="probabilities of sum 1", got=f"{total:.4g}")
    return scores


def _at_most_0(log_prob: float) -> float:
    # Written so that NaN is refused too.
    if not log_prob <= ROUNDING or find_missing(np.array(log_prob)):
        expected = "a label's log-probability in nats, at most 0"
        raise InputError(where=WHERE, expected=expected, got=f"{log_prob:g}")
    return log_prob


def _object(answer: Json) -> Mapping[str, object]:
    """An answer to one prompt."""
    if not isinstance(answer, dict):
        raise InputError(where=WHERE, expected="a JSON object", got=shown(answer))
    choices, index = answer.get("choices"), value_at(answer, "choices", 0, "index")
    if isinstance(choices, list) and (len(choices) > 1 or index not in (None, 0)):
        raise InputError(
            where=WHERE,
            expected="one choice, of index 0",
            got=f"{len(choices)}, the first of index {shown(index)}",
        )
    return answer


def _refuse_other_size(answer: Json, size: int) -> None:
    """Refuse an answer to a prompt of other tokens than were sent, where the server counts them."""
    counted = value_at(answer, "usage", "prompt_tokens")
    if isinstance(counted, int) and counted != size:
        raise InputError(
            where=WHERE,
            expected=f"the answer to a prompt of {size:,} tokens",
            got=f"one to {counted:,}",
            remedy="the server cuts or changes prompts: send shorter ones (config.over_long)",
        )


PROTOCOLS: dict[ApiScores, ApiProtocol] = {
    "echo": ApiProtocol(
        partial(_per_form, echo=True, logprobs=1),
        partial(_read_prompt, "openai"),
        instead="prompt_logprobs (vLLM), top_k or chat",
    ),
    "prompt_logprobs": ApiProtocol(
        partial(_per_form, prompt_logprobs=0),
        partial(_read_prompt, "vllm"),
        instead="echo, score (SGLang), top_k or chat",
    ),
    "logprob_token_ids": ApiProtocol(
        _logprob_token_ids,
        _read_logprob_token_ids,
        sends_ids=True,
        instead="prompt_logprobs (older vLLM), score (SGLang), echo or top_k",
    ),
    "score": ApiProtocol(_score, _read_score, sends_ids=True, instead="echo, top_k or chat"),
    "top_k": ApiProtocol(_top_k, _read_top_k, first_tokens=True, instead="chat or echo"),
    "chat": ApiProtocol(_chat, _read_top_k, first_tokens=True, instead="top_k or echo"),
    "systemone": ApiProtocol(_systemone, _read_systemone, asks_all=True, instead="chat or top_k"),
}
"""Setting `api_scores` -> how it is done."""

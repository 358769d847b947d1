"""Saved responses of OpenAI-style servers: chat, completions, and completions that echo prompts."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from batch_calibration.errors import InputError
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.echoed import Echo, log_prob_of_end, of_echoes
from batch_calibration.importers.responses import (
    Line,
    add,
    found,
    holds,
    number,
    of_top_k,
    read_lines,
)

SCORER = "OpenAI-style responses"
ASK = "ask with logprobs=true and top_logprobs=20 (chat) or logprobs=5 (completions)"


def recognizes(path: Path, start: bytes) -> bool:
    """Whether the first bytes hold a response with choices and their log-probabilities."""
    return holds(start, rb'"choices"\s*:\s*\[\s*\{') and holds(start, rb'"logprobs"')


def read(path: Path, reading: Reading) -> list[Imported]:
    """Scores of the labels that `reading.labels` names.

    Responses that echo their prompts score the label each prompt ends with; of others the first
    generated token's list is read.
    """
    lines = read_lines(path)
    if echoes(lines[0].body):
        # A request may hold several prompts, each a choice.
        parts = [one for line in lines for one in _prompts(line)]
        return [
            of_echoes(path, parts, [echo(p.body, p.where) for p in parts], reading, scorer=SCORER)
        ]
    rows = [first_token_top_k(line.body, line.where) for line in lines]
    return [of_top_k(path, lines, rows, reading, scorer=SCORER)]


def first_token_top_k(response: Mapping[str, object], where: str = "response") -> dict[str, float]:
    """Token -> log-probability in nats of the likeliest first tokens that were generated.

    Raises:
        InputError: there are no log-probabilities, or none of other tokens than the answer.

    >>> tops = [{"token": "yes", "logprob": -0.1}, {"token": "no", "logprob": -2.5}]
    >>> first_token_top_k({"choices": [{"logprobs": {"content": [{"top_logprobs": tops}]}}]})
    {'yes': -0.1, 'no': -2.5}
    """
    given = _log_probs(response, where)
    if "content" not in given and found(response, "choices", 1) is not None:
        raise InputError(
            where=where,
            expected="the answer to one prompt",
            got="several choices",
            remedy="send each prompt in a request of its own, with n=1",
        )
    row: dict[str, float] = {}
    if "content" in given or "top_logprobs" not in given:
        tops = found(given, "content", 0, "top_logprobs")
        for one in tops if isinstance(tops, list) else []:
            add(row, found(one, "token"), found(one, "logprob"), where)
    else:
        tops = found(given, "top_logprobs", _generated(response, given))
        for token, value in tops.items() if isinstance(tops, Mapping) else []:
            add(row, token, value, where)
    if not row:
        raise InputError(f"{where}: its first token has no list of the likeliest tokens; {ASK}.")
    return row


def label_log_prob(response: Mapping[str, object], label: str, where: str = "response") -> float:
    """Log-probability in nats of the label that an echoed prompt ends with.

    The request has echo=true, logprobs=1 and max_tokens=0, or 1 where the server needs it.

    Raises:
        InputError: no prompt is echoed; see `echoed.log_prob_of_end`.
    """
    return log_prob_of_end(echo(response, where), label, where)[0]


def echoes(response: Mapping[str, object]) -> bool:
    """Whether a response has the log-probabilities of its prompt: the first token has none."""
    values = found(response, "choices", 0, "logprobs", "token_logprobs")
    return isinstance(values, list) and len(values) > 1 and values[0] is None


def echo(response: Mapping[str, object], where: str = "response") -> Echo:
    """The prompt of a response, token by token.

    Raises:
        InputError: no prompt is echoed.
    """
    given = _log_probs(response, where)
    tokens, values = given.get("tokens"), given.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list) or len(tokens) != len(values):
        raise InputError(
            where=where,
            expected="as many tokens as token_logprobs",
            remedy="ask with echo=true, logprobs=1",
        )
    text, whole = found(response, "choices", 0, "text"), "".join(map(str, tokens))
    if isinstance(text, str) and whole and text != whole and text.startswith(whole):
        # llama-cpp-python does so for models without a beginning token.
        raise InputError(
            f"{where}: its text goes on after its tokens, so that each log-probability is that of "
            "the token before; use first-token lists (logprobs without echo) with this server."
        )
    end = _generated(response, given)
    if not all(isinstance(token, str) for token in tokens) or end < 1:
        raise InputError(
            where=where,
            expected="the prompt's tokens",
            got="those of the answer alone",
            remedy="ask with echo=true, of a server that supports it",
        )
    return Echo(tuple(tokens[:end]), tuple(number(value, where) for value in values[:end]))


def _log_probs(response: Mapping[str, object], where: str) -> Mapping[str, object]:
    if not isinstance(found(response, "choices", 0), Mapping):
        raise InputError(where=where, expected="a response with choices", got="none")
    given = found(response, "choices", 0, "logprobs")
    if not isinstance(given, Mapping):
        raise InputError(
            f"{where}: its logprobs are {'null' if given is None else 'no object'}; {ASK}, of a "
            "model that gives them."
        )
    return given


def _generated(response: Mapping[str, object], given: Mapping[str, object]) -> int:
    """Place of the first generated token among those returned, which may begin with the prompt."""
    values = given.get("token_logprobs")
    if not isinstance(values, list) or not values or values[0] is not None:
        return 0
    new = found(response, "usage", "completion_tokens")
    return len(values) - new if isinstance(new, int) and 0 <= new <= len(values) else len(values)


def _prompts(line: Line) -> list[Line]:
    """A line for each prompt of a request."""
    choices = line.body.get("choices")
    if not isinstance(choices, list) or len(choices) < 2:
        return [line]
    new = found(line.body, "usage", "completion_tokens")
    usage = {"completion_tokens": new // len(choices) if isinstance(new, int) else 0}
    named = {"model": line.body.get("model"), "usage": usage}
    return [replace(line.without_id(), body={**named, "choices": [one]}) for one in choices]

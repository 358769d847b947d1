"""Saved responses of vLLM with the log-probabilities of the prompt (`prompt_logprobs`)."""

from collections.abc import Mapping
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.importers import openai
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.echoed import Echo, log_prob_of_end, of_echoes
from batch_calibration.importers.responses import found, holds, number, read_lines

SCORER = "vLLM, prompt_logprobs"


def recognizes(path: Path, start: bytes) -> bool:
    """Whether the first bytes hold `prompt_logprobs` that are not null."""
    return holds(start, rb'"prompt_logprobs"\s*:\s*\[')


def read(path: Path, reading: Reading) -> list[Imported]:
    """Scores of the labels that `reading.labels` names: each prompt ends with one of them."""
    lines = read_lines(path)
    echoes = [echo(line.body, line.where) for line in lines]
    return [of_echoes(path, lines, echoes, reading, scorer=SCORER)]


def first_token_top_k(response: Mapping[str, object], where: str = "response") -> dict[str, float]:
    """Token -> log-probability in nats of the first token's list, as OpenAI's responses have it.

    With `logprob_token_ids` these are the tokens that were asked for.

    Raises:
        InputError: there are no log-probabilities.
    """
    return openai.first_token_top_k(response, where)


def label_log_prob(response: Mapping[str, object], label: str, where: str = "response") -> float:
    """Log-probability in nats of the label that the prompt ends with.

    Raises:
        InputError: no prompt_logprobs; see `echo` and `echoed.log_prob_of_end`.

    >>> place = {"7": {"logprob": -0.5, "rank": 1, "decoded_token": " yes"}}
    >>> label_log_prob({"choices": [{"prompt_logprobs": [None, place]}]}, "yes")
    -0.5
    """
    return log_prob_of_end(echo(response, where), label, where)[0]


def echo(response: Mapping[str, object], where: str = "response") -> Echo:
    """The prompt of a response, token by token.

    A place lists the prompt's own token and the likeliest ones; which is its own the ids say
    (return_token_ids=true), or that it is alone (prompt_logprobs=0).

    Raises:
        InputError: no prompt_logprobs, no texts of tokens, or it is not plain which are the
            prompt's.
    """
    ways = (("choices", 0), ())
    places = next((x for way in ways if (x := found(response, *way, "prompt_logprobs"))), None)
    ids = next((x for way in ways if (x := found(response, *way, "prompt_token_ids"))), None)
    if not isinstance(places, list):
        raise InputError(
            f"{where}: its prompt_logprobs are null; ask with prompt_logprobs=0, of a vLLM server."
        )
    tokens, values = [], []
    for i, place in enumerate(places):
        if place is None:
            tokens.append("")
            values.append(float("nan"))
            continue
        own = found(place, str(found(ids, i)))
        if own is None and isinstance(place, Mapping) and len(place) == 1:
            (own,) = place.values()
        if own is None:
            raise InputError(
                f"{where}: place {i} of its prompt_logprobs is {shown(place)}, and it is not plain "
                "which token is the prompt's; ask with prompt_logprobs=0, or return_token_ids=true."
            )
        text = found(own, "decoded_token")
        if not isinstance(text, str):
            raise InputError(
                f"{where}: place {i} of its prompt_logprobs has no decoded_token; ask for texts."
            )
        tokens.append(text)
        values.append(number(found(own, "logprob"), where))
    return Echo(tuple(tokens), tuple(values))

"""Saved responses of llama.cpp's server: `/completion` with n_probs."""

import math
from collections.abc import Mapping
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.responses import add, found, holds, number, of_top_k, read_lines

SCORER = "llama.cpp server"
KEYS = ("completion_probabilities", "probs")


def recognizes(path: Path, start: bytes) -> bool:
    """Whether the first bytes hold the probabilities of a completion."""
    return holds(start, rb'"completion_probabilities"\s*:\s*\[\s*\{')


def read(path: Path, reading: Reading) -> list[Imported]:
    """Scores of the labels that `reading.labels` names, from the first token's list."""
    lines = read_lines(path)
    rows = [first_token_top_k(line.body, line.where) for line in lines]
    return [of_top_k(path, lines, rows, reading, scorer=SCORER)]


def first_token_top_k(response: Mapping[str, object], where: str = "response") -> dict[str, float]:
    """Token -> log-probability in nats of the likeliest first tokens.

    Servers until December 2024 give `probs` of {tok_str, prob}, later ones `top_logprobs` of
    {token, logprob}.

    Raises:
        InputError: there are none; probabilities after sampling settings.

    >>> top = [{"token": "yes", "logprob": -0.1}]
    >>> first_token_top_k({"completion_probabilities": [{"top_logprobs": top}]})
    {'yes': -0.1}
    """
    place = next((x for key in KEYS if (x := found(response, key, 0))), None)
    row: dict[str, float] = {}
    if found(place, "top_probs"):
        raise InputError(
            f"{where}: its probabilities are of what the sampling settings left, not of the model; "
            "ask with post_sampling_probs=false."
        )
    tops, old = found(place, "top_logprobs"), found(place, "probs")
    for one in tops if isinstance(tops, list) else []:
        add(row, found(one, "token"), found(one, "logprob"), where)
    for one in old if isinstance(old, list) and not row else []:
        prob = number(found(one, "prob"), where)
        if not 0 <= prob <= 1:
            raise InputError(where=where, expected="a probability from 0 to 1", got=shown(prob))
        add(row, found(one, "tok_str"), math.log(prob) if prob else -math.inf, where)
    if not row:
        raise InputError(
            f"{where}: it has no completion_probabilities; ask /completion with n_probs=20 and "
            "n_predict=1."
        )
    return row

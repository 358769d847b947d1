"""Values in a server's JSON, prompts that it scores token by token, and probabilities of labels."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays import MAX_LOG_PROB, find_missing
from batch_calibration.errors import InputError, shown
from batch_calibration.responses.top_k import SPACES

Response = Mapping[str, object]  # one answer, a JSON object
MIN_LABEL_MASS = 0.5
"""Mean probability of all labels together, below which the model mostly answered otherwise."""


def value_at(document: object, *keys: str | int) -> object:
    """What stands at the end of a path through objects and lists, None where it breaks off."""
    for key in keys:
        if isinstance(key, str) and isinstance(document, Mapping):
            document = document.get(key)
        elif isinstance(key, int) and isinstance(document, list) and len(document) > key:
            document = document[key]
        else:
            return None
    return document


def list_at(document: object, *keys: str | int) -> list[object]:
    """The list at the end of a path, an empty one where there is none."""
    members = value_at(document, *keys)
    return members if isinstance(members, list) else []


def read_number(number: object, where: str) -> float:
    """A number of JSON; null is the sentinel for one that was not returned."""
    if number is None:
        return float("nan")
    # True is an int to Python, and no log-probability.
    if isinstance(number, int | float) and not isinstance(number, bool):
        try:
            return float(number)
        except OverflowError:  # a whole number of hundreds of digits
            pass
    raise InputError(where=where, expected="a log-probability in nats", got=shown(number))


def read_numbers(numbers: Iterable[object], where: str) -> list[float]:
    """Several numbers of JSON."""
    return [read_number(number, where) for number in numbers]


def read_log_prob(number: object, where: str) -> float:
    """A log-probability, null for one that was not returned."""
    return check_log_prob(read_number(number, where), where)


def check_log_prob(number: float, where: str) -> float:
    """The same number, where a log-probability may be it."""
    if number > MAX_LOG_PROB:
        raise InputError(
            where=where,
            expected="a log-probability in nats, which is at most 0",
            got=f"{number:g}",
            remedy="if these are losses (negated log-probabilities), write them with their sign; "
            "if probabilities, write their logarithms",
        )
    return number


def add_token(log_probs: dict[str, float], token: object, log_prob: object, where: str) -> None:
    """Add a token's probability; tokens of one text are one, and one listed twice too."""
    if not isinstance(token, str):
        raise InputError(where=where, expected="the text of a token", got=shown(token))
    nats = read_log_prob(log_prob, where)
    if token not in log_probs:
        log_probs[token] = nats
    elif log_probs[token] != nats:
        # Another token with this text; some servers list the sampled token a second time.
        log_probs[token] = float(np.logaddexp(log_probs[token], nats))


class PromptTokens(NamedTuple):
    """A prompt that ends with a label, token by token."""

    tokens: tuple[str, ...]  # their texts
    # Of each token given those before it, in nats; NaN where it is not known.
    log_probs: tuple[float, ...]


def end_log_prob(prompt: PromptTokens, label: str, where: str) -> tuple[float, int]:
    """Log-probability of the label that a prompt ends with, and the number of its tokens.

    A space that belongs to the label's first token is scored with it.

    Raises:
        InputError: it ends with another text; a token holds the end of the prompt and the beginning
            of the label; a log-probability is not there.

    >>> end_log_prob(PromptTokens(("Is it?", " y", "es"), (-9.0, -2.0, -0.5)), "yes", "")
    (-2.5, 2)
    """
    start, end = len(prompt.tokens), ""
    # Backwards, until the tokens hold as many letters as the label.
    while start and len(end.strip()) < len(label.strip()):
        start -= 1
        # Byte-level and SentencePiece tokens write a space as another letter.
        end = prompt.tokens[start].translate(SPACES) + end
    if not end.strip().endswith(label.strip()):
        raise InputError(
            where=where,
            expected=f"a prompt that ends with the label {shown(label)}, but it ends with "
            f"{shown(end)}",
            remedy="send prompt and label together and ask for no new token (max_tokens=0)",
        )
    if end.strip() != label.strip():
        raise InputError(
            f"{where}: the token {shown(prompt.tokens[start])} holds the end of the prompt and the "
            f"beginning of the label {shown(label)}, so neither has a score of its own; end the "
            "prompt without a space and begin the label with it."
        )
    log_probs = np.array(prompt.log_probs[start:])
    if find_missing(log_probs).any():
        raise InputError(
            f"{where}: the log-probability of a token of the label {shown(label)} is not there; "
            "ask for the log-probability of each token of the prompt."
        )
    return float(log_probs.sum()), len(log_probs)


def label_probs(response: Response, where: str = "response") -> np.ndarray:
    """The probabilities [n, k] of an SGLang `/v1/score` response, ordered as its label_token_ids.

    Raises:
        InputError: no scores, or no probabilities.

    >>> label_probs({"scores": [[0.9, 0.1]]}).tolist()
    [[0.9, 0.1]]
    """
    rows = response.get("scores")
    if not isinstance(rows, list) or not rows or not all(_is_like(row, rows[0]) for row in rows):
        raise InputError(where=where, expected="scores as one list a row, all as long", got="none")
    probs = np.array([read_numbers(row, where) for row in rows], np.float64)
    # A thousandth more than 1 is rounding.
    if not ((probs >= 0) & (probs <= 1)).all() or (probs.sum(axis=1) > 1 + 1e-3).any():
        raise InputError(
            where=where,
            expected="probabilities from 0 to 1 that sum to at most 1",
            got=shown(probs[0].tolist()),
        )
    return probs


def _is_like(row: object, first: object) -> bool:
    """Whether two rows are lists of one length."""
    return isinstance(row, list) and isinstance(first, list) and len(row) == len(first)


def refuse_constant(scores: np.ndarray, where: str) -> None:
    """Refuse answers of servers that do not score what they are asked."""
    is_constant = bool((scores == scores.flat[0]).all())
    if is_constant and scores.size > scores.shape[-1]:  # the scores of one row may well be equal
        raise InputError(
            f"{where}: every score is {scores.flat[0]:g}: whatever gave them did not score the "
            "labels; some servers answer so when they do not support log-probabilities."
        )


def label_mass(scores: np.ndarray) -> float:
    """The probability that all labels together have in a row [n, k], on average."""
    # Rounding may put a score above 0.
    return float(np.exp(np.minimum(scores, 0.0)).sum(axis=-1).mean())


def note_little_mass(mass: float) -> tuple[str, ...]:
    """A note where the model mostly answered with no label."""
    if mass >= MIN_LABEL_MASS:
        return ()
    return (
        f"All labels together have {100 * mass:.1f} % of the probability on average: the model "
        "mostly answers otherwise, and the scores say little about its answers.",
    )

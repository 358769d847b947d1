"""Saved responses of SGLang: `/v1/score`, and `/generate` with return_logprob."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.echoed import Echo, log_prob_of_end, of_echoes
from batch_calibration.importers.responses import (
    Line,
    add,
    found,
    holds,
    imported,
    named_labels,
    number,
    of_top_k,
    read_lines,
)

SCORER = "SGLang"


def recognizes(path: Path, start: bytes) -> bool:
    """Whether the first bytes hold `meta_info` with log-probabilities, or `scores` of a score."""
    return holds(start, rb'"meta_info"\s*:\s*\{') or (
        holds(start, rb'"scores"\s*:\s*\[\s*\[') and holds(start, rb'"object"\s*:\s*"scoring"')
    )


def read(path: Path, reading: Reading) -> list[Imported]:
    """Scores of the labels that `reading.labels` names, of `/v1/score` in the order of its ids."""
    lines = read_lines(path)
    if "scores" in lines[0].body:
        return [_scored(path, lines, reading)]
    if not _tops(lines[0].body):
        echoes = [echo(line.body, line.where) for line in lines]
        return [of_echoes(path, lines, echoes, reading, scorer=SCORER)]
    rows = [first_token_top_k(line.body, line.where) for line in lines]
    return [of_top_k(path, lines, rows, reading, scorer=SCORER)]


def first_token_top_k(response: Mapping[str, object], where: str = "response") -> dict[str, float]:
    """Token -> log-probability in nats of the first generated token, of `/generate`.

    The likeliest tokens and those of `token_ids_logprob`; without texts a token is "token_id:7".

    Raises:
        InputError: there are none.

    >>> first_token_top_k({"meta_info": {"output_top_logprobs": [[[-0.1, 7, " yes"]]]}})
    {' yes': -0.1}
    """
    row: dict[str, float] = {}
    seen = set()
    for one in _tops(response):
        value, token, text = (found(one, i) for i in range(3))
        if not isinstance(token, int):
            raise InputError(where=where, expected="[log-prob, token id, text]", got=shown(one))
        if token in seen:
            continue
        seen.add(token)
        add(row, f"token_id:{token}" if text is None else text, value, where)
    if not row:
        raise InputError(
            f"{where}: its meta_info has no output_top_logprobs and no output_token_ids_logprobs; "
            "ask /generate with return_logprob=true, top_logprobs_num=20 and max_new_tokens=1 "
            "(input_token_ids_logprobs are of the prompt's own places, not of the answer)."
        )
    return row


def label_log_prob(response: Mapping[str, object], label: str, where: str = "response") -> float:
    """Log-probability in nats of the label that the prompt of a `/generate` request ends with.

    Raises:
        InputError: no log-probabilities of the prompt; see `echoed.log_prob_of_end`.
    """
    return log_prob_of_end(echo(response, where), label, where)[0]


def echo(response: Mapping[str, object], where: str = "response") -> Echo:
    """The prompt of a response, token by token.

    Raises:
        InputError: no log-probabilities of the prompt, or no texts of its tokens.
    """
    given = found(response, "meta_info", "input_token_logprobs")
    if not isinstance(given, list) or not given:
        raise InputError(
            f"{where}: its meta_info has no input_token_logprobs; ask /generate with "
            "return_logprob=true, logprob_start_len=0 and return_text_in_logprobs=true."
        )
    texts = [found(one, 2) for one in given]
    if not all(isinstance(text, str) for text in texts):
        raise InputError(
            f"{where}: its input_token_logprobs have no texts; ask with "
            "return_text_in_logprobs=true."
        )
    return Echo(tuple(map(str, texts)), tuple(number(found(one, 0), where) for one in given))


def label_probs(response: Mapping[str, object], where: str = "response") -> np.ndarray:
    """The probabilities [n, k] of a `/v1/score` response, in the order of its label_token_ids.

    Raises:
        InputError: no scores, or no probabilities.

    >>> label_probs({"scores": [[0.9, 0.1]]}).tolist()
    [[0.9, 0.1]]
    """
    given = response.get("scores")
    each = [one for one in given if isinstance(one, list)] if isinstance(given, list) else []
    if not each or len(each) < len(given) or len({len(one) for one in each}) != 1:  # type: ignore[arg-type]
        raise InputError(where=where, expected="scores as one list a row, all as long", got="none")
    probs = np.array([[number(value, where) for value in one] for one in each], np.float64)
    if not ((probs >= 0) & (probs <= 1)).all() or (probs.sum(axis=1) > 1 + 1e-3).any():
        raise InputError(
            where=where,
            expected="probabilities from 0 to 1 that sum to at most 1",
            got=shown(probs[0].tolist()),
        )
    return probs


def _scored(path: Path, lines: list[Line], reading: Reading) -> Imported:
    """The scores of `/v1/score` responses, each of one row or many."""
    labels = named_labels(path, reading)
    parts = [label_probs(line.body, line.where) for line in lines]
    for line, part in zip(lines, parts, strict=True):
        if part.shape[1] != len(labels):
            raise InputError(
                where=line.where,
                expected=f"{len(labels)} scores a row, one for each of {', '.join(labels)}",
                got=f"{part.shape[1]}",
                remedy="name the labels of its label_token_ids in their order",
            )
    probs = np.concatenate(parts)
    rows = [line for line, part in zip(lines, parts, strict=True) for _ in part]
    if len(rows) > len(lines):
        # The fields beside a response are of all its rows; none of them is an id of one.
        rows = [row.without_id() for row in rows]
    soft = bool((np.abs(probs.sum(axis=1) - 1) < 1e-3).all())
    note = "The probabilities are shares among the labels (softmax), not of the whole vocabulary."
    with np.errstate(divide="ignore"):
        scores = np.log(probs)
    return imported(
        path,
        rows,
        reading,
        scores,
        scorer=f"{SCORER}, /v1/score",
        full=not soft,
        notes=(note,) if soft else (),
    )


def _tops(response: Mapping[str, object]) -> list[object]:
    """What the first generated place lists."""
    names = ("output_top_logprobs", "output_token_ids_logprobs")
    parts = [found(response, "meta_info", name, 0) for name in names]
    return [one for part in parts if isinstance(part, list) for one in part]

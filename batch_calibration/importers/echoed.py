"""Scores of whole labels at the end of prompts, from the log-probability of each token."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays import absent
from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.responses import Line, imported, named_labels
from batch_calibration.importers.top_k import SPACES

SHORT = 3
"""Tokens that a label may have for the mass of all labels to tell whether the model answers so."""


class Echo(NamedTuple):
    """A prompt that ends with a label, token by token.

    Attributes:
        tokens: their texts.
        log_probs: of each token given those before it, in nats; NaN where it is not known.
    """

    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]


def log_prob_of_end(echo: Echo, label: str, where: str) -> tuple[float, int]:
    """Log-probability of the label that a prompt ends with, and the number of its tokens.

    A space that belongs to the label's first token is scored with it.

    Raises:
        InputError: it ends with another text; a token holds the end of the prompt and the beginning
            of the label; a log-probability is not there.

    >>> log_prob_of_end(Echo(("Is it?", " y", "es"), (-9.0, -2.0, -0.5)), "yes", "")
    (-2.5, 2)
    """
    start, text = len(echo.tokens), ""
    while start and len(text.strip()) < len(label.strip()):
        start -= 1
        text = echo.tokens[start].translate(SPACES) + text
    if not text.strip().endswith(label.strip()):
        raise InputError(
            where=where,
            expected=f"a prompt that ends with the label {shown(label)}, but it ends with "
            f"{shown(text)}",
            remedy="send prompt and label together and ask for no new token (max_tokens=0)",
        )
    if text.strip() != label.strip():
        raise InputError(
            f"{where}: the token {shown(echo.tokens[start])} holds the end of the prompt and the "
            f"beginning of the label {shown(label)}, so neither has a score of its own; end the "
            "prompt without a space and begin the label with it."
        )
    values = np.array(echo.log_probs[start:])
    if absent(values).any():
        raise InputError(
            f"{where}: the log-probability of a token of the label {shown(label)} is not there; "
            "ask for the log-probability of each token of the prompt."
        )
    return float(values.sum()), len(values)


def of_echoes(
    path: Path,
    lines: Sequence[Line],
    echoes: Sequence[Echo],
    reading: Reading,
    *,
    scorer: str,
) -> Imported:
    """Scores from prompts that each end with one label; those of one prompt make a row.

    Raises:
        InputError: a prompt that ends with no label; a label that a prompt lacks.
    """
    labels = named_labels(path, reading)
    rows: dict[tuple[str, int], dict[int, float]] = {}
    first: dict[tuple[str, int], Line] = {}
    times: dict[tuple[str, int], int] = {}
    longest = 0
    for line, echo in zip(lines, echoes, strict=True):
        text = "".join(echo.tokens).translate(SPACES).rstrip()
        ends = [name for name in labels if text.endswith(name.strip())]
        if not ends:
            raise InputError(
                where=line.where,
                expected=f"a prompt that ends with one of the labels ({', '.join(labels)}), "
                f"but it ends with {shown(text[-30:])}",
                remedy="name the labels as the prompts have them (--labels)",
            )
        label = max(ends, key=len)
        value, size = log_prob_of_end(echo, label, line.where)
        longest = max(longest, size)
        j, prompt = labels.index(label), text[: -len(label.strip())].rstrip()
        # A prompt may stand there twice; its second scores are another row.
        times[prompt, j] = times.get((prompt, j), 0) + 1
        key = prompt, times[prompt, j]
        rows.setdefault(key, {})[j] = value
        first.setdefault(key, line)
    for key, row in rows.items():
        if len(row) < len(labels):
            lacking = next(name for j, name in enumerate(labels) if j not in row)
            raise InputError(
                f"{first[key].where}: its prompt has scores of {len(row)} labels of "
                f"{len(labels)}, not of {shown(lacking)}; score each label after the same prompt."
            )
    scores = np.array([[row[j] for j in range(len(labels))] for row in rows.values()])
    return imported(
        path, [first[key] for key in rows], reading, scores, scorer=scorer, full=longest <= SHORT
    )

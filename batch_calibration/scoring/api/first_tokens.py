"""Scores of labels from the likeliest first tokens of each answer."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays import Missing, absent, fill
from batch_calibration.errors import shown
from batch_calibration.importers.top_k import scores_of_top_k
from batch_calibration.scoring import LabelTexts


class FirstTokens(NamedTuple):
    """What lists of first tokens say of labels.

    Attributes:
        scores: float32 [n, k], nats; NaN in rows that are not kept.
        kept: [n], which rows have a score for every label.
        lacking: how many lists lack a label.
        never: a sentence on each label that no list has.
    """

    scores: np.ndarray
    kept: np.ndarray
    lacking: int
    never: tuple[str, ...]


def of_labels(
    rows: Sequence[Mapping[str, float]], labels: LabelTexts, missing: Missing, where: str
) -> FirstTokens:
    """Scores of labels; `importers.top_k` says which tokens mean one, `censored` what is missing.

    Args:
        rows: for each answer token -> log-probability in nats.
        labels: k labels, each a text or several.
        missing: what is done about labels that a list lacks.
        where: the server, for sentences.

    Raises:
        InputError: lists that are none of log-probabilities; labels that one token begins.

    >>> of_labels([{" yes": -1.0, " no": -2.0}], [" yes", " no"], "least", "a server").scores
    array([[-1., -2.]], dtype=float32)
    """
    forms = [(label,) if isinstance(label, str) else tuple(label) for label in labels]
    names = [own[0].strip() for own in forms]
    several = {name: own for name, own in zip(names, forms, strict=True) if len(own) > 1}
    top = scores_of_top_k(rows, names, several, where)
    likely = list(dict.fromkeys(max(row, key=row.__getitem__) for row in rows))[:5]
    never = tuple(
        f"No answer has a token of the label {name!r} among its likeliest; the first are "
        f"{shown(likely)}: raise config.top_logprobs, choose label words that the model answers "
        "with, or ask for whole labels (config.api_scores=echo)."
        for name in names
        if not top.tokens[name]
    )
    filled, kept = fill(top.log_probs, missing, top.bound)
    scores = np.full(top.log_probs.shape, np.nan, np.float32)
    scores[kept] = filled
    return FirstTokens(scores, kept, int(absent(top.log_probs).any(axis=1).sum()), never)

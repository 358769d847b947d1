"""Scores of labels from lists of first tokens, and what a reader of all scores must know."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays import Missing, fill_scores, find_missing
from batch_calibration.errors import shown
from batch_calibration.responses import label_mass, note_little_mass, scores_of_top_k
from batch_calibration.scoring import LabelTexts


class FirstTokenScores(NamedTuple):
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


def score_first_tokens(
    rows: Sequence[Mapping[str, float]], labels: LabelTexts, missing: Missing, where: str
) -> FirstTokenScores:
    """Scores of labels; `responses.scores_of_top_k` says which tokens mean one.

    Args:
        rows: for each answer token -> log-probability in nats.
        labels: k labels, each a text or several.
        missing: what is done about labels that a list lacks.
        where: the server, for sentences.

    Raises:
        InputError: lists that are none of log-probabilities; labels that one token begins.

    >>> score_first_tokens([{" yes": -1.0, " no": -2.0}], [" yes", " no"], "least", "it").scores
    array([[-1., -2.]], dtype=float32)
    """
    names, tokens = [], {}
    for label in labels:
        forms = (label,) if isinstance(label, str) else tuple(label)
        names.append(forms[0].strip())  # a label of several forms is called by its first
        if len(forms) > 1:  # those of one form match as it does, without capitals too
            tokens[names[-1]] = forms
    top = scores_of_top_k(rows, names, tokens, where)
    # The likeliest token of each row, five different ones at most.
    likely = list(dict.fromkeys(max(row, key=row.__getitem__) for row in rows))[:5]
    never = tuple(
        f"No answer has a token of the label {name!r} among its likeliest; the first are "
        f"{shown(likely)}: raise config.top_logprobs, choose label words that the model answers "
        "with, or ask for whole labels (config.api_scores=echo)."
        for name in names
        if not top.tokens[name]
    )
    filled, is_kept = fill_scores(top.log_probs, missing, top.bound)
    scores = np.full(top.log_probs.shape, np.nan, np.float32)
    scores[is_kept] = filled
    lacking = int(find_missing(top.log_probs).any(axis=1).sum())
    return FirstTokenScores(scores, is_kept, lacking, never)


class Notes:
    """Counts what answers lacked, over all contexts of a run.

    Args:
        top: how many first tokens were asked for.
        missing: what is done about labels that are not among them.
    """

    def __init__(self, top: int, missing: Missing):
        self._top = top
        self._missing = missing
        self._rows = self._lacking = 0
        self._mass = 0.0
        self._sentences: dict[str, None] = {}

    def add(self, scores: np.ndarray, lacking: int = 0, sentences: Iterable[str] = ()) -> None:
        """Count scores [n, k], answers without a label, and sentences."""
        if len(scores):
            self._mass += label_mass(scores) * len(scores)
            self._rows += len(scores)
        self._lacking += lacking
        self._sentences |= dict.fromkeys(sentences)

    def sentences(self) -> list[str]:
        """A sentence on each thing to know."""
        sentences = list(note_little_mass(self._mass / self._rows)) if self._rows else []
        if self._lacking:
            ways = {"least": "put just below the least of them", "drop": "left out"}
            way = ways.get(str(self._missing), f"put at {self._missing} nats")
            sentences.append(
                f"{self._lacking:,} answers lack a label among their {self._top} likeliest tokens: "
                f"{way} (config.missing)."
            )
        return [*sentences, *self._sentences]

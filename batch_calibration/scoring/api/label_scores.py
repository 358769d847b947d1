"""Scores of labels from lists of first tokens, and what a reader of all scores must know."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays.missing_scores import (
    Missing,
    fill_scores,
    find_missing,
    refuse_greedy,
)
from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files import count_at, value_at
from batch_calibration.responses import servers, top_k
from batch_calibration.scoring import LabelScores, LabelTexts

LONGEST_PROMPT, MAX_NAMED = 80, 3
"""Letters of a prompt that a sentence shows, its last, and prompts that it shows."""
SEVERAL, UNLIKE = 3, 1.2
"""Prompts of one number of tokens, and how many times as long the longest is, that look cut."""


class FirstTokenScores(NamedTuple):
    """Label scores from lists of first tokens."""

    scores: np.ndarray  # float32 [n, k], nats; NaN in rows that are not kept
    is_kept: np.ndarray  # [n], which rows have a score for every label
    is_filled: np.ndarray  # [n, k], which scores no list has
    never: tuple[str, ...]  # a sentence on each label that no list has


def score_first_tokens(
    rows: Sequence[top_k.LogProbs], labels: LabelTexts, missing: Missing, where: str, asked: int
) -> FirstTokenScores:
    """Scores of labels; `responses.scores_of_top_k` says which tokens mean one.

    `rows` are of each answer token -> log-probability in nats, `asked` tokens or fewer; the scores
    of a row depend on no other row.

    >>> score_first_tokens([{" yes": -1.0, " no": -2.0}], [" yes", " no"], "least", "it", 2).scores
    array([[-1., -2.]], dtype=float32)
    """
    names, tokens = [], {}
    for label in labels:
        forms = (label,) if isinstance(label, str) else tuple(label)
        names.append(forms[0].strip())  # a label of several forms is called by its first
        if len(forms) > 1:  # those of one form match as it does, without capitals too
            tokens[names[-1]] = forms
    top = top_k.scores_of_top_k(rows, names, tokens, where, asked)
    # The likeliest token of each row, five different ones at most.
    likely = list(dict.fromkeys(max(row, key=row.__getitem__) for row in rows))[:5]
    remedy = (
        f"the first are {shown(likely)}: raise {spell('top_logprobs')}, choose label words that "
        f"the model answers with, or ask for whole labels ({spell('api_scores', 'echo')})"
    )
    never = []
    for name in names:
        if not top.tokens[name]:
            sentence = (
                f"No answer has a token of the label {name!r} among its most probable; {remedy}."
            )
            never.append(sentence)
    if len(rows) > 1:  # of one row it may be true
        refuse_greedy(top.log_probs, where)
    filled, is_kept = fill_scores(top.log_probs, missing, top.bound)
    scores = np.full(top.log_probs.shape, np.nan, np.float32)
    scores[is_kept] = filled
    return FirstTokenScores(scores, is_kept, find_missing(top.log_probs), tuple(never))


def refuse_same(texts: Sequence[str], rows: Sequence[Sized], where: str, path: Path | None) -> None:
    """Refuse the same scores `rows` for all texts, several numbers that no two texts share."""
    count = len(set(texts))
    if count > 1 and len(rows[0]) > 1 and all(row == rows[0] for row in rows):
        remedy = "the server, or the proxy before it, gives answers to other prompts: repair it" + (
            f", move {path} away and ask again" if path else ""
        )
        raise InputError.at(where, "an answer to each prompt", f"the same one to {count:,}", remedy)


def refuse_equal(scores: np.ndarray, where: str, path: Path | None, instead: str) -> None:
    """Refuse scores [n k] that are all the same number, and say how to ask again."""
    try:
        servers.refuse_constant(scores, where)
    except InputError as error:
        remedy = f", or repair it, move {path} away and ask again" if path else ""
        raise InputError(f"{error} Try {instead}{remedy}.") from error


def add_refused(answered: LabelScores, refused: Mapping[int, str]) -> LabelScores:
    """The scores of all rows: of answered ones, and NaN for refused ones.

    >>> rows = LabelScores(np.zeros((1, 2), np.float32), np.ones(1, np.int32))
    >>> add_refused(rows, {0: "no"}).log_probs.tolist()
    [[nan, nan], [0.0, 0.0]]
    """
    count = len(answered.log_probs) + len(refused)
    rows = [row for row in range(count) if row not in refused]
    scores = np.full((count, answered.log_probs.shape[1]), np.nan, np.float32)
    scores[rows] = answered.log_probs
    tokens = np.zeros(count, np.int32)
    tokens[rows] = answered.tokens
    is_filled = None
    if answered.is_filled is not None:
        is_filled = np.zeros(scores.shape, bool)
        is_filled[rows] = answered.is_filled
    failed = {rows[number]: why for number, why in answered.failed.items()}
    return LabelScores(scores, tokens, failed | dict(refused), is_filled)


def note_refused(refused: Mapping[int, str], texts: Sequence[str]) -> str:
    """A sentence on prompts without scores, which names the first by how they end."""
    ends = []
    for row in sorted(refused)[:MAX_NAMED]:
        is_short = len(texts[row]) <= LONGEST_PROMPT
        ends.append(repr(texts[row] if is_short else f"...{texts[row][-LONGEST_PROMPT:]}"))
    more = f" and {len(refused) - MAX_NAMED:,} more" if len(refused) > MAX_NAMED else ""
    return (
        f"{len(refused):,} of {len(texts):,} prompts have no scores from the server and are left "
        f"out, those that end in {', '.join(ends)}{more}. {refused[min(refused)]}"
    )


class Notes:
    """Counts what answers lacked, over all contexts of a run that asks for `top` first tokens."""

    def __init__(self, top: int, missing: Missing, model: str):
        self._top = top
        self._missing = missing
        self._model = model
        self._rows = self._lacking = 0
        self.damaged: set[bytes] = set()  # hashes of kept answers that could not be read
        self._models: Counter[str] = Counter()
        self._sizes: dict[int, set[int]] = {}  # tokens of a prompt, as counted -> bytes of texts
        self._mass = 0.0
        self._sentences: dict[str, None] = {}

    def add(self, scores: np.ndarray, lacking: int = 0, sentences: Iterable[str] = ()) -> None:
        """Count scores [n, k], answers without a label, and sentences."""
        if len(scores):
            self._mass += servers.label_mass(scores) * len(scores)
            self._rows += len(scores)
        self._lacking += lacking
        self._sentences |= dict.fromkeys(sentences)

    def add_answer(self, text: str, answer: object) -> None:
        """Count which model an answer says it is of, and how many tokens its prompt had."""
        model, tokens = value_at(answer, "model"), count_at(answer, "usage", "prompt_tokens")
        if isinstance(model, str):
            self._models[model] += 1
        if tokens is not None:
            self._sizes.setdefault(tokens, set()).add(len(text.encode(errors="replace")))

    def sentences(self) -> list[str]:
        """A sentence on each thing to know."""
        sentences = list(servers.note_little_mass(self._mass / self._rows)) if self._rows else []
        if self._lacking:
            ways = {"least": "put just below the least of them", "drop": "left out"}
            way = ways.get(str(self._missing), f"put at {self._missing} nats")
            sentences.append(
                f"{self._lacking:,} answers lack a label among their {self._top} most probable "
                f"tokens: {way} ({spell('missing')})."
            )
        if self.damaged:
            sentences.append(f"{len(self.damaged):,} kept answers were damaged and asked again.")
        return [*sentences, *self._note_models(), *self._note_cut(), *self._sentences]

    def _note_models(self) -> list[str]:
        """A sentence if answers are of another model, or of several."""
        # A server may add a date or a folder to a name.
        other_models = [name for name in self._models if self._model.lower() not in name.lower()]
        if not other_models and len(self._models) < 2:
            return []
        counts = ", ".join(f"{count:,} of {name!r}" for name, count in self._models.most_common(3))
        return [
            f"{spell('model')} is {self._model!r}, and the server says of its answers: {counts}."
        ]

    def _note_cut(self) -> list[str]:
        """A sentence if prompts of unlike lengths have one number of tokens, the largest of all."""
        most = max(self._sizes, default=0)
        sizes = self._sizes.get(most, set())
        if len(sizes) < SEVERAL or max(sizes) < UNLIKE * min(sizes):
            return []
        return [
            f"The server counts {most:,} tokens in each of {len(sizes)} prompts of {min(sizes):,} "
            f"to {max(sizes):,} bytes, and in none more: it may have cut them "
            f"({spell('over_long')} with {spell('tokenizer')} shortens them here)."
        ]

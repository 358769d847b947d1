"""Scores of labels from lists of the likeliest first tokens, as servers of language models give."""

from collections.abc import Mapping, Sequence
from statistics import mode
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays import absent
from batch_calibration.errors import InputError, shown

SPACES = str.maketrans("Ġ▁Ċ", "   ")
"""How tokenizers write a space (byte-level BPE, SentencePiece) and a line end, as spaces."""

AROUND = " \t\r\n()[]{}\"'`\u201c\u201d\u2018\u2019.,:;!?*"
"""What may stand around an answer in its token: "(A", "A)", " yes.", "**Yes"; no sign and no "#",
which make another answer of it (-1, C#)."""

SHORTEST = 2
"""Letters that the beginning of a label must have at least: "p" begins too much else."""


class TopK(NamedTuple):
    """What lists of the likeliest tokens say of labels.

    Attributes:
        log_probs: [n, k], nats; minus infinity where no token of the label was returned.
        bound: [n], the least log-probability of each row's list: what is not in it lies below.
        mass: [n], the probability of all labels together.
        tokens: label -> the tokens that were taken for it, as the server wrote them.
    """

    log_probs: np.ndarray
    bound: np.ndarray
    mass: np.ndarray
    tokens: dict[str, tuple[str, ...]]


def scores_of_top_k(
    rows: Sequence[Mapping[str, float]],
    labels: Sequence[str],
    tokens: Mapping[str, Sequence[str]] | None = None,
    where: str = "top-k",
) -> TopK:
    """Scores of labels: the probabilities of the tokens that mean a label are summed.

    Give all rows of a context at once. Which tokens mean a label, the first rule that applies:

    1. Those that `tokens` names for it, and no others; spaces around them do not count.
    2. Those that equal it without spaces: " yes", "Ġyes", "▁yes".
    3. Those that equal it without capitals and without `AROUND`: "Yes", "YES.", "(A". Labels that
       only capitals or only such signs tell apart keep them. A label of one letter keeps its
       capital: "a" is a word and no answer "A".
    4. Where no row has such a token, the label is longer than its first token, and the one
       beginning of it (`SHORTEST` letters or more) with most probability over all rows counts for
       it: "ent" for "entailment". A beginning that another label shares is refused, since it does
       not tell which is meant. `TopK.tokens` says what was taken: " may" would be for "maybe".

    Args:
        rows: for each row token -> log-probability in nats; -9999.0, NaN and minus infinity say
            that the server did not return it.
        labels: k names.
        tokens: label -> the tokens that mean it.
        where: what to call the rows in sentences.

    Returns:
        The scores. A row with more tokens than most rows has the sampled token added to its list,
        as OpenAI's completions do: its bound is the last one before.

    Raises:
        InputError: no rows; a row without tokens, or whose probabilities sum to more than 1; labels
            or tokens that mean two things.

    >>> top = scores_of_top_k([{" yes": -1.0, "Yes": -1.0, " maybe": -3.0}], ["yes", "no"])
    >>> top.log_probs.round(2).tolist(), top.bound.tolist(), top.tokens["yes"]
    ([[-0.31, -inf]], [-3.0], (' yes', 'Yes'))
    """
    if not rows:
        raise InputError(where=where, expected="at least one row of tokens", got="none")
    values = [_checked(row, f"{where}, row {i}") for i, row in enumerate(rows)]
    total: dict[str, float] = {}
    for row in values:
        for token, value in row.items():
            total[token] = total.get(token, 0.0) + np.exp(value)
    meaning = meanings(total, labels, tokens or {}, where)
    scores = np.full((len(values), len(labels)), -np.inf)
    for i, row in enumerate(values):
        for token, value in row.items():
            if (label := meaning.get(token)) is not None:
                scores[i, label] = np.logaddexp(scores[i, label], value)
    size = mode(map(len, values))
    bound = [sorted(row.values(), reverse=True)[:size][-1] for row in values]
    taken = {
        name: tuple(token for token, label in meaning.items() if label == j)
        for j, name in enumerate(labels)
    }
    return TopK(scores, np.array(bound), np.exp(scores).sum(axis=-1), taken)


def meanings(
    total: Mapping[str, float],
    labels: Sequence[str],
    tokens: Mapping[str, Sequence[str]],
    where: str,
) -> dict[str, int]:
    """Token -> the label's index, of the tokens that mean one.

    Args:
        total: the tokens of all rows and the sum of the probabilities of each.
        labels: k names.
        tokens: label -> the tokens that mean it, of labels for which they are given.
        where: what to call the rows in sentences.

    Raises:
        InputError: labels or tokens that mean two things.

    >>> meanings({" Yes": 0.5, "No": 0.1, " n": 0.1}, ("yes", "no"), {}, "")
    {' Yes': 0, 'No': 1}
    """
    bare = {token: _bare(token) for token in total}
    plain = _names(labels, where)
    given = _given(tokens, labels, where)
    free = [j for j, name in enumerate(labels) if name not in tokens]
    fold = len({_fold(name) for name in plain}) == len(plain)
    cut = [name.strip(AROUND) for name in plain]
    trim = all(cut) and len({_fold(name) if fold else name for name in cut}) == len(cut)

    def key(text: str) -> str:
        text = text.strip(AROUND) if trim else text
        return _fold(text) if fold else text

    exact = {plain[j]: j for j in free}
    loose = {key(plain[j]): j for j in free}
    found: dict[str, int] = {}
    for token, text in bare.items():
        label = given.get(text, exact.get(text, loose.get(key(text))))
        if label is not None:
            found[token] = label
    keys, texts = [key(name) for name in plain], {t: key(text) for t, text in bare.items()}
    whole = dict(found)
    for j in free:
        if j not in whole.values():
            found.update(_beginning(j, keys, texts, whole, total, where))
    return found


def _beginning(
    label: int,
    keys: Sequence[str],
    tokens: Mapping[str, str],
    whole: Mapping[str, int],
    total: Mapping[str, float],
    where: str,
) -> dict[str, int]:
    """The tokens of the likeliest beginning of a label that no row has whole."""
    groups: dict[str, list[str]] = {}
    for token, text in tokens.items():
        long = len(text) >= SHORTEST or not text.isascii()
        if long and text != keys[label] and keys[label].startswith(text):
            groups.setdefault(text, []).append(token)
    if not groups:
        return {}
    best = max(groups, key=lambda text: sum(total[token] for token in groups[text]))
    shared = {j for j, name in enumerate(keys) if j != label and name.startswith(best)}
    if not shared:
        return dict.fromkeys(groups[best], label)
    other = min(shared)
    # A label whose rival is a token of its own may be one too, merely not returned, unless it is
    # of several words.
    if shared <= set(whole.values()) and " " not in keys[label]:
        return {}
    raise InputError(
        f"{where}: the labels {shown(keys[label])} and {shown(keys[other])} both begin with the "
        f"token {shown(groups[best][0])}, which does not tell them apart; name the first tokens of "
        "each (tokens), or score whole labels."
    )


def _checked(row: Mapping[str, float], where: str) -> dict[str, float]:
    """The tokens that a row returned, or a sentence."""
    values = np.array(list(row.values()), np.float64)
    gone = absent(values)
    kept = {token: float(v) for token, v, no in zip(row, values, gone, strict=True) if not no}
    if not kept:
        raise InputError(
            where=where,
            expected="the likeliest tokens with their log-probabilities",
            got="none",
            remedy="ask for top log-probabilities (top_logprobs=20), of a server that gives them",
        )
    total = float(np.exp(np.minimum(values[~gone], 1.0)).sum())
    if total > 1.01:
        raise InputError(
            where=where,
            expected="log-probabilities over the vocabulary in nats, but those of the "
            f"{len(kept)} tokens returned sum to the probability {total:.3g}, above 1",
            remedy="some servers answer so (all 0.0) when they do not support log-probabilities",
        )
    return kept


def _names(labels: Sequence[str], where: str) -> list[str]:
    """The labels without spaces around them, each one another."""
    plain = [_bare(name) for name in labels]
    for j, name in enumerate(plain):
        if not name.strip():
            raise InputError(
                where=where,
                expected="labels of at least one letter",
                got=shown(labels[j]),
                remedy="name the labels as the model answers",
            )
        if plain.index(name) < j:
            raise InputError(
                f"{where}: the labels {shown(labels[plain.index(name)])} and {shown(labels[j])} "
                "are one text but for spaces; give each label a name of its own."
            )
    return plain


def _given(
    tokens: Mapping[str, Sequence[str]], labels: Sequence[str], where: str
) -> dict[str, int]:
    """Bare token -> label, of the tokens that a person gave."""
    given: dict[str, int] = {}
    own = {_bare(name): j for j, name in enumerate(labels) if name not in tokens}
    for name, those in tokens.items():
        if name not in labels:
            raise InputError.unknown("label", name, labels)
        label = list(labels).index(name)
        for token in those:
            text = _bare(token)
            other = own.get(text, given.get(text, label))
            if other != label:
                raise InputError(
                    f"{where}: the token {shown(token)} means both {shown(labels[other])} and "
                    f"{shown(name)}; leave it out of one of them."
                )
            given[text] = label
    return given


def _bare(text: str) -> str:
    """A token without the spaces around it, whichever way its tokenizer writes them."""
    return text.translate(SPACES).strip() or text


def _fold(text: str) -> str:
    """A text without capitals; of one letter, as it is: "a" is a word, no answer "A"."""
    return text.casefold() if len(text) > 1 else text

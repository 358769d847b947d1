"""Computes label scores from lists of the most probable first tokens of an answer."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import chain
from statistics import mode
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays.missing_scores import find_lowest, find_missing
from batch_calibration.errors import InputError, refuse_unknown, shown

SPACES = str.maketrans("Ġ▁Ċ", "   ")
"""Table that maps tokenizers' letters for a space or a line end to spaces.

The letters come from byte-level BPE and SentencePiece.
"""


@cache
def byte_alphabet() -> dict[str, int]:
    """Maps letters of byte-level vocabularies to bytes; printable bytes are their own letters."""
    printed = {*range(33, 127), *range(161, 173), *range(174, 256)}
    byte_of = {chr(byte): byte for byte in printed}
    for i, byte in enumerate(sorted(set(range(256)) - printed)):
        byte_of[chr(256 + i)] = byte
    return byte_of


MAX_CACHED = 1 << 16
"""Maximum number of tokens with a cached text: rows of one model repeat the same tokens."""


@lru_cache(MAX_CACHED)
def plain_text(token: str) -> str:
    """Returns a token's text, decoded from the letters of a byte-level vocabulary, with spaces.

    >>> plain_text("æĺ¯"), plain_text("Ġyes"), plain_text("é")
    ('是', ' yes', 'é')
    """
    spaced = token.translate(SPACES)
    if not spaced.isascii() and byte_alphabet().keys() >= set(token):
        with suppress(UnicodeError):  # a letter of a plain text, or a part of one
            return bytes(map(byte_alphabet().__getitem__, token)).decode()
    return spaced


AROUND = " \t\r\n()[]{}\"'`\u201c\u201d\u2018\u2019.,:;!?*"
"""Signs that may surround an answer in its token: "(A", "A)", " yes.", "**Yes". A minus and "#" are
excluded, because they make another answer (-1, C#)."""

Forms = Mapping[str, Sequence[str]]  # label -> the tokens that mean it, or other texts of it
LogProbs = Mapping[str, float]  # token -> its log-probability in nats

MIN_BEGINNING = 2
"""Minimum number of letters in a label's beginning: "p" alone begins too many other words."""


class TopK(NamedTuple):
    """Label scores from lists of the most probable tokens."""

    log_probs: np.ndarray  # [n, k], nats; minus infinity if no token of the label was returned
    # [n], smallest log-probability in each row's list: an upper bound for missing tokens.
    bound: np.ndarray
    # Label -> the tokens that count for it, as the server wrote them.
    tokens: dict[str, tuple[str, ...]]


def scores_of_top_k(
    rows: Sequence[LogProbs],
    labels: Sequence[str],
    tokens: Forms | None = None,
    where: str = "top-k",
    asked: int | None = None,
) -> TopK:
    """Scores each label by the sum of the probabilities of its tokens.

    Pass all rows of a context at once. The first rule that applies determines a label's tokens:

    1. The tokens that `tokens` lists for the label; surrounding spaces do not count.
    2. Tokens that equal the label without spaces: " yes", "Ġyes", "▁yes".
    3. Tokens that equal the label without capitals and without `AROUND`: "Yes", "YES.", "(A".
       Labels that differ only in capitals or in these signs keep them. A label of one letter keeps
       its capital: "a" is a word, not the answer "A".
    4. If no row has a matching token, the label is longer than its first token. Its most probable
       beginning over all rows then counts, with at least `MIN_BEGINNING` letters: "ent" for
       "entailment". The first of several words takes precedence over parts of this word. A
       beginning of two labels counts for neither; it raises an error if a label has no other token.
       `TopK.tokens` lists the tokens that count.

    Args:
        rows: token -> log-probability in nats, for each row; -9999.0, NaN and minus infinity mark
            tokens that the server did not return.
        labels: k names.
        tokens: label -> the tokens that mean it.
        where: name of the rows in messages.
        asked: number of tokens that were requested for each row, if known. The scores and the bound
            of a row then do not depend on other rows, and rule 4 uses each row separately.

    Raises:
        InputError: no rows; a row without tokens, or with probabilities that sum to more than 1;
            ambiguous labels or tokens.

    >>> top = scores_of_top_k([{" yes": -1.0, "Yes": -1.0, " maybe": -3.0}], ["yes", "no"])
    >>> top.log_probs.round(2).tolist(), top.bound.tolist(), top.tokens["yes"]
    ([[-0.31, -inf]], [-3.0], (' yes', 'Yes'))
    """
    if not rows:
        raise InputError.at(where, "at least one row of tokens", "none")
    all_numbers = list(chain.from_iterable(row.values() for row in rows))
    filler = find_lowest(np.array(all_numbers, np.float64)).filler
    returned = [check_tokens(row, f"{where}, row {i}", filler) for i, row in enumerate(rows)]
    scores = np.full((len(returned), len(labels)), -np.inf)  # [n, k], nats
    taken: dict[str, dict[str, None]] = {name: {} for name in labels}
    unclear: dict[int, InputError] = {}
    groups = [range(len(rows))] if asked is None else [[i] for i in range(len(rows))]
    for group in groups:
        probs: dict[str, float] = {}  # token -> probability, summed over the rows
        for i in group:
            for token, log_prob in returned[i].items():
                probs[token] = probs.get(token, 0.0) + np.exp(log_prob)
        label_of, errors = match_tokens(probs, labels, tokens or {}, where)
        unclear |= errors
        for token, label in label_of.items():
            taken[labels[label]][token] = None
        for i in group:
            for token, log_prob in returned[i].items():
                if (label_or_none := label_of.get(token)) is not None:
                    scores[i, label_or_none] = np.logaddexp(scores[i, label_or_none], log_prob)
    for label, error in unclear.items():
        if not taken[labels[label]]:
            raise error
    # OpenAI's completions append the sampled token to the list. In a row with more tokens than
    # requested, or than most rows have, the bound is thus the last token before the extra one.
    size = asked or mode(map(len, returned))
    bound = [sorted(row.values(), reverse=True)[:size][-1] for row in returned]
    taken_tokens = {name: tuple(tokens_taken) for name, tokens_taken in taken.items()}
    return TopK(scores, np.array(bound), taken_tokens)


def refuse_absent_labels(top: TopK, rows: Sequence[LogProbs], where: str) -> None:
    """Raises if a label has no token in any row."""
    for name, taken in top.tokens.items():
        if not taken:
            probable = list(dict.fromkeys(max(row, key=row.__getitem__) for row in rows))[:5]
            raise InputError(
                f"{where}: the {len(rows)} rows contain no token of the label "
                f"{shown(name)}; the most probable tokens are {shown(probable)}: name the tokens "
                "that mean the label (tokens), ask for more tokens (top_logprobs=20), or score the "
                "whole label."
            )


def match_tokens(
    probs: Mapping[str, float], labels: Sequence[str], tokens: Forms, where: str
) -> tuple[dict[str, int], dict[int, InputError]]:
    """Maps tokens to the index of their label, and labels with ambiguous beginnings to errors.

    Args:
        probs: token -> probability, summed over the rows.
        labels: k names.
        tokens: label -> the tokens that mean it, for labels with given tokens.
        where: name of the rows in messages.

    >>> match_tokens({" Yes": 0.5, "No": 0.1, " n": 0.1}, ("yes", "no"), {}, "")
    ({' Yes': 0, 'No': 1}, {})
    """
    bare_labels = _bare_labels(labels, where)
    named = _named_tokens(tokens, labels, where)
    unnamed = [j for j, name in enumerate(labels) if name not in tokens]
    # Capitals and surrounding signs count only if two labels differ in nothing else.
    folds = len({fold(name) for name in bare_labels}) == len(bare_labels)
    trimmed = [name.strip(AROUND) for name in bare_labels]
    keys = {fold(name) if folds else name for name in trimmed}
    trims = all(trimmed) and len(keys) == len(trimmed)

    def loose_key(text: str) -> str:
        text = text.strip(AROUND) if trims else text
        return fold(text) if folds else text

    exact = {bare_labels[j]: j for j in unnamed}
    loose = {loose_key(bare_labels[j]): j for j in unnamed}
    label_of: dict[str, int] = {}
    unclear: dict[int, InputError] = {}
    token_keys = {}
    for token in probs:
        text = _bare(token)
        token_keys[token] = loose_key(text)
        # The strictest rule comes first: named tokens, then equal texts, then loosely equal texts.
        label = named.get(text, exact.get(text, loose.get(token_keys[token])))
        if label is not None:
            label_of[token] = label
    label_keys = list(map(loose_key, bare_labels))
    matched = set(label_of.values())  # labels that match without a beginning
    for j in unnamed:
        if j not in matched:
            try:
                beginning = _match_beginning(j, label_keys, token_keys, matched, probs, where)
                label_of |= dict.fromkeys(beginning, j)
            except InputError as error:
                unclear[j] = error
    return label_of, unclear


def _match_beginning(
    label: int,
    label_keys: Sequence[str],
    token_keys: Mapping[str, str],
    matched: set[int],
    probs: Mapping[str, float],
    where: str,
) -> list[str]:
    """Finds the tokens of the most probable beginning of a label without a matching token."""
    name = label_keys[label]
    beginnings: dict[str, list[str]] = {}
    for token, text in token_keys.items():
        is_long = len(text) >= MIN_BEGINNING or not text.isascii()  # One Chinese letter suffices.
        if is_long and text != name and name.startswith(text):
            beginnings.setdefault(text, []).append(token)
    if not beginnings:
        return []

    def weight(text: str) -> tuple[bool, float]:
        """Ranks a first word above its parts ("not" of "not sure" above "no"), then by mass."""
        return name.startswith(f"{text} "), sum(probs[token] for token in beginnings[text])

    best = max(beginnings, key=weight)
    rivals = {j for j, key in enumerate(label_keys) if j != label and key.startswith(best)}
    if not rivals:
        return beginnings[best]
    # If all rivals match whole tokens, this label may also be one token that no row returned,
    # unless the beginning is the first of several words.
    if rivals <= matched and not name.startswith(f"{best} "):
        return []
    raise InputError(
        f"{where}: the labels {shown(name)} and {shown(label_keys[min(rivals)])} both begin with "
        f"the token {shown(beginnings[best][0])}, so it is ambiguous; name the first "
        "tokens of each label (tokens), or score whole labels."
    )


def check_tokens(row: LogProbs, where: str, filler: float | None = None) -> dict[str, float]:
    """Returns the tokens of a row with log-probabilities; raises if the row is invalid.

    Args:
        row: the tokens.
        where: name of the row in messages.
        filler: the number that marks tokens without a log-probability; None finds it in the row.
    """
    log_probs = np.array(list(row.values()), np.float64)
    filler = find_lowest(log_probs).filler if filler is None else filler
    is_absent = find_missing(log_probs, filler)
    returned = {}
    for token, log_prob, gone in zip(row, log_probs, is_absent, strict=True):
        if not gone:
            returned[token] = float(log_prob)
    if not returned:
        expected = "log-probabilities of top tokens"
        raise InputError.at(where, expected, "none", "ask for top_logprobs=20")
    # exp(1) already exceeds the limit; without the minimum, a large number would overflow.
    total = float(np.exp(np.minimum(log_probs[~is_absent], 1.0)).sum())
    if total > 1.01:  # Allows a hundredth for rounding in half precision.
        got = f"probabilities above 1: {len(returned)} returned tokens sum to {total:.3g}"
        remedy = "some servers return 0.0 for each token if they do not support log-probabilities"
        raise InputError.at(where, "log-probabilities over the vocabulary in nats", got, remedy)
    return returned


def _bare_labels(labels: Sequence[str], where: str) -> list[str]:
    """Returns the labels without surrounding spaces; raises if two are equal or one is empty."""
    bare = list(map(_bare, labels))
    for j, name in enumerate(bare):
        if not name.strip():
            expected = "labels with letters"
            raise InputError.at(where, expected, shown(labels[j]), "write the model's answers")
        if bare.index(name) < j:
            raise InputError(
                f"{where}: the labels {shown(labels[bare.index(name)])} and {shown(labels[j])} "
                "differ only in spaces; give each label a different name."
            )
    return bare


def _named_tokens(tokens: Forms, labels: Sequence[str], where: str) -> dict[str, int]:
    """Maps the tokens that a user named, without surrounding spaces, to indices of labels."""
    named: dict[str, int] = {}
    unnamed = {_bare(name): j for j, name in enumerate(labels) if name not in tokens}
    for name, texts in tokens.items():
        refuse_unknown("label", name, labels)
        label = list(labels).index(name)
        for token in texts:
            text = _bare(token)
            rival = unnamed.get(text, named.get(text, label))
            if rival != label:
                raise InputError(
                    f"{where}: the token {shown(token)} means both {shown(labels[rival])} and "
                    f"{shown(name)}; leave it out of one of them."
                )
            named[text] = label
    return named


@lru_cache(MAX_CACHED)
def _bare(text: str) -> str:
    """Removes the spaces around a token, in the notation of any tokenizer."""
    return plain_text(text).strip() or text


def fold(text: str) -> str:
    """Returns a text in lower case; keeps a single letter: "a" is a word, not the answer "A"."""
    return text.casefold() if len(text) > 1 else text

"""Scores of labels from lists of the most probable first tokens of an answer."""

from collections.abc import Mapping, Sequence
from statistics import mode
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays.missing_scores import find_missing
from batch_calibration.errors import InputError, refuse_unknown, shown

SPACES = str.maketrans("Ġ▁Ċ", "   ")
"""Tokenizers' letters for a space (byte-level BPE, SentencePiece) and a line end -> spaces."""

AROUND = " \t\r\n()[]{}\"'`\u201c\u201d\u2018\u2019.,:;!?*"
"""Signs that may surround an answer in its token: "(A", "A)", " yes.", "**Yes"; but no minus and no
"#", which make another answer (-1, C#)."""

Forms = Mapping[str, Sequence[str]]  # label -> the tokens that mean it, or other texts of it
LogProbs = Mapping[str, float]  # token -> its log-probability in nats

MIN_BEGINNING = 2
"""Letters that the beginning of a label must have at least: "p" begins too much else."""


class TopK(NamedTuple):
    """Scores of labels from lists of the most probable tokens."""

    log_probs: np.ndarray  # [n, k], nats; minus infinity where no token of the label was returned
    # [n], the least log-probability of each row's list: what is not in it lies below.
    bound: np.ndarray
    mass: np.ndarray  # [n], the probability of all labels together
    # Label -> the tokens that were taken for it, as the server wrote them.
    tokens: dict[str, tuple[str, ...]]


def scores_of_top_k(
    rows: Sequence[LogProbs],
    labels: Sequence[str],
    tokens: Forms | None = None,
    where: str = "top-k",
    asked: int | None = None,
) -> TopK:
    """Scores of labels: the probabilities of the tokens that mean a label are summed.

    Give all rows of a context at once. Which tokens mean a label, the first rule that applies:

    1. Those that `tokens` names for it, and no others; spaces around them do not count.
    2. Those that equal it without spaces: " yes", "Ġyes", "▁yes".
    3. Those that equal it without capitals and without `AROUND`: "Yes", "YES.", "(A". Labels that
       differ only in capitals or in these signs keep them. A label of one letter keeps its
       capital: "a" is a word and no answer "A".
    4. If no row has a matching token, the label is longer than its first token: the beginning of it
       (`MIN_BEGINNING` letters or more) with most probability over all rows counts, "ent" for
       "entailment", and the first of several words before parts of it. A beginning that another
       label shares counts for neither, and is refused where a label has no other token.
       `TopK.tokens` says what was taken.

    Args:
        rows: for each row token -> log-probability in nats; -9999.0, NaN and minus infinity say
            that the server did not return it.
        labels: k names.
        tokens: label -> the tokens that mean it.
        where: what to call the rows in sentences.
        asked: how many tokens a row was asked for, where it is known. Then the scores and the bound
            of a row depend on no other row: rule 4 looks at each row alone.

    Raises:
        InputError: no rows; a row without tokens, or whose probabilities sum to more than 1; labels
            or tokens that mean two things.

    >>> top = scores_of_top_k([{" yes": -1.0, "Yes": -1.0, " maybe": -3.0}], ["yes", "no"])
    >>> top.log_probs.round(2).tolist(), top.bound.tolist(), top.tokens["yes"]
    ([[-0.31, -inf]], [-3.0], (' yes', 'Yes'))
    """
    if not rows:
        raise InputError.at(where, "at least one row of tokens", "none")
    returned = [_returned_tokens(row, f"{where}, row {i}") for i, row in enumerate(rows)]
    scores = np.full((len(returned), len(labels)), -np.inf)  # [n, k], nats
    taken: dict[str, dict[str, None]] = {name: {} for name in labels}
    unclear: dict[int, InputError] = {}
    groups = [range(len(rows))] if asked is None else [[i] for i in range(len(rows))]
    for group in groups:
        probs: dict[str, float] = {}  # of each token, summed over the rows
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
    # A row with more tokens than asked, or than most, has the sampled token added to its list, as
    # OpenAI's completions do: its bound is the last one before.
    size = asked or mode(map(len, returned))
    bound = [sorted(row.values(), reverse=True)[:size][-1] for row in returned]
    taken_tokens = {name: tuple(tokens_taken) for name, tokens_taken in taken.items()}
    return TopK(scores, np.array(bound), np.exp(scores).sum(axis=-1), taken_tokens)


def refuse_absent_labels(top: TopK, rows: Sequence[LogProbs], where: str) -> None:
    """Refuse rows of tokens in which no token means a label."""
    for name, taken in top.tokens.items():
        if not taken:
            probable = list(dict.fromkeys(max(row, key=row.__getitem__) for row in rows))[:5]
            raise InputError(
                f"{where}: none of the {len(rows)} rows returned a token of the label "
                f"{shown(name)}; the most probable returned are {shown(probable)}: name the tokens "
                "that mean it (tokens), ask for more tokens (top_logprobs=20), or score the whole "
                "label."
            )


def match_tokens(
    probs: Mapping[str, float], labels: Sequence[str], tokens: Forms, where: str
) -> tuple[dict[str, int], dict[int, InputError]]:
    """Token -> the label's index, of tokens that mean one; and why a label's beginning is unclear.

    Args:
        probs: the tokens of all rows and the sum of the probabilities of each.
        labels: k names.
        tokens: label -> the tokens that mean it, of labels for which they are given.
        where: what to call the rows in sentences.

    >>> match_tokens({" Yes": 0.5, "No": 0.1, " n": 0.1}, ("yes", "no"), {}, "")
    ({' Yes': 0, 'No': 1}, {})
    """
    bare_labels = _bare_labels(labels, where)
    named = _named_tokens(tokens, labels, where)
    unnamed = [j for j, name in enumerate(labels) if name not in tokens]
    # Capitals and signs around a label count only where nothing else tells two labels apart.
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
        # The strictest rule that applies: named tokens, then equal texts, then loosely equal ones.
        label = named.get(text, exact.get(text, loose.get(token_keys[token])))
        if label is not None:
            label_of[token] = label
    label_keys = list(map(loose_key, bare_labels))
    matched = set(label_of.values())  # before any beginning counts for a label
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
    """The tokens of the most probable beginning of a label that no row has as a whole."""
    name = label_keys[label]
    beginnings: dict[str, list[str]] = {}
    for token, text in token_keys.items():
        is_long = len(text) >= MIN_BEGINNING or not text.isascii()  # one Chinese letter says much
        if is_long and text != name and name.startswith(text):
            beginnings.setdefault(text, []).append(token)
    if not beginnings:
        return []

    def weight(text: str) -> tuple[bool, float]:
        """The first word before its parts ("not" of "not sure" before "no"), then by mass."""
        return name.startswith(f"{text} "), sum(probs[token] for token in beginnings[text])

    best = max(beginnings, key=weight)
    rivals = {j for j, key in enumerate(label_keys) if j != label and key.startswith(best)}
    if not rivals:
        return beginnings[best]
    # A label whose rival is a token of its own may be one too, merely not returned, unless it is
    # of several words and this is the first.
    if rivals <= matched and not name.startswith(f"{best} "):
        return []
    raise InputError(
        f"{where}: the labels {shown(name)} and {shown(label_keys[min(rivals)])} both begin with "
        f"the token {shown(beginnings[best][0])}, which does not tell them apart; name the first "
        "tokens of each (tokens), or score whole labels."
    )


def _returned_tokens(row: LogProbs, where: str) -> dict[str, float]:
    """The tokens that a row returned, or a sentence."""
    log_probs = np.array(list(row.values()), np.float64)
    is_absent = find_missing(log_probs)
    returned = {}
    for token, log_prob, gone in zip(row, log_probs, is_absent, strict=True):
        if not gone:
            returned[token] = float(log_prob)
    if not returned:
        expected = "log-probabilities of top tokens"
        raise InputError.at(where, expected, "none", "ask for top_logprobs=20")
    # exp(1) is above the limit already, and exp of a wild number would overflow.
    total = float(np.exp(np.minimum(log_probs[~is_absent], 1.0)).sum())
    if total > 1.01:  # a hundredth for rounding, in half precision too
        expected = "log-probabilities over the vocabulary in nats, but the probabilities of the "
        expected += f"{len(returned)} tokens returned sum to the probability {total:.3g}, above 1"
        remedy = "some servers answer so (all 0.0) when they do not support log-probabilities"
        raise InputError.at(where, expected, remedy=remedy)
    return returned


def _bare_labels(labels: Sequence[str], where: str) -> list[str]:
    """The labels without spaces around them, each one another."""
    bare = list(map(_bare, labels))
    for j, name in enumerate(bare):
        if not name.strip():
            expected = "labels with letters"
            raise InputError.at(where, expected, shown(labels[j]), "name them as the model answers")
        if bare.index(name) < j:
            raise InputError(
                f"{where}: the labels {shown(labels[bare.index(name)])} and {shown(labels[j])} "
                "are one text but for spaces; give each label a name of its own."
            )
    return bare


def _named_tokens(tokens: Forms, labels: Sequence[str], where: str) -> dict[str, int]:
    """Bare token -> label, of the tokens that a person named."""
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


def _bare(text: str) -> str:
    """A token without the spaces around it, whichever way its tokenizer writes them."""
    return text.translate(SPACES).strip() or text


def fold(text: str) -> str:
    """A text without capitals; of one letter, as it is: "a" is a word, no answer "A"."""
    return text.casefold() if len(text) > 1 else text

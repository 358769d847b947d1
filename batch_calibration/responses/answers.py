"""Finds the label in an answer of several tokens: a JSON value, after "Answer:", or a word."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from batch_calibration.errors import InputError, answering, shown, spell
from batch_calibration.responses.top_k import AROUND, Forms, plain_text

MAX_TOKENS_AT_ONCE = 4  # maximum number of tokens of an answer without an explanation
END = re.compile(r"<[|\uff5c/]{0,2}[\w\u2581 -]+[|\uff5c]?>|\[/?[A-Z]+\]")
"""Pattern of tokens that end a text: "</s>", "<|im_end|>", "<end_of_turn>", "[SEP]"."""
FIRST, LAST, JSON = "first", "last", "json:"
"""Values of `at` that are not a regular expression."""
UNCLEAR = "unclear"
"""The kind of an ambiguous position."""


class Place(NamedTuple):
    """The position of an answer.

    Attributes:
        token: index of the token that begins the answer, or None (no answer found).
        kind: description of the position; `UNCLEAR` if several positions are possible, "" if the
            text names no label.
    """

    token: int | None
    kind: str


class Mention(NamedTuple):
    """A label in a text.

    Attributes:
        start: index of the first letter.
        label: name of the label.
        is_marked: whether the label follows "ANSWER:".
        is_line: whether the label is marked and fills its line, up to a full stop.
        is_article: whether the label may be a word, like "A" before another word.
    """

    start: int
    label: str
    is_marked: bool = False
    is_line: bool = False
    is_article: bool = False


def is_end(token: str) -> bool:
    """Checks whether a token is empty or ends a text.

    >>> list(map(is_end, ("", " ", "</s>", "<|im_end|>", "yes", "<")))
    [True, True, True, True, False, False]
    """
    text = plain_text(token).strip()
    return not text or END.fullmatch(token.strip()) is not None


def find_place(
    written: Sequence[str],
    labels: Sequence[str],
    at: str = "",
    forms: Forms | None = None,
    recorded: str | None = None,
) -> Place:
    """Finds the position of the answer among the tokens that a model wrote.

    A single token is always the answer. Without `at`, the answer in a JSON object is the value that
    is a label. In other texts it is the label after "Answer:", preferably alone on its line.
    Without "Answer:" it is the only label in the text, or the label that begins the text if no
    other label occurs.

    Args:
        written: the tokens.
        labels: the possible answers.
        at: "first" for the first token, "last" for the last label in the text, "json:KEY", or a
            regular expression: its first group is the label, or the label follows it.
        forms: label -> other texts of the label.
        recorded: the label that another scorer extracted; other labels do not count. "" is an
            unknown label; of several labels after "Answer:" the first then counts. With None,
            several labels are ambiguous.

    >>> find_place(["Yes", ",", " but", " no", ".", " Answer", ":", " no"], ("yes", "no"))
    Place(token=7, kind="after 'Answer:'")
    >>> find_place(['{"', "label", '":"', "yes", '"}'], ("yes", "no")).token
    3
    >>> find_place(["Yes", ",", " not", " no"], ("yes", "no")).kind
    'unclear'
    """
    written = list(map(plain_text, written))
    solid = [i for i, token in enumerate(written) if not is_end(token)]
    if at == FIRST or len(solid) < 2:
        return Place(next(iter(solid), 0), "at the first token")
    text = "".join(written)
    label_of = {name: name for name in labels}
    for name, texts in (forms or {}).items():
        label_of |= dict.fromkeys(map(str.strip, texts), name)
    mentions = list(_mentions(text, label_of))
    if recorded:
        mentions = [mention for mention in mentions if mention.label == recorded]
    found, kind = _choose(text, mentions, label_of, at, recorded)
    if found is None:
        return Place(None, kind)
    token = next(i for i, end in enumerate(accumulate(map(len, written))) if found.start < end)
    # The token must not hold the end of an earlier word: its probability would not be the answer's.
    begins = written[token].lstrip(AROUND)
    if not text.startswith(begins.rstrip(AROUND), found.start):
        return Place(None, UNCLEAR)
    return Place(token, "at the first token" if token == solid[0] else kind)


def _choose(
    text: str, mentions: Sequence[Mention], label_of: dict[str, str], at: str, recorded: str | None
) -> tuple[Mention | None, str]:
    """Returns the mention that is the answer, or None, and the kind of its position."""
    if at == LAST:
        return (mentions[-1] if mentions else None), "at the last label" if mentions else ""
    if at and not at.startswith(JSON):
        expected = "first, last, json:KEY or a regular expression"
        with answering(re.error, spell("at", at), expected, key="at"):
            match = re.search(at, text)
        start = match.start(min(1, match.re.groups)) if match else len(text)
        start = match.end() if match and not match.re.groups else start
        later = [mention for mention in mentions if mention.start >= start]
        return (later[0] if later else None), f"at {shown(at)}" if later else ""
    if at or re.match(r"\W*(json\s*)?\{\s*\"", text):
        key = re.escape(at.removeprefix(JSON)) if at else r"[^\"]+"
        names = "|".join(map(re.escape, sorted(label_of, key=len, reverse=True)))
        # A quoted text that is exactly the label; the closing quote may be cut off.
        quoted = rf"\"[\s*(_]*({names})[\s*)_.!]*(?:\"|$)"
        pattern = rf"\"({key})\"\s*:\s*(?:{quoted}|({names})(?=[\s,}}]|$))"
        values = dict[tuple[str, str], Mention]()
        for match in re.finditer(pattern, text, re.IGNORECASE):
            group = 2 if match[2] else 3
            value = match[1], match[group].casefold()
            values[value] = Mention(match.start(group), match[group])
        if len(values) == 1:
            ((key, _), mention) = values.popitem()
            return mention, f"as the value of {shown(key)}"
        return None, UNCLEAR if values or (mentions and not at) else ""
    marked = [mention for mention in mentions if mention.is_marked]
    chosen = [mention for mention in marked if mention.is_line] or marked
    are_several = len({mention.label for mention in chosen or mentions}) > 1
    if chosen:
        begun = re.match(r"\W*([^\n]*?)\W*\n", text)
        by_folded = {name.casefold(): label for name, label in label_of.items()}
        first_label = by_folded.get(begun[1].casefold()) if begun else None
        is_other = recorded is None and first_label not in (None, chosen[0].label)
        is_plain = recorded is not None or not (are_several or is_other)
        is_plain &= bool(recorded) or not chosen[0].is_article
        return (chosen[0] if is_plain else None), "after 'Answer:'" if is_plain else UNCLEAR
    if not mentions:
        return None, ""
    first = mentions[0]
    is_begun = not text[: first.start].strip(AROUND) and not first.is_article
    if (len(mentions) > 1 and (not is_begun or are_several)) or (first.is_article and not recorded):
        return None, UNCLEAR
    return first, "at the only label"


def names_label(text: str, labels: Sequence[str]) -> bool:
    """Checks whether a text contains a label."""
    return next(_mentions(text, dict(zip(labels, labels, strict=True))), None) is not None


def _mentions(text: str, label_of: Mapping[str, str]) -> Iterator[Mention]:
    """Yields the labels that occur in a text as whole words."""
    around = re.escape(AROUND)
    names = "|".join(map(re.escape, sorted(label_of, key=len, reverse=True)))
    mark = rf"answer(?:[^\w\n]{{0,4}}:|\s+is)[{around}]*|\\boxed\{{\s*"
    pattern = rf"(?P<mark>{mark})?(?<!\w)(?P<label>{names})(?!\w)"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        start, end = match.span("label")
        is_marked = match["mark"] is not None
        folded = [name for name in label_of if name.casefold() == match["label"].casefold()]
        form = match["label"] if match["label"] in folded else folded[0]
        is_letter = len(form) == 1
        if is_letter and not is_marked and match["label"] != form:
            continue  # "a" is a word and not the answer "A", except after "ANSWER:".
        before, after = text[: match.start()].rstrip(" \t"), text[end : end + 80]
        begins_line = before[-1:] in ("", "\n")
        ends_line = re.match(r"[)\s*]*($|\n|\.)", after) is not None
        is_line = is_marked and begins_line and ends_line
        is_article = is_letter and form.isalpha() and re.match(r"[ \t]+\w", after) is not None
        yield Mention(start, label_of[form], is_marked, is_line, is_article)


def choose_places(
    answers: Sequence[Sequence[str]],
    where: Sequence[str],
    labels: Sequence[str],
    at: str = "",
    forms: Forms | None = None,
) -> tuple[list[int | None], list[str]]:
    """Finds the token of each answer with its label (None without a label); also returns notes.

    Args:
        answers: the tokens of each answer.
        where: the name of each answer in messages.
        labels: the possible answers.
        at: see `find_place`.
        forms: see `find_place`.

    Raises:
        InputError: an answer with an ambiguous position; no answer with a label.
    """
    places = [find_place(written, labels, at, forms) for written in answers]
    unclear = [i for i, place in enumerate(places) if place.kind == UNCLEAR]
    if unclear:
        text = "".join(answers[unclear[0]])
        expected = "one position of the label in an answer of several tokens"
        got = f"{shown(text)} ({len(unclear):,} of {len(answers):,} answers are ambiguous)"
        remedy = f"give the position: {spell('at', 'first')}, 'last', 'json:KEY' or a regular "
        remedy += "expression before the label"
        raise InputError.at(where[unclear[0]], expected, got, remedy, "at")
    kinds = Counter(place.kind for place in places if place.kind)
    longest = max(map(len, answers))
    # If all found labels are first tokens, the answers without a label are first tokens, too.
    if set(kinds) <= {"at the first token"} and (kinds or longest <= MAX_TOKENS_AT_ONCE):
        firsts = [find_place(written, labels, FIRST).token for written in answers]
        return firsts, []
    if not kinds:
        expected = f"answers of several tokens that name a label ({', '.join(labels)})"
        got = f"{shown(''.join(answers[0]))}, and no label in {len(answers):,} answers"
        remedy = f"name the labels as the model writes them, or give {spell('at', 'first')}"
        raise InputError.at(where[0], expected, got, remedy, "at")
    (kind, count), *others = kinds.most_common()
    note = f"Labels are read {kind} in {count:,} of {len(answers):,} answers"
    note += "".join(f", {kind} in {count:,}" for kind, count in others)
    notes = [f"{note}, given the model's text before the label ({spell('at')})."]
    if unnamed := len(answers) - kinds.total():
        notes.append(f"{unnamed:,} of {len(answers):,} answers name no label and are left out.")
    return [place.token for place in places], notes

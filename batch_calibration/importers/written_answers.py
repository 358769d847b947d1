"""Where in what a model wrote its answer stands."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from batch_calibration.responses import AROUND, SPACES


class Mention(NamedTuple):
    """A label in a text."""

    start: int  # of its first letter
    label: str  # its name
    is_marked: bool  # whether "ANSWER:" stands before it
    is_line: bool  # whether it is marked so and the line holds nothing else, as far as a full stop
    is_article: bool  # whether it may be a word, as "A" is before another one


def find_answer(written: Sequence[str], labels: Sequence[str], recorded: str = "") -> int | None:
    """The number of the token where the answer begins, None where that cannot be told.

    After "ANSWER:" it is the first label so marked, as Inspect's own scorers take it: of those on a
    line of their own, or else of all. Without such a mark it is the only label that the text names,
    or the one that it begins with and names again.

    Args:
        written: the tokens.
        labels: the answers.
        recorded: the answer that the log's scorer took, "" if unknown; no other label counts.

    >>> find_answer(["ANSWER", ":", " B", ".", " A", " reason"], ("A", "B"))
    2
    >>> find_answer(["It", " is", " A", ",", " not", " B"], ("A", "B"), "A")
    2
    >>> find_answer(["It", " is", " A", ",", " not", " B"], ("A", "B")) is None
    True
    """
    text = "".join(written).translate(SPACES)
    mentions = list(_mentions(text, labels))
    if recorded:
        mentions = [mention for mention in mentions if mention.label == recorded]
    marked = [mention for mention in mentions if mention.is_marked]
    if not marked and len(mentions) > 1:
        is_begun = not text[: mentions[0].start].strip(AROUND) and not mentions[0].is_article
        if not is_begun or len({mention.label for mention in mentions}) > 1:
            return None
    lines = [mention for mention in marked if mention.is_line]
    first = next(iter(lines or marked or mentions), None)
    if first is None or (first.is_article and not recorded):
        return None
    ends = list(accumulate(map(len, written)))
    token = next(i for i, end in enumerate(ends) if first.start < end)
    # A token that holds the end of a word before the answer says nothing of the answer alone.
    begins = written[token].translate(SPACES).lstrip(AROUND)
    return token if text.startswith(begins.rstrip(AROUND), first.start) else None


def names_label(text: str, labels: Sequence[str]) -> bool:
    """Whether any label stands in a text."""
    return next(_mentions(text, labels), None) is not None


def _mentions(text: str, labels: Sequence[str]) -> Iterator[Mention]:
    """The labels that stand in a text as whole words."""
    around = re.escape(AROUND)
    names = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    pattern = rf"(?P<mark>answer\s*:[{around}]*)?(?<!\w)(?P<label>{names})(?!\w)"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        start, end = match.span("label")
        is_marked = match["mark"] is not None
        folded = [name for name in labels if name.casefold() == match["label"].casefold()]
        label = match["label"] if match["label"] in folded else folded[0]
        is_letter = len(label) == 1
        if is_letter and not is_marked and match["label"] != label:
            continue  # "a" is a word and no answer "A"; after "ANSWER:" it is one
        before, after = text[: match.start()].rstrip(" \t"), text[end : end + 80]
        begins_line, ends_line = before[-1:] in ("", "\n"), re.match(r"[)\s*]*($|\n|\.)", after)
        is_line = is_marked and begins_line and ends_line is not None
        is_article = is_letter and re.match(r"[ \t]+\w", after) is not None
        yield Mention(start, label, is_marked, is_line, is_article)

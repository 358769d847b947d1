"""Whether the prompt that a server scored is what was sent, and which of its tokens are a label."""

import codecs
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays import find_missing
from batch_calibration.errors import InputError, shown
from batch_calibration.responses import PromptTokens, end_log_prob

GAP, LOST = "\N{REPLACEMENT CHARACTER}", "\0"
"""What stands for part of a letter of several bytes: as servers write it, and where they leave it
out."""
MOST_PARTS = 4  # tokens that such a letter may have: its bytes
MOST_BEGINNINGS = 2  # tokens that a model may put before each text
# <s>, <|begin_of_text|>, [gMASK]: they begin a text, not the turn of a speaker.
_BEGINNING = re.compile(
    r"(?!.*(?:im_|turn|header|role|user))"
    r"[<\[][|\uff5c]?(?:/?s|[\w: ]*(?:bos|begin|start|end|cls|sop|gmask)[\w: ]*)[|\uff5c]?[>\]]",
    re.IGNORECASE,
)
# What is surely one token, or part of one: spaces and a word, digits, signs, or another letter.
_ONE_TOKEN = re.compile(r"\s*(?:[^\w\s]?[A-Za-z]{0,30}|\d{0,16}|[!-/:-@\[-`{-~]{0,16}|\S)")
_BYTES = re.compile(r"bytes:((?:\\x[0-9a-f]{2})+)|<0x([0-9A-F]{2})>")  # OpenAI's, SentencePiece's


def label_log_probs(
    prompt: PromptTokens, text: str, form: str, where: str, hides_first: bool = False
) -> np.ndarray:
    """The log-probabilities [tokens] of the label `form` behind `text`, in nats.

    All that the server scored is compared with what was sent. Not compared is what tokens do not
    show: one that begins each text, how a byte of a letter looks alone, the spaces that decoding a
    SentencePiece token alone takes away, or what it normalizes. With `hides_first` the server does
    not show the first token, which may then be any.

    Raises:
        InputError: the server scored another text; where the label begins, or a log-probability of
            it, is not there.

    >>> prompt = PromptTokens(("<s>", "Is it", "?", " yes"), (np.nan, -9.0, -1.0, -0.5))
    >>> label_log_probs(prompt, "Is it?", " yes", "the answer").tolist()
    [-0.5]
    """
    sent = text + form
    texts = _decode(prompt.tokens, sent)
    decoded = PromptTokens(tuple(texts), prompt.log_probs)
    match = _match(texts, hides_first, sent)
    if match is None:
        end_log_prob(decoded, form, where)  # says so if another label or none stands at the end
        joined = "".join(texts)
        got = f"{len(joined):,} letters, {shown(joined, 60)}"
        if sent.endswith(joined):
            got = f"its last {len(joined):,} letters alone"
        raise InputError(
            where=where,
            expected=f"the prompt that was sent, {len(sent):,} letters, {shown(sent, 60)}",
            got=got,
            remedy="the server cuts or changes prompts: send shorter ones (config.over_long with "
            "config.tokenizer), or have it take them as they are",
        )
    start = _first_token(texts, form, match.view)
    if start is None:  # a token holds a space of the prompt, or more of it, which is refused
        start = len(texts) - end_log_prob(decoded, form, where)[1]
    while start < len(texts) and not texts[start] and not match.is_whole and form.isascii():
        start += 1  # part of a letter of the prompt, as the label has none of several bytes
    hides_spaces = match.view.spaceless and text[-1:].isspace()
    if not texts[start] and (not match.is_whole or hides_spaces):
        raise InputError(
            f"{where}: whether a token without a text before the label {shown(form)} belongs to "
            "the label is not plain; begin it with a space, or try another config.api_scores."
        )
    log_probs = np.array(prompt.log_probs[start:])
    if find_missing(log_probs).any():
        raise InputError(
            where=where, expected=f"a log-probability of each token of {shown(form)}", got="none"
        )
    return log_probs


class _View(NamedTuple):
    """A way of writing texts in which a tokenizer shows what it read."""

    write: Callable[[str], str]  # a text -> the text in it
    # Whether the texts of tokens look as if written so.
    fits: Callable[[Sequence[str]], bool] = lambda _: True
    spaceless: bool = False  # whether spaces are left out


class _Match(NamedTuple):
    """How tokens match what was sent: in which view, and whether with all letters."""

    view: _View
    is_whole: bool


def _lacks(pattern: str) -> Callable[[Sequence[str]], bool]:
    """Whether no token has a pattern."""
    return lambda texts: not any(re.search(pattern, text) for text in texts)


def _normalized(text: str, space: str) -> str:
    return re.sub(r"\s+", space, unicodedata.normalize("NFKC", text))


_VIEWS = (
    _View(str),
    # Transformers' decoding of single tokens leaves out a space before such signs.
    _View(lambda text: re.sub(r" (?=[.,?!']|n't)", "", text)),
    # SentencePiece may make one space of several and of line ends ...
    _View(lambda text: _normalized(text, " "), _lacks(r"\n|  ")),
    # ... and the decoding of single tokens leaves out the space before each word ...
    _View(lambda text: text.replace(" ", ""), _lacks(r" \S"), spaceless=True),
    # ... or both.
    _View(lambda text: _normalized(text, ""), _lacks(r"\s"), spaceless=True),
)


def _match(texts: Sequence[str], hides_first: bool, sent: str) -> _Match | None:
    """How the texts of tokens match what was sent; None if they do not."""
    first = int(hides_first)
    for begin in range(first, min(first + MOST_BEGINNINGS, len(texts)) + 1):
        if begin > first and texts[begin - 1] and not _BEGINNING.fullmatch(texts[begin - 1]):
            return None
        for view in _VIEWS:
            if view.fits(texts[begin:]):
                written = view.write(sent)
                bare = written.removeprefix(" ")  # SentencePiece puts a space before the first word
                for empty in ("", LOST):
                    pattern = view.write("".join(text or empty for text in texts[begin:]))
                    is_whole = GAP not in pattern and LOST not in pattern
                    before = _text_before(pattern, written)
                    if before == "" or _text_before(pattern.removeprefix(" "), bare) == "":
                        return _Match(view, is_whole)
                    if before and begin == first == 1 and _is_one_token(before, view, sent):
                        return _Match(view, is_whole)
    return None


def _is_one_token(beginning: str, view: _View, sent: str) -> bool:
    """Whether the beginning of what was sent, which reads so in a view, is surely one token."""
    for end in range(len(sent)):
        if view.write(sent[:end]) == beginning:
            return _ONE_TOKEN.fullmatch(sent[:end]) is not None
        if len(view.write(sent[:end])) > len(beginning):
            break
    return False


def _text_before(pattern: str, sent: str) -> str | None:
    """What stands in `sent` before the pattern, with which it ends; None if it does not.

    A run of gaps stands for one letter of several bytes at least and as many as they are at most,
    and for none that a pattern begins with: there a server may have cut. Two are one letter.

    >>> _text_before("Caf\ufffd\ufffd?", "Café?"), _text_before("here?", "Is it here?")
    ('', 'Is it ')
    """
    pieces = re.split(f"([{GAP}{LOST}]+)", pattern)
    end = len(sent)
    for i in reversed(range(0, len(pieces), 2)):
        piece, gaps = pieces[i], "".join(pieces[i + 1 : i + 2])
        sizes = range(-(-len(gaps) // MOST_PARTS), len(gaps) + 1)
        if gaps and i == 0 and not piece:
            sizes = range(1, 2 if gaps == 2 * GAP else 1)
        for size in sizes:
            letters = sent[max(end - size, 0) : end]
            is_letters = len(letters) == size and not any(map(str.isascii, letters))
            if is_letters and sent.endswith(piece, 0, end - size):
                end -= size + len(piece)
                break
        else:
            return None
    return sent[:end]


def _decode(tokens: Sequence[str], sent: str) -> list[str]:
    """The text of each token; of a letter of several bytes, it stands where the last byte does."""
    joined = "".join(tokens)
    # Texts as a byte-level vocabulary holds them, a space as "Ġ".
    is_byte_level = re.search("[ĠĊ]", joined) and not re.search("[ĠĊ]", sent)
    alphabet = _byte_alphabet() if is_byte_level else {}
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = []
    for token in tokens:
        content = token.encode(errors="replace")
        if match := token not in sent and _BYTES.fullmatch(token):
            content = bytes.fromhex((match[1] or match[2]).replace("\\x", ""))
        elif alphabet and set(token) <= alphabet.keys():
            content = bytes(map(alphabet.__getitem__, token))
        text = decoder.decode(content)
        texts.append(text if "▁" in sent else text.replace("▁", " "))
    return texts


@cache
def _byte_alphabet() -> dict[str, int]:
    """The letter of each byte in byte-level vocabularies: its own where that can be printed."""
    printed = {*range(33, 127), *range(161, 173), *range(174, 256)}
    byte_of = {chr(byte): byte for byte in printed}
    for i, byte in enumerate(sorted(set(range(256)) - printed)):
        byte_of[chr(256 + i)] = byte
    return byte_of


def _first_token(texts: Sequence[str], form: str, view: _View) -> int | None:
    """The first of the last tokens that are a label, None where one holds a space more."""
    label, first, end = view.write(form), None, ""
    for start in reversed(range(len(texts))):
        end = texts[start] + end
        written = view.write(end)
        if written == label:
            first = start
        elif len(written) > len(label):
            break
    return first

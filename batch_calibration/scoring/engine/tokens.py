"""Tokenizes prompts and labels jointly and splits them where the prompt ends.

The rule is lm-evaluation-harness's: white space at the end of a prompt moves to the label, prompt
and label are encoded together, and the label's tokens are those past the prompt's own count.
"""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from threading import Thread
from typing import NamedTuple

from tokenizers import Encoding, Tokenizer

from batch_calibration.errors import InputError, shown

MOST_SECONDS, LETTERS_PER_SECOND = 30.0, 20_000
"""Time to tokenize a batch: so long, and longer for its letters; a tokenizer reads millions."""
LINE_ENDS = re.compile(r"(?<=[!-~])(?=\r?\n)")
"""Where a line ends after a visible ASCII character."""
LabelTokens = tuple[tuple[int, ...], ...]
"""The token ids of each label after one prompt."""


class Encoded(NamedTuple):
    """Token ids of `n` prompts, and for each prompt the ids of the `k` labels that follow it."""

    prompts: list[list[int]]
    labels: list[LabelTokens]


def encode(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    labels: Sequence[str],
    bos: int | None = None,
    first: int = 0,
    prefix: int | None = None,
) -> Encoded:
    r"""Encode each text jointly with each label, `bos` (if any) before every text.

    Errors count rows from `first`; `prefix` stands for a text that has no token at all.

    Raises:
        InputError: no labels; a text without tokens; a label that is empty or equal to another
            once it is tokens (a label that another begins with is fine).

    Example:
        encode(tokenizer, ["Review: fine\nSentiment:"], [" negative", " positive"])
    """
    if not labels:
        raise InputError(where="labels", expected="one or more continuations", got="none")
    bare = list(map(str.rstrip, texts))
    local = splits_at_spaces(tokenizer)
    pairs = []  # of each text and each label: the end of the text, and that end with the label
    for text, stem in zip(texts, bare, strict=True):
        space = text[len(stem) :]
        cut_at: dict[str, int] = {}  # first character of the label -> where the text is cut
        row_pairs = []
        for label in labels:
            first_character = (space + label)[:1]
            if local and first_character not in cut_at:
                cut_at[first_character] = _cut(stem + first_character)
            end = stem[cut_at.get(first_character, 0) :]  # its last word is tokenized again
            row_pairs.append((end, end + space + label))
        pairs.append(row_pairs)
    # Each distinct piece is tokenized once, in order of appearance.
    pieces = list(dict.fromkeys(chain.from_iterable(chain.from_iterable(pairs))))
    ids = dict(zip(pieces, token_ids(tokenizer, pieces), strict=True))
    rows: list[LabelTokens] = []
    for row_pairs in pairs:
        # A label's tokens are those past the count of the text before it.
        label_tokens = [tuple(ids[joined][len(ids[end]) :]) for end, joined in row_pairs]
        rows.append(tuple(label_tokens))
    for split in set(rows):
        _check(split, labels, texts[rows.index(split)])
    # Ids of each text; where that is exact, a line of many texts, as in a demonstration, is encoded
    # once.
    lines = list(map(LINE_ENDS.split, bare)) if local else [[text] for text in bare]
    pieces = list(dict.fromkeys(chain.from_iterable(lines)))
    ids = dict(zip(pieces, token_ids(tokenizer, pieces), strict=True))
    prompts = [list(chain.from_iterable(map(ids.__getitem__, of_text))) for of_text in lines]
    if bos is not None:
        # A rendered chat template begins with the token already: as the harness, no second one.
        token = tokenizer.id_to_token(bos) or ""
        for row, text in enumerate(bare):
            if not (token and text.startswith(token)):
                prompts[row] = [bos, *prompts[row]]
    for row, prompt in enumerate(prompts):
        if not prompt and prefix is not None:
            prompts[row] = [prefix]
        elif not prompt:
            got = f"{bare[row]!r} without a beginning token"
            remedy = "say something before the label"
            raise InputError.at(f"row {first + row}", "a token before the label", got, remedy)
    return Encoded(prompts, rows)


def splits_at_spaces(tokenizer: Tokenizer) -> bool:
    """True where a text may be cut before a space or a line's end, after a visible ASCII character.

    True of GPT-2's byte-level splitting, none of whose words reaches from a visible character over
    white space: the pieces then encode exactly as the whole does, and shared text is encoded once.
    """
    pre = tokenizer.pre_tokenizer
    if pre is None or tokenizer.normalizer is not None or type(pre).__name__ != "ByteLevel":
        return False
    state = json.loads(pre.__getstate__())
    added = tokenizer.get_added_tokens_decoder().values()  # which are found before text is split
    return (
        state["use_regex"]
        and not state["add_prefix_space"]
        and not any(t.lstrip or t.rstrip or not t.content.isprintable() for t in added)
        and not any(" " in t.content for t in added)
    )


def _cut(text: str) -> int:
    """The last index where a text may be cut (0 where there is none)."""
    for i in range(len(text) - 1, 0, -1):
        if text[i] in " \n" and "!" <= text[i - 1] <= "~":
            return i
    return 0


def token_ids(tokenizer: Tokenizer, texts: list[str], *, special: bool = False) -> list[list[int]]:
    """Token ids of each text, with `special` also what the tokenizer puts around it.

    Raises:
        InputError: one that is no text: of another type, or with half a surrogate pair; a
            tokenizer that fails or comes to no end.
    """
    outcome: list[list[Encoding] | BaseException] = []

    def encode() -> None:
        try:
            outcome.append(tokenizer.encode_batch_fast(texts, add_special_tokens=special))
        except BaseException as error:  # a panic of Rust is no Exception
            outcome.append(error)

    # A thread: what splits text by a regular expression may have no end, and cannot be stopped.
    thread = Thread(target=encode, daemon=True)
    thread.start()
    letters = sum(map(len, filter(_is_text, texts)))
    thread.join(MOST_SECONDS + letters / LETTERS_PER_SECOND)
    encodings = outcome[0] if outcome else TimeoutError("it comes to no end")
    if isinstance(encodings, TypeError):
        wrong = next((text for text in texts if not _is_text(text)), texts)
        raise InputError(
            f"{shown(wrong)} is no text that can be tokenized; give a str without halves of "
            "surrogate pairs."
        ) from encodings
    if isinstance(encodings, BaseException):
        raise InputError(
            f"tokenizer.json cannot split {len(texts):,} texts of {letters:,} letters ("
            f"{str(encodings)[:200]}); fetch the file again, or repair its regular expressions."
        ) from encodings
    return [encoding.ids for encoding in encodings]


def count_cut(tokenizer: Tokenizer, texts: list[str], ids: list[list[int]], longest: int) -> int:
    """The number of texts with more tokens than `longest`, where their `ids` were cut."""
    # Of texts as long as the limit, some just fit.
    full = [text for text, row in zip(texts, ids, strict=True) if len(row) == longest]
    return sum(len(row) > longest for row in token_ids(tokenizer, full, special=True))


def _is_text(text: object) -> bool:
    """True of a value that UTF-8 can hold."""
    return isinstance(text, str) and text.encode(errors="ignore").decode() == text


def _check(split: LabelTokens, labels: Sequence[str], text: str) -> None:
    """Refuse labels that the tokenizer leaves empty or cannot tell apart."""
    for ids, label in zip(split, labels, strict=True):
        if not ids:
            expected = f"some token after {text[-30:]!r}"
            raise InputError.at(f"label {label!r}", expected, "none", "give it a text")
    refuse_same_tokens(split, labels)


def refuse_same_tokens(token_lists: Iterable[Sequence[int]], labels: Sequence[str]) -> None:
    """Refuse labels, one of which has the token ids of another."""
    seen: dict[tuple[int, ...], str] = {}
    for ids, label in zip(map(tuple, token_lists), labels, strict=True):
        if ids in seen:
            raise InputError(
                f"labels {seen[ids]!r} and {label!r} are the same tokens to this tokenizer, so no "
                "score can tell them apart; choose other label words."
            )
        seen[ids] = label

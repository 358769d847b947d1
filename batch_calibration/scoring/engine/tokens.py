"""Tokenizes prompts and labels jointly and splits them where the prompt ends.

The rule is that of lm-evaluation-harness. White space at the end of a prompt moves to the label.
Prompt and label are encoded together. The tokens after the prompt's own count are the label's.
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
"""Time limit to tokenize a batch: seconds, and letters for each further second. Tokenizers read
millions of letters a second."""
LINE_ENDS = re.compile(r"(?<=[!-~])(?=\r?\n)")
"""The position before a line end that follows a visible ASCII character."""
LabelTokens = tuple[tuple[int, ...], ...]
"""The token ids of each label after one prompt."""


class Encoded(NamedTuple):
    """Token ids of `n` prompts, and for each prompt the token ids of its `k` labels."""

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
    r"""Encodes each text jointly with each label, with `bos` (if any) before every text.

    Errors count rows from `first`. `prefix` replaces a text without tokens.

    Raises:
        InputError: `labels` is empty; a text has no tokens; a label has no tokens, or the same
            tokens as another label. A label may be a prefix of another label.

    Example:
        encode(tokenizer, ["Review: fine\nSentiment:"], [" negative", " positive"])
    """
    if not labels:
        raise InputError(where="labels", expected="one or more continuations", got="none")
    bare = list(map(str.rstrip, texts))
    local = splits_at_spaces(tokenizer)
    pairs = []  # for each text and label: the end of the text, and the same end with the label
    for text, stem in zip(texts, bare, strict=True):
        space = text[len(stem) :]
        cut_at: dict[str, int] = {}  # first character of the label -> index of the cut
        row_pairs = []
        for label in labels:
            first_character = (space + label)[:1]
            if local and first_character not in cut_at:
                cut_at[first_character] = _cut(stem + first_character)
            end = stem[cut_at.get(first_character, 0) :]  # Only the last word is tokenized again.
            row_pairs.append((end, end + space + label))
        pairs.append(row_pairs)
    # Each distinct piece is tokenized once, in order of appearance.
    pieces = list(dict.fromkeys(chain.from_iterable(chain.from_iterable(pairs))))
    ids = dict(zip(pieces, token_ids(tokenizer, pieces), strict=True))
    rows: list[LabelTokens] = []
    for row_pairs in pairs:
        # A label's tokens follow the tokens of the text alone.
        label_tokens = [tuple(ids[joined][len(ids[end]) :]) for end, joined in row_pairs]
        rows.append(tuple(label_tokens))
    for split in set(rows):
        _check(split, labels, texts[rows.index(split)])
    # Texts share lines, as in demonstrations. Each distinct line is encoded once if the tokenizer
    # encodes lines and whole texts alike.
    lines = list(map(LINE_ENDS.split, bare)) if local else [[text] for text in bare]
    pieces = list(dict.fromkeys(chain.from_iterable(lines)))
    ids = dict(zip(pieces, token_ids(tokenizer, pieces), strict=True))
    prompts = [list(chain.from_iterable(map(ids.__getitem__, of_text))) for of_text in lines]
    if bos is not None:
        # A rendered chat template may begin with `bos`. As in the harness, no second one is added.
        token = tokenizer.id_to_token(bos) or ""
        for row, text in enumerate(bare):
            if not (token and text.startswith(token)):
                prompts[row] = [bos, *prompts[row]]
    for row, prompt in enumerate(prompts):
        if not prompt and prefix is not None:
            prompts[row] = [prefix]
        elif not prompt:
            got = f"{bare[row]!r} without a beginning-of-text token"
            remedy = "add text before the label"
            raise InputError.at(f"row {first + row}", "a token before the label", got, remedy)
    return Encoded(prompts, rows)


def splits_at_spaces(tokenizer: Tokenizer) -> bool:
    """Checks whether a text may be cut at white space after a visible ASCII character.

    This holds for GPT-2's byte-level splitting: no word reaches from a visible character across
    white space. The pieces then encode exactly as the whole text, and shared text is encoded once.
    """
    pre = tokenizer.pre_tokenizer
    if pre is None or tokenizer.normalizer is not None or type(pre).__name__ != "ByteLevel":
        return False
    state = json.loads(pre.__getstate__())
    added = tokenizer.get_added_tokens_decoder().values()  # They are found before text is split.
    return (
        state["use_regex"]
        and not state["add_prefix_space"]
        and not any(t.lstrip or t.rstrip or not t.content.isprintable() for t in added)
        and not any(" " in t.content for t in added)
    )


def _cut(text: str) -> int:
    """Finds the last index at which a text may be cut, or 0."""
    for i in range(len(text) - 1, 0, -1):
        if text[i] in " \n" and "!" <= text[i - 1] <= "~":
            return i
    return 0


def token_ids(tokenizer: Tokenizer, texts: list[str], *, special: bool = False) -> list[list[int]]:
    """Returns the token ids of each text, with the special tokens around it if `special`.

    Raises:
        InputError: a value is not a string or holds half a surrogate pair; the tokenizer fails or
            exceeds its time limit.
    """
    outcome: list[list[Encoding] | BaseException] = []

    def encode() -> None:
        try:
            outcome.append(tokenizer.encode_batch_fast(texts, add_special_tokens=special))
        except BaseException as error:  # A Rust panic is not an `Exception`.
            outcome.append(error)

    # A regular expression may run forever and cannot be interrupted, so a daemon thread runs it.
    thread = Thread(target=encode, daemon=True)
    thread.start()
    letters = sum(map(len, filter(_is_text, texts)))
    thread.join(MOST_SECONDS + letters / LETTERS_PER_SECOND)
    encodings = outcome[0] if outcome else TimeoutError("it does not finish")
    if isinstance(encodings, TypeError):
        wrong = next((text for text in texts if not _is_text(text)), texts)
        expected = "a str without halves of surrogate pairs"
        raise InputError.at("a text", expected, shown(wrong)) from encodings
    if isinstance(encodings, BaseException):
        raise InputError(
            f"tokenizer.json cannot split {len(texts):,} texts of {letters:,} letters ("
            f"{str(encodings)[:200]}); fetch the file again, or repair its regular expressions."
        ) from encodings
    return [encoding.ids for encoding in encodings]


def count_cut(tokenizer: Tokenizer, texts: list[str], ids: list[list[int]], longest: int) -> int:
    """Counts the texts with more than `longest` tokens; `ids` are their truncated token ids."""
    # A text of exactly `longest` ids may have been cut or may just fit.
    full = [text for text, row in zip(texts, ids, strict=True) if len(row) == longest]
    return sum(len(row) > longest for row in token_ids(tokenizer, full, special=True))


def _is_text(text: object) -> bool:
    """Checks whether a value is a string that UTF-8 can encode."""
    return isinstance(text, str) and text.encode(errors="ignore").decode() == text


def _check(split: LabelTokens, labels: Sequence[str], text: str) -> None:
    """Raises if the tokenizer leaves a label empty or gives two labels the same tokens."""
    for ids, label in zip(split, labels, strict=True):
        if not ids:
            expected = f"some token after {text[-30:]!r}"
            raise InputError.at(f"label {label!r}", expected, "none", "give it a text")
    refuse_same_tokens(split, labels)


def refuse_same_tokens(token_lists: Iterable[Sequence[int]], labels: Sequence[str]) -> None:
    """Raises if two labels have the same token ids."""
    seen: dict[tuple[int, ...], str] = {}
    for ids, label in zip(map(tuple, token_lists), labels, strict=True):
        if ids in seen:
            raise InputError(
                f"labels {seen[ids]!r} and {label!r} have the same tokens, so their scores would "
                "always be equal; choose other label words."
            )
        seen[ids] = label

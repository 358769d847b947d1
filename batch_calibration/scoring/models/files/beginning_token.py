"""Which token begins each sequence: what transformers 5 puts there, and a sentence that says so."""

from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from batch_calibration.errors import InputError
from batch_calibration.scoring.models.family import RawConfig

REBUILT = {"GPTNeoXTokenizer": False, "CodeLlamaTokenizer": True}
"""Classes that make the post-processor anew, and whether theirs puts `bos_token`."""
END = {"eos_token": "<|endoftext|>"}
SENTENCEPIECE = {"bos_token": "<s>", "eos_token": "</s>"}
DEFAULTS = {
    "GPT2Tokenizer": {"bos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", **END},
    "Qwen2Tokenizer": {"unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>", **END},
    "GPTNeoXTokenizer": {"bos_token": "<|endoftext|>", **END}, "LlamaTokenizer": SENTENCEPIECE,
    "CodeLlamaTokenizer": SENTENCEPIECE,
    "GemmaTokenizer": {"bos_token": "<bos>", "eos_token": "<eos>"},
}  # fmt: skip
"""Tokens that a class has where `tokenizer_config.json` names none."""


class BeginningToken(NamedTuple):
    """The token that begins each sequence.

    Attributes:
        id: Its id, or None where there is none.
        note: A sentence that says which file decided, and which other file says otherwise.
        disputed: Whether another file says otherwise.
        prefix: Id of the token that stands for an empty text (bos_token, or eos_token where there
            is none, as the harness has it); None where the tokenizer knows neither.
    """

    id: int | None
    note: str
    disputed: bool
    prefix: int | None = None


def read(
    path: Path, tokenizer_config: RawConfig, class_name: str, tokenizer: Tokenizer
) -> BeginningToken:
    """The tokens that transformers 5 puts before a text (decision 11; proof in tests/reference).

    Args:
        path: of `tokenizer_config.json`.
        tokenizer_config: what it says.
        class_name: of `tokenizer_class.class_of`.
        tokenizer: as `tokenizer.json` has it.

    Raises:
        InputError: more than one token before a text, or a `bos_token` that the tokenizer lacks.
    """
    before = tokens_before(tokenizer)  # tokens behind a text are left out
    if len(before) > 1:
        raise InputError(
            f"{path.parent / 'tokenizer.json'}: the post-processor puts the tokens "
            f"{[tokenizer.id_to_token(number) for number in before]} before a text, expected one "
            "or none; use another checkpoint."
        )
    token_id = template_id = before[0] if before else None
    decider = "tokenizer.json's post-processor"
    if class_name in REBUILT:
        token_id = _bos_token(path, tokenizer_config, tokenizer) if REBUILT[class_name] else None
        decider = f"the tokenizer class {class_name}"
    claims = {
        "tokenizer.json's post-processor": template_id is not None,
        "add_bos_token in tokenizer_config.json": tokenizer_config.get("add_bos_token"),
    }
    # A source that says nothing (None) contradicts nobody.
    agreeing = (None, token_id is not None)
    contradicting = [source for source, adds_token in claims.items() if adds_token not in agreeing]
    token = "none" if token_id is None else f"{tokenizer.id_to_token(token_id)} (id {token_id})"
    note = f"beginning token: {token}, as {decider} says"
    if contradicting:
        sources = " and ".join(contradicting)
        note += f"; {sources} says otherwise, and transformers 5 does not obey it"
    prefix = token_id
    for name in ("bos_token", "eos_token"):
        special = special_token(name, tokenizer_config, class_name)
        if prefix is None and special is not None:
            prefix = tokenizer.token_to_id(special)
    return BeginningToken(token_id, note, bool(contradicting), prefix)


def special_token(name: str, tokenizer_config: RawConfig, class_name: str) -> str | None:
    """The text of `bos_token` or another, as the files or else the class have it."""
    token = tokenizer_config.get(name, DEFAULTS.get(class_name, {}).get(name))
    text = token.get("content") if isinstance(token, dict) else token  # an added token, or its text
    return text if isinstance(text, str) else None


def tokens_before(tokenizer: Tokenizer) -> list[int]:
    """The ids that the post-processor puts before a text."""
    encoding = tokenizer.encode("a")
    mask = encoding.special_tokens_mask  # 1 where the post-processor put a token, 0 of the text
    # no token of the text: all is unknown
    return list(encoding.ids[: mask.index(0)]) if 0 in mask else []


def _bos_token(path: Path, tokenizer_config: RawConfig, tokenizer: Tokenizer) -> int:
    """The id of `bos_token`."""
    token = tokenizer_config.get("bos_token", "<s>")  # what these classes take where none is named
    text = special_token("bos_token", {"bos_token": token}, "")
    token_id = None if text is None else tokenizer.token_to_id(text)
    if token_id is None:
        raise InputError(
            f"{path}: bos_token {token!r} is no token of tokenizer.json; name one that is."
        )
    return int(token_id)

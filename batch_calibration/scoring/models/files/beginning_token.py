"""The token that begins each sequence, as in transformers 5, and a note on the deciding file."""

from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from batch_calibration.errors import InputError
from batch_calibration.scoring.models.family import RawConfig

REBUILT = {"GPTNeoXTokenizer": False, "CodeLlamaTokenizer": True}
"""Tokenizer classes that replace the post-processor, and whether their own adds `bos_token`."""
END = {"eos_token": "<|endoftext|>"}
SENTENCEPIECE = {"bos_token": "<s>", "eos_token": "</s>"}
DEFAULTS = {
    "GPT2Tokenizer": {"bos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", **END},
    "Qwen2Tokenizer": {"unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>", **END},
    "GPTNeoXTokenizer": {"bos_token": "<|endoftext|>", **END}, "LlamaTokenizer": SENTENCEPIECE,
    "CodeLlamaTokenizer": SENTENCEPIECE,
    "GemmaTokenizer": {"bos_token": "<bos>", "eos_token": "<eos>"},
}  # fmt: skip
"""The special tokens of each class, for files that name none in `tokenizer_config.json`."""


class BeginningToken(NamedTuple):
    """The token that begins each sequence.

    Attributes:
        id: Its id, or None for no token.
        note: A sentence that names the deciding file, and the files that contradict it.
        disputed: Whether another file contradicts.
        prefix: Id of the token that represents an empty text: the beginning token, else bos_token,
            else eos_token, as in lm-evaluation-harness; None without these tokens.
    """

    id: int | None
    note: str
    disputed: bool
    prefix: int | None = None


def read(
    path: Path, tokenizer_config: RawConfig, class_name: str, tokenizer: Tokenizer
) -> BeginningToken:
    """Returns the token that transformers 5 adds before a text.

    docs/decisions.md, 11, has the rule; tests/reference compares it with transformers.

    Args:
        path: The path of `tokenizer_config.json`.
        tokenizer_config: Its content.
        class_name: The tokenizer class, from `tokenizer_files.class_of`.
        tokenizer: The tokenizer of `tokenizer.json`.

    Raises:
        InputError: More than one token before a text, or a `bos_token` that the tokenizer lacks.
    """
    before = tokens_before(tokenizer)  # tokens after a text are left out
    if len(before) > 1:
        where, got = path.with_name("tokenizer.json"), [*map(tokenizer.id_to_token, before)]
        expected = "at most one token that the post-processor adds before a text"
        raise InputError.at(where, expected, got, "use another checkpoint")
    token_id = template_id = before[0] if before else None
    decider = "tokenizer.json's post-processor"
    if class_name in REBUILT:
        token_id = _bos_token(path, tokenizer_config, tokenizer) if REBUILT[class_name] else None
        decider = f"the tokenizer class {class_name}"
    claims = {
        "tokenizer.json's post-processor": template_id is not None,
        "add_bos_token in tokenizer_config.json": tokenizer_config.get("add_bos_token"),
    }
    # A file without the setting (None) contradicts no other file.
    agreeing = (None, token_id is not None)
    contradicting = [source for source, adds_token in claims.items() if adds_token not in agreeing]
    token = "none" if token_id is None else f"{tokenizer.id_to_token(token_id)} (id {token_id})"
    note = f"beginning token: {token}, from {decider}"
    if contradicting:
        sources = " and ".join(contradicting)
        note += f"; this contradicts {sources}, which transformers 5 ignores"
    prefix = token_id
    for name in ("bos_token", "eos_token"):
        special = special_token(name, tokenizer_config, class_name)
        if prefix is None and special is not None:
            prefix = tokenizer.token_to_id(special)
    return BeginningToken(token_id, note, bool(contradicting), prefix)


def special_token(name: str, tokenizer_config: RawConfig, class_name: str) -> str | None:
    """Returns the text of `bos_token` or another special token, from the files or the class."""
    token = tokenizer_config.get(name, DEFAULTS.get(class_name, {}).get(name))
    text = token.get("content") if isinstance(token, dict) else token  # an added token or a text
    return text if isinstance(text, str) else None


def tokens_before(tokenizer: Tokenizer) -> list[int]:
    """Returns the ids that the post-processor adds before a text."""
    encoding = tokenizer.encode("a")
    mask = encoding.special_tokens_mask  # 1 for added tokens, 0 for tokens of the text
    # If no token belongs to the text, the tokens before it cannot be determined.
    return list(encoding.ids[: mask.index(0)]) if 0 in mask else []


def _bos_token(path: Path, tokenizer_config: RawConfig, tokenizer: Tokenizer) -> int:
    """Returns the id of `bos_token`."""
    token = tokenizer_config.get("bos_token", "<s>")  # the default of these classes
    text = special_token("bos_token", {"bos_token": token}, "")
    token_id = None if text is None else tokenizer.token_to_id(text)
    if token_id is None:
        raise InputError.at(path, "a bos_token of tokenizer.json", repr(token), "name one of them")
    return int(token_id)

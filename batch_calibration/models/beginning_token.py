"""Which token begins each sequence: what transformers 5 puts there, and a sentence that says so."""

from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from batch_calibration.errors import InputError
from batch_calibration.models.config import read_json
from batch_calibration.models.family import RawConfig

CLASS_OF = {"gpt_neox": "GPTNeoXTokenizer"}
"""The tokenizer class of a model type whose files name none, where it decides the beginning."""
REBUILT = {"GPTNeoXTokenizer": False, "CodeLlamaTokenizer": True}
"""Classes that make the post-processor anew, and whether theirs puts `bos_token`."""
CLASSLESS = ("mistral", "ministral", "phi3", "qwen2", "granite", "olmo2")
"""Model types for which transformers does not go by the class that the files name."""


class BeginningToken(NamedTuple):
    """The token that begins each sequence.

    Attributes:
        id: Its id, or None where there is no such token.
        note: A sentence that says which file decided, and which other file says otherwise.
        disputed: Whether another file says otherwise.
    """

    id: int | None
    note: str
    disputed: bool


def read(directory: Path, tokenizer: Tokenizer, config: RawConfig) -> BeginningToken:
    """What transformers 5 puts before a text: decision 11 has the rule, tests/reference the proof.

    Raises:
        InputError: more than one token before a text, or a `bos_token` that the tokenizer lacks.
    """
    path = directory / "tokenizer_config.json"
    said = read_json(path, "a tokenizer config") if path.is_file() else {}
    model_type = str(config["model_type"])
    named = said.get("tokenizer_class") or config.get("tokenizer_class") or CLASS_OF.get(model_type)
    name = str(named).removesuffix("Fast")
    number = written = _written(directory, tokenizer)
    decider = "tokenizer.json's post-processor"
    if name in REBUILT and model_type not in CLASSLESS:
        number = _named(path, said, tokenizer) if REBUILT[name] else None
        decider = f"the tokenizer class {name}"
    others = {
        "tokenizer.json's post-processor": written is not None,
        "add_bos_token in tokenizer_config.json": said.get("add_bos_token"),
    }
    against = [other for other, puts in others.items() if puts not in (None, number is not None)]
    token = "none" if number is None else f"{tokenizer.id_to_token(number)} (id {number})"
    note = f"beginning token: {token}, as {decider} says"
    if against:
        note += f"; {' and '.join(against)} says otherwise, and transformers 5 does not obey it"
    return BeginningToken(number, note, bool(against))


def _written(directory: Path, tokenizer: Tokenizer) -> int | None:
    """What the tokenizer's post-processor puts before a text; what it puts behind is left out."""
    encoding = tokenizer.encode("a")
    mask = encoding.special_tokens_mask
    before = encoding.ids[: mask.index(0)] if 0 in mask else []
    if len(before) > 1:
        raise InputError(
            f"{directory / 'tokenizer.json'}: the post-processor puts the tokens "
            f"{[tokenizer.id_to_token(number) for number in before]} before a text, expected one "
            "or none; use another checkpoint."
        )
    return before[0] if before else None


def _named(path: Path, said: RawConfig, tokenizer: Tokenizer) -> int:
    """The id of `bos_token`."""
    token = said.get("bos_token", "<s>")
    text = token.get("content") if isinstance(token, dict) else token
    number = tokenizer.token_to_id(text) if isinstance(text, str) else None
    if number is None:
        raise InputError(
            f"{path}: bos_token {token!r} is no token of tokenizer.json; name one that is."
        )
    return int(number)

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
    tokenizer_config = read_json(path, "a tokenizer config") if path.is_file() else {}
    model_type = str(config["model_type"])
    # The tokenizer's own config goes before the network's.
    class_name = tokenizer_config.get("tokenizer_class") or config.get("tokenizer_class")
    name = str(class_name or CLASS_OF.get(model_type)).removesuffix("Fast")
    token_id = template_id = _template_token(directory, tokenizer)
    decider = "tokenizer.json's post-processor"
    if name in REBUILT and model_type not in CLASSLESS:
        token_id = _bos_token(path, tokenizer_config, tokenizer) if REBUILT[name] else None
        decider = f"the tokenizer class {name}"
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
    return BeginningToken(token_id, note, bool(contradicting))


def _template_token(directory: Path, tokenizer: Tokenizer) -> int | None:
    """What the tokenizer's post-processor puts before a text; what it puts behind is left out."""
    encoding = tokenizer.encode("a")
    mask = encoding.special_tokens_mask  # 1 where the post-processor put a token, 0 of the text
    # no token of the text: all is unknown
    before = encoding.ids[: mask.index(0)] if 0 in mask else []
    if len(before) > 1:
        raise InputError(
            f"{directory / 'tokenizer.json'}: the post-processor puts the tokens "
            f"{[tokenizer.id_to_token(number) for number in before]} before a text, expected one "
            "or none; use another checkpoint."
        )
    return before[0] if before else None


def _bos_token(path: Path, tokenizer_config: RawConfig, tokenizer: Tokenizer) -> int:
    """The id of `bos_token`."""
    token = tokenizer_config.get("bos_token", "<s>")  # what these classes take where none is named
    text = token.get("content") if isinstance(token, dict) else token  # an added token, or its text
    token_id = tokenizer.token_to_id(text) if isinstance(text, str) else None
    if token_id is None:
        raise InputError(
            f"{path}: bos_token {token!r} is no token of tokenizer.json; name one that is."
        )
    return int(token_id)

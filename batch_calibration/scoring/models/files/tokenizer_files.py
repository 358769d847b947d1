"""Reads the tokenizer of a checkpoint directory, with the class that transformers has for it."""

from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer, decoders, models
from tokenizers.processors import TemplateProcessing

from batch_calibration.errors import InputError
from batch_calibration.scoring.models.family import Kind, RawConfig
from batch_calibration.scoring.models.files import beginning_token, clip_tokenizer, tokenizer_class
from batch_calibration.scoring.models.files.beginning_token import BeginningToken
from batch_calibration.scoring.models.files.config import read_json

FILE = "tokenizer.json"
PAIR = ("vocab.json", "merges.txt")
"""What older checkpoints have in place of tokenizer.json."""
OF_PAIRS = ("GPT2Tokenizer", "Qwen2Tokenizer")
"""Classes whose checkpoints have these two files."""
SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")


class CausalTokenizer(NamedTuple):
    """How transformers reads the text of a causal language model.

    Attributes:
        tokenizer: with the padding and truncation of its file switched off.
        beginning: what begins each sequence.
        splits_as: the class that splits text otherwise than `tokenizer.json`, or `""`.
    """

    tokenizer: Tokenizer
    beginning: BeginningToken
    splits_as: str


def read_causal(directory: Path, config: RawConfig) -> CausalTokenizer:
    """The tokenizer of a causal language model, which splits text as its class does.

    Args:
        directory: with `tokenizer.json`, or `vocab.json` and `merges.txt`.
        config: of `config.json`.

    Raises:
        InputError: a file is missing or broken, or a class that is not followed.
    """
    path = directory / "tokenizer_config.json"
    options = read_json(path, "a tokenizer config") if path.is_file() else {}
    if all((directory / name).is_file() for name in PAIR) and not (directory / FILE).is_file():
        tokenizer = _of_pair(directory, options, config)
    else:
        tokenizer = read(directory, "causal_lm")
    name = tokenizer_class.class_of(options, config, tokenizer)
    beginning = beginning_token.read(path, options, name, tokenizer)
    is_split_anew = tokenizer_class.split_as(tokenizer, name, options)
    return CausalTokenizer(tokenizer, beginning, name if is_split_anew else "")


def read(directory: Path, kind: Kind) -> Tokenizer:
    """The tokenizer as its file has it, or CLIP's from its list of merges."""
    path = directory / FILE  # goes before a list of merges
    merges = [directory / name for name in clip_tokenizer.FILES if (directory / name).is_file()]
    if merges and not path.is_file() and kind == "clip":
        return clip_tokenizer.load(merges[0])
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust side raises a bare Exception
        read_json(path, "a tokenizer")  # says more of a file that is missing or no JSON
        raise InputError(f"{path}: not a tokenizer ({error}); fetch the file again.") from error
    # A stored padding or truncation would change token counts behind the scorer's back.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def files(directory: Path) -> tuple[str, ...]:
    """Names of the files that decide token ids beside `tokenizer_config.json`, if they exist."""
    return (FILE,) if (directory / FILE).is_file() else (*PAIR, *clip_tokenizer.FILES)


def _of_pair(directory: Path, options: RawConfig, config: RawConfig) -> Tokenizer:
    """A byte-level tokenizer from its vocabulary and its merges."""
    vocabulary, merges = (str(directory / name) for name in PAIR)
    try:
        tokenizer = Tokenizer(models.BPE.from_file(vocabulary, merges))
    except Exception as error:  # the Rust side raises a bare Exception
        raise InputError(
            f"{directory}: vocab.json and merges.txt are not a tokenizer ({error}); fetch the "
            "files again."
        ) from error
    tokenizer.decoder = decoders.ByteLevel()
    name = tokenizer_class.class_of(options, config, tokenizer)
    if name not in OF_PAIRS:
        raise InputError(
            where=directory, expected="tokenizer.json", got=f"vocab.json and merges.txt of {name}",
            remedy="use a checkpoint with tokenizer.json",
        )  # fmt: skip
    tokens = {key: beginning_token.special_token(key, options, name) for key in SPECIAL}
    named = list(dict.fromkeys(token for token in tokens.values() if token is not None))
    tokenizer.add_special_tokens(named)
    begin = tokens["bos_token"]
    # Without tokenizer.json, and so without a post-processor, this option is obeyed.
    if options.get("add_bos_token") and begin is not None:
        tokenizer.post_processor = TemplateProcessing(
            single=[begin, "$A"], special_tokens=[(begin, tokenizer.token_to_id(begin))]
        )
    return tokenizer

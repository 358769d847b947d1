"""Which class of transformers 5 reads a text, and how it splits where it ignores tokenizer.json.

Some classes take the vocabulary and the merges from `tokenizer.json` and make the normalizer and
the pre-tokenizer anew, so that the same files give other ids than `tokenizer.json` alone. Scores
are compared with those of transformers, so its ids are followed (decision 11).
"""

import json
from collections.abc import Callable
from typing import NamedTuple

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from batch_calibration.errors import InputError
from batch_calibration.scoring.models.family import RawConfig

BACKEND = "TokenizersBackend"
"""The class that takes tokenizer.json as it stands."""
REGISTERED = {
    "gpt2": "GPT2Tokenizer", "gptj": "GPT2Tokenizer", "opt": "GPT2Tokenizer",
    "gpt_neo": "GPT2Tokenizer", "phi": "GPT2Tokenizer", "stablelm": BACKEND,
    "gpt_neox": "GPTNeoXTokenizer", "qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer",
    "gemma2": "GemmaTokenizer", "gemma3": "GemmaTokenizer", "gemma3_text": "GemmaTokenizer",
    "cohere2": "CohereTokenizer", "mistral": BACKEND, "ministral": BACKEND, "granite": BACKEND,
    "phi3": BACKEND, "olmo2": BACKEND, "olmo3": BACKEND, "mixtral": BACKEND,
    "qwen3_moe": "Qwen2Tokenizer", "gemma": "GemmaTokenizer", "cohere": "CohereTokenizer",
}  # fmt: skip
"""Model type -> the class that transformers 5 has for it; absent: the one that the files name."""
NOT_BY_THE_FILES = ("qwen2", "phi3")
"""Model types whose registered class is taken, whatever the files name."""
UNSUPPORTED = (
    "AlbertTokenizer", "BarthezTokenizer", "BertTokenizer", "BigBirdTokenizer",
    "BlenderbotTokenizer", "CamembertTokenizer", "DebertaTokenizer", "DebertaV2Tokenizer",
    "FNetTokenizer", "FunnelTokenizer", "HerbertTokenizer", "MBart50Tokenizer", "MBartTokenizer",
    "MPNetTokenizer", "NllbTokenizer", "NougatTokenizer", "OpenAIGPTTokenizer", "PegasusTokenizer",
    "Qwen3_5Tokenizer", "ReformerTokenizer", "RemBertTokenizer", "RobertaTokenizer",
    "RoFormerTokenizer", "SplinterTokenizer", "T5Tokenizer", "WhisperTokenizer", "XGLMTokenizer",
    "XLMRobertaTokenizer", "XLNetTokenizer",
)  # fmt: skip
"""Classes that split text their own way, which no causal network here was trained with."""
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Splitting(NamedTuple):
    """How a class splits text.

    Attributes:
        normalizer: what it does to the characters, or None for nothing.
        pre_tokenizer: what splits them into words.
        fuse_unk, byte_fallback: options of the byte-pair model.
        unk_token: what it gives for characters that it lacks, or None for nothing.
    """

    normalizer: Normalizer | None
    pre_tokenizer: PreTokenizer
    fuse_unk: bool = False
    byte_fallback: bool = False
    unk_token: str | None = None


def _byte_level(options: RawConfig) -> PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=bool(options.get("add_prefix_space", False)))


def _metaspace(prepend_scheme: str) -> PreTokenizer:
    return pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=prepend_scheme, split=False)


def _unk_token(options: RawConfig) -> str:
    """Which token stands for unknown characters: an added token, or its text."""
    token = options.get("unk_token", "<unk>")
    return str(token["content"] if isinstance(token, dict) else token)


def _gpt2(options: RawConfig) -> Splitting:
    return Splitting(None, _byte_level(options))


def _gpt_neox(options: RawConfig) -> Splitting:
    return Splitting(normalizers.NFC(), _byte_level(options))


def _cohere(options: RawConfig) -> Splitting:
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.Sequence([digits, _byte_level(options)])
    return Splitting(normalizers.NFC(), words)


def _qwen2(options: RawConfig) -> Splitting:
    words = pre_tokenizers.Split(Regex(QWEN_WORDS), behavior="isolated")
    adds_space = bool(options.get("add_prefix_space"))
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=adds_space, use_regex=False)
    return Splitting(normalizers.NFC(), pre_tokenizers.Sequence([words, to_bytes]))


def _gemma(options: RawConfig) -> Splitting:
    words = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    spaces = normalizers.Replace(" ", "▁")
    return Splitting(spaces, words, True, True, _unk_token(options))


def _llama(options: RawConfig) -> Splitting:
    prepend_scheme = "never"
    if options.get("add_prefix_space") in (None, True):
        prepend_scheme = "always" if options.get("legacy") else "first"
    return Splitting(None, _metaspace(prepend_scheme), fuse_unk=True, byte_fallback=True)


def _code_llama(options: RawConfig) -> Splitting:
    prepend_scheme = "first" if options.get("add_prefix_space") in (None, True) else "never"
    return Splitting(None, _metaspace(prepend_scheme), True, True, _unk_token(options))


SPLITTINGS: dict[str, Callable[[RawConfig], Splitting]] = {
    "GPT2Tokenizer": _gpt2, "GPTNeoXTokenizer": _gpt_neox, "CohereTokenizer": _cohere,
    "Qwen2Tokenizer": _qwen2, "GemmaTokenizer": _gemma, "LlamaTokenizer": _llama,
    "CodeLlamaTokenizer": _code_llama,
}  # fmt: skip
"""Class -> how it splits, from the options of `tokenizer_config.json`."""


def class_of(tokenizer_config: RawConfig, config: RawConfig, tokenizer: Tokenizer) -> str:
    """The name of the class that transformers 5 takes for a causal language model.

    Args:
        tokenizer_config: of `tokenizer_config.json`; its class goes before the network's.
        config: of `config.json`.
        tokenizer: as `tokenizer.json` has it.
    """
    model_type = str(config["model_type"])
    named = tokenizer_config.get("tokenizer_class") or config.get("tokenizer_class")
    name = str(named).removesuffix("Fast") if named else ""
    registered = REGISTERED.get(model_type, "")
    if registered == BACKEND:
        return BACKEND
    if model_type in NOT_BY_THE_FILES or not name:
        return registered or BACKEND
    if name == "LlamaTokenizer" and _is_byte_level(tokenizer):
        # Llama 3 and its like: the class would split at the wrong places, and is not taken.
        return BACKEND
    return name if name in SPLITTINGS or name in UNSUPPORTED else BACKEND


def split_as(tokenizer: Tokenizer, class_name: str, tokenizer_config: RawConfig) -> bool:
    """Let a tokenizer split text as a class does; whether it did otherwise before.

    Raises:
        InputError: a class that splits text its own way, which is not followed here, or a
            vocabulary without the class's token for unknown characters.
    """
    if class_name in UNSUPPORTED:
        raise InputError(
            where="tokenizer_config.json",
            expected=f"a tokenizer class whose splitting is known ({', '.join(SPLITTINGS)})",
            got=class_name,
            remedy="use a checkpoint of another class, or, if tokenizer.json splits text as the "
            "network was trained, write PreTrainedTokenizerFast there",
        )
    if class_name not in SPLITTINGS:
        return False
    splitting = SPLITTINGS[class_name](tokenizer_config)
    unknown = splitting.unk_token
    if unknown is not None and tokenizer.model.token_to_id(unknown) is None:
        raise InputError(
            where="tokenizer.json",
            expected=f"the token {unknown!r}, which {class_name} gives for unknown characters",
            got="a vocabulary without it",
            remedy="if tokenizer.json splits text as the network was trained, write "
            "PreTrainedTokenizerFast as tokenizer_class into tokenizer_config.json",
        )
    before = _state(tokenizer)  # to tell in the end whether anything changed
    tokenizer.normalizer = splitting.normalizer
    tokenizer.pre_tokenizer = splitting.pre_tokenizer
    tokenizer.model.fuse_unk = splitting.fuse_unk
    tokenizer.model.byte_fallback = splitting.byte_fallback
    tokenizer.model.unk_token = splitting.unk_token
    return _state(tokenizer) != before


def _state(tokenizer: Tokenizer) -> tuple[object, ...]:
    parts = [tokenizer.normalizer, tokenizer.pre_tokenizer]
    states = [json.loads(part.__getstate__()) if part is not None else None for part in parts]
    model = tokenizer.model
    return (*states, model.fuse_unk, model.byte_fallback, model.unk_token)


def _is_byte_level(tokenizer: Tokenizer) -> bool:
    """Whether a part of tokenizer.json is of bytes, which is how transformers decides."""
    parts = [tokenizer.pre_tokenizer, tokenizer.decoder, tokenizer.post_processor]
    return any(b'"ByteLevel"' in part.__getstate__() for part in parts if part is not None)

"""Reads the tokenizer of a checkpoint directory as the tokenizer class in transformers does."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer
from tokenizers.processors import TemplateProcessing

from batch_calibration.errors import InputError, answering
from batch_calibration.scoring.models.family import Kind, RawConfig
from batch_calibration.scoring.models.files import beginning_token
from batch_calibration.scoring.models.files.beginning_token import BeginningToken
from batch_calibration.scoring.models.files.config import read_json
from batch_calibration.scoring.models.files.gguf_file import QWEN2_WORDS

FILE = "tokenizer.json"
PAIR = ("vocab.json", "merges.txt")
"""The files of older checkpoints without tokenizer.json."""
OF_PAIRS = ("GPT2Tokenizer", "Qwen2Tokenizer")
"""Tokenizer classes of the checkpoints with these two files."""
MOST_GROWTH = 10_000  # the largest factor by which normalizers may lengthen a text
SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")
BACKEND = "TokenizersBackend"
"""The class that uses tokenizer.json without changes."""
MODEL_TYPES = {
    "GPT2Tokenizer": "gpt2 gptj opt gpt_neo phi",
    "GPTNeoXTokenizer": "gpt_neox",
    "Qwen2Tokenizer": "qwen2 qwen3 qwen3_moe",
    "GemmaTokenizer": "gemma gemma2 gemma3 gemma3_text",
    BACKEND: "mistral ministral mixtral granite phi3 olmo2 olmo3",
}
REGISTERED = dict[str, str]()
for class_name, model_types in MODEL_TYPES.items():
    REGISTERED |= dict.fromkeys(model_types.split(), class_name)
"""Model type -> its class in transformers 5; for other types, the files name the class."""
NOT_BY_THE_FILES = ("qwen2", "phi3")
"""Model types that always use their registered class, even if the files name another."""
LISTED_CLASSES = (
    "AlbertTokenizer BarthezTokenizer BertTokenizer BigBirdTokenizer BlenderbotTokenizer "
    "CamembertTokenizer CohereTokenizer DebertaTokenizer DebertaV2Tokenizer FNetTokenizer "
    "FunnelTokenizer HerbertTokenizer MBart50Tokenizer MBartTokenizer MPNetTokenizer NllbTokenizer "
    "NougatTokenizer OpenAIGPTTokenizer PegasusTokenizer Qwen3_5Tokenizer ReformerTokenizer "
    "RemBertTokenizer RobertaTokenizer RoFormerTokenizer SplinterTokenizer T5Tokenizer "
    "WhisperTokenizer XGLMTokenizer XLMRobertaTokenizer XLNetTokenizer"
)
UNSUPPORTED = LISTED_CLASSES.split()
"""Classes with their own way to split text; no causal network here was trained with one."""
AS_TRAINED = (
    "if tokenizer.json splits text as in the network's training, write PreTrainedTokenizerFast as "
    "tokenizer_class into tokenizer_config.json"
)
"""The remedy for a class that does not fit."""


def read_causal(directory: Path, config: RawConfig) -> tuple[Tokenizer, BeginningToken, str]:
    """Reads the tokenizer of a causal language model as transformers does.

    Padding and truncation of the file are switched off.

    Args:
        directory: A directory with `tokenizer.json`, or with `vocab.json` and `merges.txt`.
        config: The content of `config.json`.

    Returns:
        The tokenizer, its beginning token, and the name of the class if it splits text differently
        from `tokenizer.json`, else "".

    Raises:
        InputError: A file is missing or broken, or the tokenizer class is not supported.
    """
    path = directory / "tokenizer_config.json"
    options = read_json(path, "a tokenizer config") if path.is_file() else {}
    if all((directory / name).is_file() for name in PAIR) and not (directory / FILE).is_file():
        tokenizer = _of_pair(directory, options, config)
    else:
        tokenizer = read(directory, "causal_lm")
    name = class_of(options, config, tokenizer)
    beginning = beginning_token.read(path, options, name, tokenizer)
    return tokenizer, beginning, name if split_as(tokenizer, name, options) else ""


def read(directory: Path, kind: Kind) -> Tokenizer:
    """Reads the tokenizer of `tokenizer.json`, or CLIP's tokenizer from its list of merges.

    Raises:
        InputError: The file is invalid, has random dropout, or may lengthen texts too much.
    """
    path = directory / FILE  # takes precedence over a list of merges
    merges = [directory / name for name in FILES if (directory / name).is_file()]
    if merges and not path.is_file() and kind == "clip":
        return load(merges[0])
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except BaseException as error:  # the library raises a bare Exception, or a panic
        if isinstance(error, KeyboardInterrupt):
            raise
        read_json(path, "a tokenizer")  # explains a missing file or invalid JSON better
        raise InputError(f"{path}: not a tokenizer ({error}); fetch the file again.") from error
    if getattr(tokenizer.model, "dropout", None):
        got = f"dropout {tokenizer.model.dropout}"
        raise InputError.at(path, "merges without random dropout", got, "set dropout to null")
    if tokenizer.normalizer is not None:
        growth = _growth(json.loads(tokenizer.normalizer.__getstate__()))
        if growth > MOST_GROWTH:
            expected = f"normalizers that make a text at most {MOST_GROWTH:,} times as long"
            raise InputError.at(path, expected, f"{growth:.3g} times", "fetch the file again")
    # Padding or truncation from the file would change token counts without the scorer's knowledge.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _growth(normalizer: Any) -> float:
    """Returns the factor by which a normalizer's replacements may lengthen a text."""
    growth = 1.0
    for part in normalizer.get("normalizers", ()):
        growth *= _growth(part)
    if normalizer.get("type") == "Replace":
        pattern, content = normalizer["pattern"], len(normalizer["content"])
        # A regular expression may match before every character.
        growth = max(1.0, content / len(pattern.get("String") or "a") + ("Regex" in pattern))
    return growth


def files(directory: Path) -> tuple[str, ...]:
    """Returns the possible files that, with `tokenizer_config.json`, decide token ids."""
    return (FILE,) if (directory / FILE).is_file() else (*PAIR, *FILES)


def _of_pair(directory: Path, options: RawConfig, config: RawConfig) -> Tokenizer:
    """Builds a byte-level tokenizer from its vocabulary and its merges."""
    vocabulary, merges = (str(directory / name) for name in PAIR)
    expected = "vocab.json and merges.txt of a tokenizer"
    # The tokenizers library raises a bare Exception.
    with answering(Exception, directory, expected, "fetch the files again"):
        tokenizer = Tokenizer(models.BPE.from_file(vocabulary, merges))
    tokenizer.decoder = decoders.ByteLevel()
    name = class_of(options, config, tokenizer)
    if name not in OF_PAIRS:
        got, remedy = f"vocab.json and merges.txt of {name}", "use a checkpoint with tokenizer.json"
        raise InputError.at(directory, "tokenizer.json", got, remedy)
    tokens = {key: beginning_token.special_token(key, options, name) for key in SPECIAL}
    named = list(dict.fromkeys(token for token in tokens.values() if token is not None))
    tokenizer.add_special_tokens(named)
    begin = tokens["bos_token"]
    # Without the post-processor of tokenizer.json, transformers follows this option.
    if options.get("add_bos_token") and begin is not None:
        tokenizer.post_processor = TemplateProcessing(
            single=[begin, "$A"], special_tokens=[(begin, tokenizer.token_to_id(begin))]
        )
    return tokenizer


class Splitting(NamedTuple):
    """The way in which a tokenizer class splits text.

    Attributes:
        normalizer: Changes the characters; None for no change.
        pre_tokenizer: Splits them into words.
        fuse_unk, byte_fallback: Options of the byte-pair model.
        unk_token: The token for unknown characters, or None.
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
    """Returns the token for unknown characters."""
    token = options.get("unk_token", "<unk>")
    return str(token["content"] if isinstance(token, dict) else token)


def _qwen2(options: RawConfig) -> Splitting:
    (expression,) = QWEN2_WORDS
    words = pre_tokenizers.Split(Regex(expression), behavior="isolated")
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
    "GPT2Tokenizer": lambda options: Splitting(None, _byte_level(options)),
    "GPTNeoXTokenizer": lambda options: Splitting(normalizers.NFC(), _byte_level(options)),
    "Qwen2Tokenizer": _qwen2,
    "GemmaTokenizer": _gemma,
    "LlamaTokenizer": _llama,
    "CodeLlamaTokenizer": _code_llama,
}
"""Tokenizer class -> its way to split text, given the options of `tokenizer_config.json`."""


def class_of(tokenizer_config: RawConfig, config: RawConfig, tokenizer: Tokenizer) -> str:
    """Returns the tokenizer class that transformers 5 uses for a causal language model.

    Args:
        tokenizer_config: The content of `tokenizer_config.json`; its class takes precedence over
            the class in `config.json`.
        config: The content of `config.json`.
        tokenizer: The tokenizer of `tokenizer.json`.
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
        # The class would split texts of Llama 3 and similar models at the wrong places.
        return BACKEND
    return name if name in SPLITTINGS or name in UNSUPPORTED else BACKEND


def split_as(tokenizer: Tokenizer, class_name: str, tokenizer_config: RawConfig) -> bool:
    """Makes a tokenizer split text as a class does; returns whether this changes the tokenizer.

    Raises:
        InputError: The class splits text in a way that is not supported here, or the vocabulary
            lacks the class's token for unknown characters.
    """
    if class_name in UNSUPPORTED:
        expected = f"a supported tokenizer class ({', '.join(SPLITTINGS)})"
        raise InputError.at("tokenizer_config.json", expected, class_name, AS_TRAINED)
    if class_name not in SPLITTINGS:
        return False
    splitting = SPLITTINGS[class_name](tokenizer_config)
    unknown = splitting.unk_token
    if unknown is not None and tokenizer.model.token_to_id(unknown) is None:
        expected = f"the token {unknown!r}, which {class_name} uses for unknown characters"
        raise InputError.at("tokenizer.json", expected, "a vocabulary without it", AS_TRAINED)
    before = _state(tokenizer)  # compared with the state after the changes
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
    """Checks whether a part of tokenizer.json is byte-level, by the rule of transformers."""
    parts = [tokenizer.pre_tokenizer, tokenizer.decoder, tokenizer.post_processor]
    return any(b'"ByteLevel"' in part.__getstate__() for part in parts if part is not None)


FILES = ("merges.txt", "bpe_simple_vocab_16e6.txt.gz")
"""File names of the list of merges in Hugging Face directories and in CLIP's own repository."""
MERGES = 49_152 - 256 - 2
START, END, WORD = "<|startoftext|>", "<|endoftext|>", "</w>"
PARTS = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


def load(path: Path) -> Tokenizer:
    """Reads a list of merges, one pair per line after a version line, plain or gzipped.

    Raises:
        InputError: The file is not a list of merges.
    """
    kinds = (OSError, ValueError, EOFError)
    with answering(kinds, path, "a readable file", "fetch the file again"):
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    lines = text.splitlines()[1 : 1 + MERGES]  # CLIP uses only part of its list
    merges = []
    for line in lines:
        first, _, second = line.partition(" ")
        merges.append((first, second))
    if not merges or any(" " in second or not second for _, second in merges):
        raise InputError.at(path, "two tokens to merge per line", remedy="fetch the file again")
    return build(merges)


def build(merges: list[tuple[str, str]]) -> Tokenizer:
    """Builds the tokenizer of these merges, which adds a special token before and after each text.

    >>> build([("c", "a"), ("ca", "t</w>")]).encode("A  CAT").tokens
    ['<|startoftext|>', 'a</w>', 'cat</w>', '<|endoftext|>']
    """
    # The vocabulary begins with the printable bytes; the other bytes follow.
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [*map(chr, printed), *(chr(256 + i) for i in range(256 - len(printed)))]
    tokens = [*letters, *(letter + WORD for letter in letters)]  # 512 in all
    tokens += [first + second for first, second in merges]
    vocabulary = {token: i for i, token in enumerate([*tokens, START, END])}
    model = models.BPE(
        vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix=WORD, unk_token=END
    )
    tokenizer = Tokenizer(model)
    tokenizer.add_special_tokens([START, END])  # so that neither is split
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), spaces, normalizers.Lowercase()]
    )
    words = pre_tokenizers.Split(Regex(PARTS), behavior="removed", invert=True)
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}",
        special_tokens=[(START, vocabulary[START]), (END, vocabulary[END])],
    )
    return tokenizer

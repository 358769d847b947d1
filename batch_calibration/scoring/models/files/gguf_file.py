"""Reads a GGUF file, llama.cpp's checkpoint format: config, tokenizer, dequantized weights.

Names, orders and defaults are as in llama.cpp's converter. Needs the extra `gguf`.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from batch_calibration.errors import InputError, answering, extra, shown
from batch_calibration.scoring.models.family import Family, RawConfig
from batch_calibration.scoring.models.files.beginning_token import BeginningToken
from batch_calibration.scoring.models.files.chat_template import ChatTemplate
from batch_calibration.scoring.models.files.gguf_header import GGUFTensor, read_header

SHARD = re.compile(r"(.*-)(\d{5})-of-(\d{5})\.gguf")
NAMED = "llama smollm3 qwen2 qwen3 qwen3moe gemma gemma2 gemma3 phi3 gpt2"
ARCHITECTURES = {name: name for name in NAMED.split()}
ARCHITECTURES |= {"qwen3moe": "qwen3_moe", "gemma3": "gemma3_text"}
"""llama.cpp's name of an architecture -> our family."""
IN_PAIRS = ("llama", "smollm3")
"""Architectures with interleaved rows of queries and keys: rotated pairs are neighbors."""
GEMMAS = ("gemma", "gemma2", "gemma3")
LARGEST_GEMMA = (("gemma2", 46), ("gemma3", 62))
"""The Gemmas of 27B, by their layers. Only they scale attention by the root of width / heads."""
KEYS = {
    "context_length": "max_position_embeddings", "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers", "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads", "attention.key_length": "head_dim",
    "attention.head_count_kv": "num_key_value_heads", "rope.freq_base": "rope_theta",
    "rope.scaling.original_context_length": "original_max_position_embeddings",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window", "rope.freq_base_swa": "rope_local_base_freq",
    "attn_logit_softcapping": "attn_logit_softcapping", "expert_count": "num_experts",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_used_count": "num_experts_per_tok", "expert_feed_forward_length":
    "moe_intermediate_size",
}  # fmt: skip
"""Keys of metadata, without the architecture's name -> keys of `config.json`."""
READ_APART = {"attention.value_length", "vocab_size", "rope.dimension_count"}
READ_APART |= {"rope.scaling.finetuned", "tensor_data_layout"}
"""Keys that are compared with other keys, or that have no effect."""
GPT2_KEYS = {
    "context_length": "n_positions", "embedding_length": "n_embd", "block_count": "n_layer",
    "feed_forward_length": "n_inner", "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
}  # fmt: skip
ROPE_KEYS = {"type": "rope_type", "factor": "factor"}
ROPE_KEYS |= {"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"}
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2_WORDS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
)  # fmt: skip
DIGITS_FIRST = (r"\p{N}", *GPT2_WORDS)
ENDS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_WORDS = (
    CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + ENDS,
)
QWEN2_WORDS = tuple(words.replace("{1,3}", "") for words in LLAMA3_WORDS)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%s|"
SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|" + ENDS
GPT4O_WORDS = (CASED % ((CONTRACTIONS + "?",) * 2) + r"\p{N}{1,3}|" + SIGNS,)
TEKKEN_WORDS = (CASED % ("", "") + r"\p{N}|" + SIGNS,)
LLAMA3 = ("llama3", "llama-v3", "llama-bpe", "falcon3")
SPLITTINGS = {
    "gpt-2": GPT2_WORDS,
    **dict.fromkeys(("smollm", "refact", "minerva-7b"), DIGITS_FIRST),
    **dict.fromkeys((*LLAMA3, "dbrx", "smaug-bpe"), LLAMA3_WORDS),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), QWEN2_WORDS),
    "gpt-4o": GPT4O_WORDS,
    "tekken": TEKKEN_WORDS,
}
"""Values of `tokenizer.ggml.pre` -> regular expressions that split a text into words, in order."""
WHOLE_WORDS = (*LLAMA3, "tekken")
"""Values of `pre` with a beginning token, and without merges for words of the vocabulary."""
NORMAL, MATCHED_WHOLE, USER_DEFINED = 1, (2, 3, 4), 4
"""Types of tokens: normal; unknown, control and user-defined; and user-defined only."""
SPECIAL = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad", "seperator": "sep"}
"""Names of special tokens in the file (with its spelling) -> names in chat templates."""


USE_SAFETENSORS = "use the model's Hugging Face checkpoint (safetensors)"


def find(path: Path) -> Path | None:
    """Returns the GGUF file of a path: the file itself, or the only one in a folder.

    Returns None for other files, and for folders with safetensors or without a GGUF file.

    Raises:
        InputError: The folder has several GGUF files.
    """
    if path.suffix == ".gguf" and path.is_file():
        return path
    files = sorted(path.glob("*.gguf")) if path.is_dir() else []
    if not files or any(path.glob("*.safetensors*")):
        return None
    whole = {SHARD.sub(r"\1", file.name) for file in files}
    if len(whole) > 1:
        names = ", ".join(file.name for file in files)
        raise InputError.at(path, "one GGUF file", names, "name the file")
    return files[0]


class GGUFFile:
    """A checkpoint in a GGUF file, or in several files after a split.

    Args:
        path: The file, or any file of a split checkpoint.

    Attributes:
        path: The first file.
        files: All files in order, keyed by names that do not depend on the files' names.
        model_type: Our family.
        config: The metadata as a raw `config.json`.

    Raises:
        InputError: A file is missing, broken or unsupported, or the library gguf is not installed.
    """

    def __init__(self, path: Path):
        with answering(ImportError, path, "the library gguf", extra("gguf")):
            import gguf  # noqa: F401
        shard, paths = SHARD.fullmatch(path.name), [path]
        if shard:
            names = [f"{shard[1]}{n:05}-of-{shard[3]}.gguf" for n in range(1, int(shard[3]) + 1)]
            paths = [path.with_name(name) for name in names]
        self.path = paths[0]
        self.files = {f"gguf {number}": file for number, file in enumerate(paths)}
        metadata, self._tensors = list[dict[str, Any]](), dict[str, GGUFTensor]()
        for file in paths:
            if not file.is_file():
                part, remedy = "a file of the split checkpoint", "fetch all into one folder"
                raise InputError.at(file, part, "no file", remedy)
            of_file, tensors = read_header(file)
            metadata.append(of_file)
            self._tensors |= tensors
        self.metadata = metadata[0]
        count, total = self.metadata.get("split.count"), self.metadata.get("split.tensors.count")
        numbers = [of_file.get("split.no", 0) for of_file in metadata]
        expected = ([*range(len(paths))], count or 1, total or len(self._tensors))
        if (numbers, len(paths), len(self._tensors)) != expected:
            raise self._wrong(
                f"{shown(count)} files with {shown(total)} tensors in all",
                f"{len(paths)} with {len(self._tensors)}",
                "keep all files and their names, NAME-00001-of-00003.gguf",
            )
        self.architecture: str = self.metadata.get("general.architecture", "")
        if self.architecture not in ARCHITECTURES:
            known = f"one of the architectures {', '.join(ARCHITECTURES)}"
            raise self._wrong(known, shown(self.architecture), USE_SAFETENSORS)
        self.model_type = ARCHITECTURES[self.architecture]
        self.config = self._config()

    def _wrong(self, expected: str, got: object, remedy: str = "convert it again") -> InputError:
        return InputError.at(self.path, expected, got, remedy)

    def _config(self) -> RawConfig:
        """Converts the metadata to a raw `config.json`; unknown keys keep their names."""
        prefix, raw = f"{self.architecture}.", dict[str, Any](model_type=self.model_type)
        is_gpt2, given, scaling = self.architecture == "gpt2", {}, {}
        for key, setting in self.metadata.items():
            if key.startswith(prefix) and setting != 0:  # 0: the option is not used
                given[key.removeprefix(prefix)] = setting
        for key, setting in given.items():
            scaled = ROPE_KEYS.get(key.removeprefix("rope.scaling."))
            if key.startswith("rope.scaling.") and scaled:
                scaling[scaled] = setting
            elif key not in READ_APART:
                raw[(GPT2_KEYS if is_gpt2 else KEYS).get(key, prefix + key)] = setting
        embedded = self._tensors.get("token_embd.weight")
        raw["vocab_size"] = embedded.shape[0] if embedded else None
        if is_gpt2:
            return raw
        raw["tie_word_embeddings"] = "output.weight" not in self._tensors
        raw |= {"attention_bias": True} if "blk.0.attn_output.bias" in self._tensors else {}
        raw |= {"mlp_bias": True} if "blk.0.ffn_down.bias" in self._tensors else {}
        raw |= {"norm_topk_prob": True} if self.architecture == "qwen3moe" else {}
        width, heads = raw.get("hidden_size"), raw.get("num_attention_heads")
        if width and heads:
            if not (head := raw.get("head_dim", width // heads)):
                raise self._wrong(f"a width of at least {heads}, its number of heads", width)
            if head != given.get("attention.value_length", head):
                raw["attention.value_length"] = given["attention.value_length"]
            raw["partial_rotary_factor"] = given.get("rope.dimension_count", head) / head
            if self.architecture in GEMMAS[1:]:
                largest = (self.architecture, raw.get("num_hidden_layers")) in LARGEST_GEMMA
                raw["query_pre_attn_scalar"] = width / heads if largest else head
        if scaling.get("rope_type") == "none":
            scaling = {}
        for kind, tensor in (("", "freqs"), ("short", "factors_short"), ("long", "factors_long")):
            factors = self._tensors.pop(f"rope_{tensor}.weight", None)
            if factors is None:
                continue
            divisors = factors.read(np.float32).reshape(-1).tolist()
            scaling["rope_type"] = "longrope"
            if kind:
                scaling[f"{kind}_factor"] = divisors
                continue
            # Llama 3 has one set of divisors for sequences of any length.
            scaling |= {"short_factor": divisors, "long_factor": divisors, "attention_factor": 1.0}
            raw["original_max_position_embeddings"] = raw.get("max_position_embeddings")
        if (factor := raw.pop(prefix + "rope.scaling.attn_factor", None)) is not None:
            scaling["attention_factor" if self.architecture == "phi3" else "attn_scale"] = factor
        return raw | ({"rope_scaling": scaling} if scaling else {})

    def family(self, family: Family) -> Family:
        """Returns the family with this file's axes: GPT-2's matrices are transposed in GGUF."""
        if self.architecture != "gpt2":
            return family
        rows = dict(family.weights)
        for name, weight in family.weights.items():
            if ".c_" in name and name.endswith(".weight"):
                rows[name] = weight._replace(transpose=True)
        return family._replace(weights=rows)

    def _names(self, family: Family) -> dict[str, str]:
        """Maps the file's tensor names to the family's names, with `{i}` for the layer's index."""
        import gguf

        architectures = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
        table = gguf.get_tensor_name_map(architectures[self.architecture], 1)
        names: dict[str, str] = {}
        for name in ("lm_head.weight", *family.weights):
            # One tensor holds all experts of a layer; it is named after the first expert.
            joined = re.sub(r"(?<=experts\.)\d+\.", "", name).format(i=0)
            found = table.get_name(joined, (".weight", ".bias"))
            if found:
                names.setdefault(found.replace("blk.0.", "blk.{i}."), name)
        return names

    def tensors(self, family: Family) -> Iterator[GGUFTensor]:
        """Yields the weights under their Hugging Face names; unknown tensors keep their names."""
        names, heads = self._names(family), dict[str, Any]()
        if self.architecture in IN_PAIRS:
            count = self.config["num_attention_heads"]
            heads = {"attn_q": count, "attn_k": self.config.get("num_key_value_heads", count)}
        for name, tensor in self._tensors.items():
            layer = re.match(r"blk\.(\d+)\.", name)
            pattern = f"blk.{{i}}.{name[layer.end() :]}" if layer else name
            theirs = names.get(pattern, name).replace("{i}", layer[1] if layer else "")
            part = pattern.split(".")[-2] if "." in pattern else ""
            count = heads.get(part, 0)
            if count and tensor.shape[0] % (2 * count):
                expected = f"{name} with an even number of rows for each of {count} heads"
                raise self._wrong(expected, tensor.shape[0])
            is_centered = self.architecture in GEMMAS and part.endswith("norm")
            tensor = tensor._replace(name=theirs, heads=count, less=float(is_centered))
            if not part.endswith("_exps") or pattern not in names:
                yield tensor
                continue
            size = tensor.row_bytes * math.prod(tensor.shape[1:-1])
            for number in range(tensor.shape[0]):
                expert = theirs.replace("experts.0.", f"experts.{number}.")
                start = tensor.offset + number * size
                yield tensor._replace(name=expert, offset=start, shape=tensor.shape[1:])

    @property
    def chat_template(self) -> ChatTemplate | None:
        """The chat template, or None in a file without one."""
        source, tokens = self.metadata.get("tokenizer.chat_template"), dict[str, str]()
        for theirs, name in SPECIAL.items():
            if (number := self._special(theirs)) is not None:
                tokens[f"{name}_token"] = self._tokens[number]
        return ChatTemplate(source, tokens, self.path) if isinstance(source, str) else None

    @cached_property
    def _tokens(self) -> list[str]:
        tokens: list[str] = self.metadata.get("tokenizer.ggml.tokens", [])
        if not tokens or len(set(tokens)) < len(tokens):
            twice = next((token for token, count in Counter(tokens).items() if count > 1), "none")
            raise self._wrong("tokens in tokenizer.ggml.tokens, each once", shown(twice))
        return tokens

    def _special(self, name: str) -> int | None:
        """Returns the id of a special token, or None."""
        is_spm = self.metadata.get("tokenizer.ggml.model") == "llama"
        usual = {"unknown": 0, "bos": 1, "eos": 2}.get(name) if is_spm else None
        number = self.metadata.get(f"tokenizer.ggml.{name}_token_id", usual)
        is_one = isinstance(number, int) and 0 <= number < len(self._tokens)
        return number if is_one else None

    def texts(self) -> tuple[Tokenizer, BeginningToken]:
        """Builds the tokenizer from the metadata, and finds the token that begins each sequence.

        Raises:
            InputError: The kind of tokenizer, or its way to split words, is not supported.
        """
        kind, pre = (self.metadata.get(f"tokenizer.ggml.{key}") for key in ("model", "pre"))
        tokens = self._tokens
        types = self.metadata.get("tokenizer.ggml.token_type", [NORMAL] * len(tokens))
        if (kind == "gpt2" and pre not in SPLITTINGS) or kind not in ("gpt2", "llama"):
            expected = f"tokenizer.ggml.model llama, or gpt2 with pre of {', '.join(SPLITTINGS)}"
            raise self._wrong(expected, f"{shown(kind)} with {shown(pre)}", USE_SAFETENSORS)
        scores = self.metadata.get("tokenizer.ggml.scores", [])
        merges = self.metadata.get("tokenizer.ggml.merges", [])
        needs_scores = kind == "llama" and self.architecture not in GEMMAS
        for name, numbers in (("token_type", types), ("scores", scores)):
            if len(numbers) != len(tokens) and (name != "scores" or needs_scores):
                expected = f"tokenizer.ggml.{name} for each of {len(tokens)} tokens"
                raise self._wrong(expected, f"{len(numbers)} of them")
        if kind == "gpt2" and not merges:
            raise self._wrong("tokenizer.ggml.merges of a byte-pair tokenizer", "none")
        # The tokenizers library raises a bare Exception.
        with answering(Exception, self.path, "metadata of a tokenizer", "fetch it again"):
            read = self._byte_level if kind == "gpt2" else self._sentence_piece
            tokenizer = read(tokens, types)
        whole = []
        for token, number in zip(tokens, types, strict=True):
            if number in MATCHED_WHOLE and token:
                is_special = number != USER_DEFINED
                content = token if is_special or kind == "gpt2" else token.replace("▁", " ")
                whole.append(AddedToken(content, special=is_special, normalized=False))
        tokenizer.add_tokens(whole)
        key, begins = "tokenizer.ggml.add_bos_token", kind == "llama" or pre in WHOLE_WORDS
        begin, is_told = self._special("bos"), key in self.metadata
        begins = bool(self.metadata.get(key, begins and begin is not None))
        if begins and begin is None:
            raise self._wrong("tokenizer.ggml.bos_token_id", "none")
        token = f"{tokens[begin]} (id {begin})" if begins and begin is not None else "none"
        decider = key if is_told else f"tokenizer.ggml.model = {kind}"
        note = f"beginning token: {token}, from {decider}"
        prefix = begin if begin is not None else self._special("eos")
        return tokenizer, BeginningToken(begin if begins else None, note, False, prefix)

    def _byte_level(self, tokens: list[str], types: list[int]) -> Tokenizer:
        """Builds a byte-level tokenizer with the merges of the file."""
        pre = str(self.metadata["tokenizer.ggml.pre"])
        merges = []
        for merge in self.metadata["tokenizer.ggml.merges"]:
            end = merge.index(" ", 1)
            merges.append((merge[:end], merge[end + 1 :]))
        vocabulary = {token: number for number, token in enumerate(tokens)}
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=pre in WHOLE_WORDS))
        words = [pre_tokenizers.Split(Regex(one), "isolated") for one in SPLITTINGS[pre]]
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*words, to_bytes])
        if SPLITTINGS[pre] == QWEN2_WORDS:
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def _sentence_piece(self, tokens: list[str], types: list[int]) -> Tokenizer:
        """Builds a SentencePiece tokenizer: pairs that merge to a higher score merge first."""
        if self.architecture in GEMMAS:
            scores = [-number for number in range(len(tokens))]
        else:
            scores = self.metadata["tokenizer.ggml.scores"]
        pieces = {}
        for number, (piece, kind) in enumerate(zip(tokens, types, strict=True)):
            pieces[piece.replace("▁", " ") if kind == USER_DEFINED else piece] = number
        ids = {piece: number for piece, number in pieces.items() if types[number] == NORMAL}
        ranked = []
        for piece, number in ids.items():
            for end in range(1, len(piece)):
                halves = piece[:end], piece[end:]
                if halves[0] in ids and halves[1] in ids:
                    ranked.append((-scores[number], ids[halves[0]], ids[halves[1]], halves))
        merges = [halves for *_, halves in sorted(ranked)]
        unknown = self._special("unknown")
        token = None if unknown is None else tokens[unknown]
        model = models.BPE(pieces, merges, fuse_unk=True, byte_fallback=True, unk_token=token)
        tokenizer = Tokenizer(model)
        spaces: list[normalizers.Normalizer] = [normalizers.Replace(" ", "▁")]
        if self.metadata.get("tokenizer.ggml.add_space_prefix", True):
            spaces = [normalizers.Prepend("▁"), *spaces]
        tokenizer.normalizer = normalizers.Sequence(spaces)
        to_text = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        tokenizer.decoder = decoders.Sequence(to_text)
        return tokenizer

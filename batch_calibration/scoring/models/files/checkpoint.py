"""Reads a checkpoint directory: network, tokenizer, and a digest of the files behind its scores."""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh
from tokenizers import Tokenizer

from batch_calibration.errors import InputError, answering, extra, refuse_unknown, spell
from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.family import Config, Family, Kind, RawConfig, misread
from batch_calibration.scoring.models.files import gguf_file, tokenizer_files, weights
from batch_calibration.scoring.models.files.beginning_token import BeginningToken
from batch_calibration.scoring.models.files.chat_template import ChatTemplate
from batch_calibration.scoring.models.files.chat_template import read as read_template
from batch_calibration.scoring.models.files.config import read_config, read_json
from batch_calibration.scoring.models.files.tensors import shards

HUB_NAME = re.compile(r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?:@([\w./-]+))?")
FILES = ["*.json", "*.txt", "*.jinja", "*.safetensors"]
"""Patterns of the files that are downloaded, without second copies of the weights."""
NO_FILES = ["consolidated*", "onnx/*", "openvino/*", "original/*"]
BESIDE = ("tokenizer_config.json", "preprocessor_config.json", "processor_config.json")
"""Files that decide scores in addition to config and weights, if they exist."""
HASHED = 2
"""The number of files that are hashed (sha256) in parallel."""
SENTENCE_ENCODERS = ("bert", "roberta", "xlm-roberta", "mpnet", "modernbert")
"""Model types of earlier versions, which transformers does not run as causal language models."""
DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Checkpoint:
    """A network and its tokenizer, read from a Hugging Face directory.

    Attributes:
        directory: The directory.
        model_type: The key of its family in `FAMILIES`, such as `"gpt2"`.
        kind: The interface of the network, which decides its scorer.
        config: The config, an instance of the family's class.
        model: The network.
        tokenizer: The tokenizer; its file's padding and truncation are switched off.
        bos: Id of the token that begins each sequence; None for no token.
        digest: sha256 (64 hex digits) of the files' contents: config, weights and tokenizer.
        dtype: The dtype of computations: `"float32"`, `"bfloat16"` or `"float16"`.
        mesh: The devices that share the network; None for one device.
        prefix: Id of the token that replaces an empty prompt, or None.
    """

    directory: Path
    model_type: str
    kind: Kind
    config: Config
    model: nnx.Module
    tokenizer: Tokenizer
    bos: int | None  # a token id
    digest: str  # 64 hex digits
    dtype: str = "float32"
    mesh: Mesh | None = None
    prefix: int | None = None  # a token id


class TokenizerInfo(NamedTuple):
    """A checkpoint's tokenizer and related facts, read without its weights.

    Attributes:
        tokenizer: The tokenizer; its file's padding and truncation are switched off.
        bos: Id of the token that begins each sequence; None for no token.
        positions: The most tokens that the network supports.
        notes: Sentences for readers of the scores: the beginning token and the deciding file.
        prefix: Id of the token that replaces an empty prompt, or None.
    """

    tokenizer: Tokenizer
    bos: int | None
    positions: int
    notes: tuple[str, ...] = ()
    prefix: int | None = None


def find(name: str) -> Path:
    """Returns the directory of a checkpoint; downloads it if `name` is on the Hugging Face hub.

    Args:
        name: A directory, or a name on the hub such as `gpt2`, `org/model` or `org/model@revision`
            (a branch, a tag or a commit).

    Raises:
        InputError: The hub's model cannot be downloaded and is not in the cache.
    """
    directory = Path(name).expanduser()  # takes precedence over a name on the hub
    match = HUB_NAME.fullmatch(name)
    if directory.exists() or not match:
        return directory
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository, revision = match.groups()
    kinds = (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError)
    expected = "a directory, or a model on the Hugging Face hub"
    remedy = "check the name, the network and, for a gated model, that you are logged in"
    with answering(kinds, name, expected, remedy):
        folder = snapshot_download(
            repository, revision=revision, allow_patterns=FILES, ignore_patterns=NO_FILES
        )
        return Path(folder)


class ModelFiles:
    """A checkpoint directory; reads config and tokenizer once, and weights only on `load`.

    Args:
        directory: A Hugging Face directory with `config.json`, `tokenizer.json` and
            `*.safetensors`; only `load` needs the weights. Or a GGUF file, or a folder with one.
        accept_keys: Unknown keys of `config.json` that are assumed to change no score.

    Raises:
        InputError: The directory or a valid config is missing, or no family has the architecture.
    """

    def __init__(self, directory: str | Path, accept_keys: Sequence[str] = ()):
        self.directory = Path(directory).expanduser()
        gguf = gguf_file.find(self.directory)
        self._gguf = gguf_file.GGUFFile(gguf) if gguf else None
        self._accepted = tuple(sorted(accept_keys))
        with self._in_its_words():
            self._model_type, self._family, raw_config = _family(self.directory, self._gguf)
            self._config = read_config(self._family, raw_config, self.directory, self._accepted)
        self._raw_config = raw_config
        self._splits_as = ""

    @contextmanager
    def _in_its_words(self) -> Iterator[None]:
        """Makes errors inside the block name a GGUF file's metadata instead of config.json."""
        try:
            yield
        except InputError as error:
            if self._gguf is None:
                raise
            told = error.replacing("its config.json", "config.json")
            raise told.replacing("config.json", "its metadata") from error

    @cached_property
    def _texts(self) -> tuple[Tokenizer, BeginningToken]:
        """The tokenizer, and the token that begins each sequence."""
        if self._gguf is not None:
            return self._gguf.texts()
        if self._family.kind == "causal_lm":
            read = tokenizer_files.read_causal(self.directory, self._raw_config)
            tokenizer, start, self._splits_as = read
            return tokenizer, start
        tokenizer = tokenizer_files.read(self.directory, self._family.kind)
        if self._family.adapt_tokenizer:
            self._family.adapt_tokenizer(tokenizer, self.directory)
        return tokenizer, BeginningToken(None, "", disputed=False)

    @property
    def tokenizer_info(self) -> TokenizerInfo:
        """The tokenizer and related facts.

        Raises:
            InputError: A file of the tokenizer is missing or broken.
        """
        tokenizer, start = self._texts
        notes = (start.note,) if start.note else ()
        return TokenizerInfo(tokenizer, start.id, self._config.positions, notes, start.prefix)

    @cached_property
    def chat_template(self) -> ChatTemplate | None:
        """The chat template, or None in a checkpoint without one."""
        return self._gguf.chat_template if self._gguf else read_template(self.directory)

    def load(self, dtype: str = "auto", mesh: Mesh | None = None) -> Checkpoint:
        """Loads the network with its weights; see `load_checkpoint`."""
        refuse_unknown("dtype", dtype, DTYPES)
        if dtype == "auto":
            dtype = "float32" if jax.default_backend() == "cpu" else "bfloat16"
        directory, family, config = self.directory, self._family, self._config
        tokenizer, start = self._texts
        with ThreadPoolExecutor(HASHED) as pool, ExitStack() as opened:
            # Hashing runs while the weights load. If loading fails, closing the files stops it.
            hashes = {}
            files = self._gguf.files if self._gguf else _deciding(directory)
            for name, path in files.items():
                file = opened.enter_context(path.open("rb"))
                hashes[name] = pool.submit(hashlib.file_digest, file, "sha256")
            read = self._gguf.tensors(family) if self._gguf else None
            with self._in_its_words():
                _, model = weights.load(directory, family, jnp.dtype(dtype), mesh, config, read)
            digests = {name: digest.result().hexdigest() for name, digest in hashes.items()}
        digests |= {"accepted keys": ", ".join(self._accepted)} if self._accepted else {}
        # Set if transformers' tokenizer class splits text differently from tokenizer.json.
        digests |= {"tokenizer class": self._splits_as} if self._splits_as else {}
        # If files disagree, the chosen token is part of the digest.
        digests |= {"beginning token": str(start.id)} if start.disputed else {}
        digest = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
        # Indexing would silently clip a larger id to the last embedding. Causal networks may lack
        # embeddings of added tokens (Gemma 3: of images); a text that has one is rejected later.
        is_causal = family.kind == "causal_lm"
        largest = max(tokenizer.get_vocab(with_added_tokens=not is_causal).values(), default=0)
        if largest >= config.vocab_size:
            expected = f"token ids below {config.vocab_size}, which the network embeds"
            raise InputError.at(directory, expected, f"ids up to {largest}", weights.OTHER_FILES)
        loaded = directory, self._model_type, family.kind, config, model, tokenizer
        return Checkpoint(*loaded, start.id, digest, dtype, mesh, start.prefix)


def load_tokenizer(directory: str | Path) -> TokenizerInfo:
    """Reads `tokenizer.json` and `config.json` of a checkpoint directory, without its weights.

    Raises:
        InputError: A file is missing or broken, or no family has the architecture.
    """
    return ModelFiles(directory).tokenizer_info


def load_checkpoint(
    directory: str | Path, dtype: str = "auto", mesh: Mesh | None = None
) -> Checkpoint:
    """Reads `config.json`, `*.safetensors` and `tokenizer.json` of a Hugging Face directory.

    Args:
        directory: The directory.
        dtype: The dtype of the network's numbers; `auto` is float32 on CPUs and bfloat16 on
            accelerators.
        mesh: The devices that share the network, with axes `data` and `model`.

    Example:
        checkpoint = load_checkpoint("checkpoints/gpt2")
        checkpoint.model_type, checkpoint.bos, checkpoint.digest[:8]

    Raises:
        InputError: A file is missing or broken, no family has the architecture, the weights do not
            fit the config, the tokenizer has more tokens than the network, or the dtype is unknown.
    """
    return ModelFiles(directory).load(dtype, mesh)


def _family(directory: Path, gguf: gguf_file.GGUFFile | None) -> tuple[str, Family, RawConfig]:
    """Returns the model type, its family and the raw config.

    Raises:
        InputError: The directory or its config is missing, or the model type is not supported.
    """
    if gguf is not None:
        return gguf.model_type, gguf.family(FAMILIES[gguf.model_type]), gguf.config
    if not directory.is_dir():
        expected = "a checkpoint directory (config.json, *.safetensors, tokenizer.json) or a "
        raise InputError.at(directory, expected + "GGUF file", "none")
    raw = read_json(directory / "config.json", "a config")
    name = raw.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        if name in SENTENCE_ENCODERS:
            expected, got = "a language model, CLIP or SigLIP", f"a sentence encoder ({name})"
            remedy = "use one of these, as sentence encoders are no longer supported"
            raise InputError.at(directory, expected, got, remedy)
        # No similar name is suggested, as it may belong to another architecture.
        remedy = f"if transformers knows it, {spell('scorer', 'transformers')} runs it "
        remedy += f"({extra('torch')})"
        raise misread("model_type", name, f"one of {', '.join(FAMILIES)}", remedy, str(directory))
    return name, FAMILIES[name], raw


def _deciding(directory: Path) -> dict[str, Path]:
    """Returns the files that decide scores, weights included, keyed by name."""
    names = ["config.json", *shards(directory), *BESIDE, *tokenizer_files.files(directory)]
    return {name: directory / name for name in names if (directory / name).is_file()}

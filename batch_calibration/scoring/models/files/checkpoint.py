"""Reads a checkpoint directory: network, tokenizer, and a digest of what decides its scores."""

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

from batch_calibration.errors import InputError, answering, refuse_unknown, spell
from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.family import Config, Family, Kind, RawConfig
from batch_calibration.scoring.models.files import (
    chat_template,
    gguf_file,
    tokenizer_files,
    weights,
)
from batch_calibration.scoring.models.files.beginning_token import BeginningToken
from batch_calibration.scoring.models.files.config import read_config, read_json
from batch_calibration.scoring.models.files.tensors import shards

HUB_NAME = re.compile(r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?:@([\w./-]+))?")
FILES = ["*.json", "*.txt", "*.jinja", "*.safetensors"]
"""The files of a checkpoint that are downloaded: no second copy of the weights."""
NO_FILES = ["consolidated*", "onnx/*", "openvino/*", "original/*"]
BESIDE = ("tokenizer_config.json", "preprocessor_config.json", "processor_config.json")
"""Files, where they exist, that decide scores in addition to the config and the weights."""
HASHED = 2
"""Files whose sha256 is computed at once."""
SENTENCE_ENCODERS = ("bert", "roberta", "xlm-roberta", "mpnet", "modernbert")
"""Model types that had a network here, and that transformers runs as no causal language model."""
DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Checkpoint:
    """A network and its tokenizer, as they lie in a Hugging Face directory.

    Attributes:
        directory: Where it was read from.
        model_type: The key of its family in `FAMILIES`, such as `"gpt2"`.
        kind: What the network offers, and so which scorer takes it.
        config: The config, of the family's own class.
        model: The network.
        dtype: What it computes in: `"float32"`, `"bfloat16"` or `"float16"`.
        mesh: The devices that share it, or None for one device.
        tokenizer: The tokenizer, with the padding and truncation of its file switched off.
        bos: Id of the token that begins each sequence, or None where there is none.
        digest: sha256 (64 hex digits) of the files' contents: config, weights and tokenizer.
        prefix: Id of the token that labels follow where a prompt is empty, or None.
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
    """The way a checkpoint reads text, known without its weights.

    Attributes:
        tokenizer: The tokenizer, with the padding and truncation of its file switched off.
        bos: Id of the token that begins each sequence, or None where there is none.
        positions: The most tokens that the network takes.
        notes: What a reader of the scores must know, in sentences: the beginning token, and which
            file says so.
        prefix: Id of the token that labels follow where a prompt is empty, or None.
    """

    tokenizer: Tokenizer
    bos: int | None
    positions: int
    notes: tuple[str, ...] = ()
    prefix: int | None = None


def find(name: str) -> Path:
    """The directory of a checkpoint, downloaded first if `name` is one of the Hugging Face hub.

    Args:
        name: A directory, or a name on the hub such as `gpt2`, `org/model` or `org/model@revision`
            (a branch, a tag or a commit).

    Raises:
        InputError: a name of the hub that cannot be downloaded and was not downloaded before.
    """
    directory = Path(name).expanduser()  # a local path goes before a name of the hub
    match = HUB_NAME.fullmatch(name)
    if directory.exists() or not match:
        return directory
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository, revision = match.groups()
    kinds = (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError)
    expected = "a directory, or a model that the Hugging Face hub gives"
    remedy = "check the name, the network and, for a gated model, that you are logged in"
    with answering(kinds, name, expected, remedy):
        folder = snapshot_download(
            repository, revision=revision, allow_patterns=FILES, ignore_patterns=NO_FILES
        )
        return Path(folder)


class ModelFiles:
    """A checkpoint directory whose config and tokenizer are read once, its weights when asked for.

    Args:
        directory: A Hugging Face directory: `config.json`, `tokenizer.json`, `*.safetensors`; the
            weights may be absent until they are loaded. Or a GGUF file, or a folder of one.
        accept_keys: Keys of `config.json` that are unknown here and are taken to change no score.

    Raises:
        InputError: no directory, a config that is missing or broken, or no family has that
            architecture.
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
        """Within it sentences name a GGUF file's metadata in place of config.json."""
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
        """The way the model reads text; `InputError` where a file of it is missing or broken."""
        tokenizer, start = self._texts
        notes = (start.note,) if start.note else ()
        return TokenizerInfo(tokenizer, start.id, self._config.positions, notes, start.prefix)

    @cached_property
    def chat_template(self) -> "chat_template.ChatTemplate | None":
        """The template for the messages of a chat; None where no file has one."""
        return self._gguf.chat_template if self._gguf else chat_template.read(self.directory)

    def load(self, dtype: str = "auto", mesh: Mesh | None = None) -> Checkpoint:
        """The network with its weights; as `load_checkpoint`."""
        refuse_unknown("dtype", dtype, DTYPES)
        if dtype == "auto":
            dtype = "float32" if jax.default_backend() == "cpu" else "bfloat16"
        directory, family, config = self.directory, self._family, self._config
        tokenizer, start = self._texts
        with ThreadPoolExecutor(HASHED) as pool, ExitStack() as opened:
            # Beside the loading, which reads the same files; closing them ends it where that fails.
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
        # Where transformers' class splits text otherwise than tokenizer.json.
        digests |= {"tokenizer class": self._splits_as} if self._splits_as else {}
        # Where files say different things of it, the token that was taken is no matter of course.
        digests |= {"beginning token": str(start.id)} if start.disputed else {}
        digest = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
        # A larger id would be clipped to the last row of the table, silently. Added tokens that
        # no text of this use has (Gemma 3's of images) are refused where a text has one.
        is_causal = family.kind == "causal_lm"
        largest = max(tokenizer.get_vocab(with_added_tokens=not is_causal).values(), default=0)
        if largest >= config.vocab_size:
            raise InputError(
                f"{directory}: the tokenizer has ids up to {largest}, but the network embeds only "
                f"{config.vocab_size} tokens; the two files belong to different checkpoints."
            )
        loaded = directory, self._model_type, family.kind, config, model, tokenizer
        return Checkpoint(*loaded, start.id, digest, dtype, mesh, start.prefix)


def load_tokenizer(directory: str | Path) -> TokenizerInfo:
    """Read `tokenizer.json` and `config.json` of a checkpoint directory; its weights may be absent.

    Raises:
        InputError: a file is missing or broken, or no family has that architecture.
    """
    return ModelFiles(directory).tokenizer_info


def load_checkpoint(
    directory: str | Path, dtype: str = "auto", mesh: Mesh | None = None
) -> Checkpoint:
    """Read `config.json`, `*.safetensors` and `tokenizer.json` of a Hugging Face directory.

    Args:
        directory: Where they lie.
        dtype: Type of the network's numbers; `auto` is float32 on CPUs and
            bfloat16 on accelerators.
        mesh: The devices that share the network, with axes `data` and `model`.

    Example:
        checkpoint = load_checkpoint("checkpoints/gpt2")
        checkpoint.model_type, checkpoint.bos, checkpoint.digest[:8]

    Raises:
        InputError: a file is missing or broken, no family has that architecture, the weights do
            not fit the config, the tokenizer knows more tokens than the network, or the
            dtype is unknown.
    """
    return ModelFiles(directory).load(dtype, mesh)


def _family(directory: Path, gguf: gguf_file.GGUFFile | None) -> tuple[str, Family, RawConfig]:
    """The model type, its family, and the raw config."""
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
            remedy = "give one of those, as sentence encoders are no longer scored"
            raise InputError.at(directory, expected, got, remedy)
        # No closest name: one that is spelt alike may be another architecture.
        raise InputError(
            f"{directory}: config.json says model_type = {name!r:.200}, expected one of those that "
            f"have a network here ({', '.join(FAMILIES)}); where transformers has one, "
            f"{spell('scorer', 'transformers')} runs it (pip install 'batch-calibration[torch]')."
        )
    return name, FAMILIES[name], raw


def _deciding(directory: Path) -> dict[str, Path]:
    """The files that decide the scores, weights included, by their names in the directory."""
    names = ["config.json", *shards(directory), *BESIDE, *tokenizer_files.files(directory)]
    return {name: directory / name for name in names if (directory / name).is_file()}

"""A checkpoint that transformers runs with torch: reads its config, tokenizer and weights.

Supports architectures without a network here. It reads only safetensors, never pickled files, and
runs no code of a checkpoint. Needs the extra `torch`.
"""

import hashlib
import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from batch_calibration.errors import InputError, answering, extra, refuse_unknown, spell
from batch_calibration.scoring.models.files import chat_template
from batch_calibration.scoring.models.files.beginning_token import tokens_before
from batch_calibration.scoring.models.files.chat_template import ChatTemplate
from batch_calibration.scoring.models.files.checkpoint import TokenizerInfo
from batch_calibration.scoring.models.files.config import read_json
from batch_calibration.scoring.models.files.tensors import shards

LISTED_KEYS = "max_position_embeddings n_positions max_seq_len max_sequence_length seq_length"
POSITIONS = LISTED_KEYS.split()
"""Keys of configs for the longest sequence."""
UNLIMITED = 1 << 20
"""The positions of a network that names no limit or has relative positions (T5)."""
RELATIVE = ("t5", "mt5", "umt5", "longt5", "switch_transformers")
"""Model types that do not limit sequences to `n_positions`."""
LISTED_FILES = (
    "config.json tokenizer.json tokenizer_config.json tokenizer.model spiece.model vocab.json "
    "merges.txt special_tokens_map.json added_tokens.json"
)
DECIDING = LISTED_FILES.split()
"""Files that decide scores in addition to the weights, if they exist."""
DTYPES = {"float32", "bfloat16", "float16"}


class TransformersCheckpoint(NamedTuple):
    """A network of transformers and its tokenizer.

    Attributes:
        directory: The directory of the checkpoint.
        model: `AutoModelForCausalLM` or `AutoModelForSeq2SeqLM`, in evaluation mode.
        info: The tokenizer and related facts.
        is_encoder_decoder: Whether the encoder reads a prompt and the decoder scores its labels.
        digest: sha256 of config, weights and tokenizer.
        dtype: The dtype of computations.
    """

    directory: Path
    model: Any
    info: TokenizerInfo
    is_encoder_decoder: bool
    digest: str
    dtype: str


class TransformersFiles:
    """A checkpoint directory, read by transformers; as `ModelFiles`, for any architecture.

    Args:
        directory: A directory with `config.json`, a tokenizer and `*.safetensors`.

    Raises:
        InputError: transformers or torch are not installed, or cannot read the directory.
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory).expanduser()
        where, expected = spell("scorer", "transformers"), "torch and transformers"
        with answering(ImportError, where, expected, extra("torch"), "scorer"):
            import torch  # noqa: F401
            import transformers
        self._transformers = transformers
        read_json(self.directory / "config.json", "a config")
        self._config = self._read(transformers.AutoConfig)

    def _read(self, reader: Any, **options: Any) -> Any:
        """Reads the directory with a class of transformers; its errors become an `InputError`."""
        expected = f"a checkpoint that transformers {self._transformers.__version__} reads"
        # transformers checks little beforehand, so errors may have any type.
        with answering(Exception, self.directory, expected, "use another checkpoint"):
            return reader.from_pretrained(
                self.directory, trust_remote_code=False, local_files_only=True, **options
            )

    @cached_property
    def tokenizer_info(self) -> TokenizerInfo:
        """The tokenizer of `AutoTokenizer` and related facts.

        Raises:
            InputError: transformers cannot read it, or it is not from the tokenizers library.
        """
        theirs = self._read(self._transformers.AutoTokenizer)
        tokenizer: Tokenizer | None = getattr(theirs, "backend_tokenizer", None)
        if tokenizer is None:
            expected = "a tokenizer of the tokenizers library"
            remedy = "use a checkpoint with tokenizer.json"
            raise InputError.at(self.directory, expected, type(theirs).__name__, remedy)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        begins = [] if self._config.is_encoder_decoder else tokens_before(tokenizer)
        begin = begins[0] if begins else None
        prefix = theirs.bos_token_id if theirs.bos_token_id is not None else theirs.eos_token_id
        notes = [f"run by transformers {self._transformers.__version__}"]
        if self._config.is_encoder_decoder:
            notes.append("an encoder-decoder: the encoder reads prompts, the decoder scores labels")
        config = self._config.get_text_config()
        stated = [getattr(config, key, None) for key in POSITIONS]
        numbers = [number for number in stated if isinstance(number, int) and number > 0]
        positions = UNLIMITED if config.model_type in RELATIVE or not numbers else numbers[0]
        return TokenizerInfo(tokenizer, begin, positions, tuple(notes), prefix)

    @cached_property
    def chat_template(self) -> ChatTemplate | None:
        """The chat template, or None in a checkpoint without one."""
        return chat_template.read(self.directory)

    def load(self, dtype: str = "auto") -> TransformersCheckpoint:
        """Loads the network with its weights, on a GPU if torch has one.

        Args:
            dtype: The dtype of computations; `auto` is float32 on CPUs and bfloat16 on GPUs.
        """
        import torch

        refuse_unknown("dtype", dtype, ["auto", *sorted(DTYPES)])
        # The variable that keeps JAX on CPUs applies to torch, too.
        has_gpu = torch.cuda.is_available() and os.environ.get("JAX_PLATFORMS") != "cpu"
        if dtype == "auto":
            dtype = "bfloat16" if has_gpu else "float32"
        weight_files = shards(self.directory)  # raises an error if the weights are pickled
        is_pair = bool(self._config.is_encoder_decoder)
        name = "AutoModelForSeq2SeqLM" if is_pair else "AutoModelForCausalLM"
        reader = getattr(self._transformers, name)
        model = self._read(reader, dtype=getattr(torch, dtype), use_safetensors=True)
        model.to("cuda" if has_gpu else "cpu").eval()
        digests = {}
        for name in (*DECIDING, *weight_files):
            if (self.directory / name).is_file():
                with (self.directory / name).open("rb") as file:
                    digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
        info = self.tokenizer_info
        return TransformersCheckpoint(self.directory, model, info, is_pair, digest, dtype)

"""Reads the header of a GGUF file: metadata of known types and ranges, and the tensors' places."""

import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from jax.typing import DTypeLike

from batch_calibration.errors import InputError, answering, shown
from batch_calibration.scoring.models.files.tensors import PART, filled

SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""Types of metadata -> their codes in `struct`."""
TEXT, ARRAY, FLOAT32 = 8, 9, 6
MOST = 2**24
"""The largest size in metadata: products of two are whole numbers of 64 bits."""
MOST_ELEMENTS = 2**22
"""The most entries in all arrays of a header; a vocabulary of 256,000 tokens has a million."""
MOST_KEYS, MOST_TENSORS, MOST_LETTERS = 2**16, 2**17, 2**24


Metadata = dict[str, Any]


class Kind(NamedTuple):
    """A type and range of a metadata value.

    Attributes:
        expected: Its name in a message.
        fits: Checks a value.
    """

    expected: str
    fits: Callable[[Any], bool]


def _list_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(type(one) is kind for one in value)


def _is_number(value: Any) -> bool:
    return (type(value) is float and math.isfinite(value)) or SIZE.fits(value)


A_TEXT = Kind("a text", lambda value: isinstance(value, str))
WHOLE = Kind("a whole number", lambda value: type(value) is int)
FLAG = Kind("true or false", lambda value: value in (0, 1))
SIZE = Kind(f"a whole number from 0 to {MOST:,}", lambda v: type(v) is int and 0 <= v <= MOST)
NUMBER = Kind("a finite number", _is_number)
TEXTS = Kind("a list of texts", _list_of(str))
NUMBERS = Kind(
    "a list of finite numbers", lambda v: isinstance(v, list) and all(map(_is_number, v))
)
WHOLES = Kind("a list of whole numbers", _list_of(int))
SIZES = """
    attention.head_count attention.head_count_kv attention.key_length attention.sliding_window
    attention.value_length block_count context_length embedding_length expert_count
    expert_feed_forward_length expert_used_count feed_forward_length rope.dimension_count
    rope.scaling.original_context_length vocab_size
"""
FACTORS = """
    attention.layer_norm_epsilon attention.layer_norm_rms_epsilon attn_logit_softcapping
    final_logit_softcapping rope.freq_base rope.freq_base_swa rope.scaling.attn_factor
    rope.scaling.factor rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow
"""
OF_NETWORK = dict.fromkeys(SIZES.split(), SIZE) | dict.fromkeys(FACTORS.split(), NUMBER)
OF_NETWORK |= {"rope.scaling.type": A_TEXT}
"""Keys after the architecture's name -> types."""
TOKEN_IDS = [f"tokenizer.ggml.{name}_token_id" for name in ["bos", "eos", "unknown", "padding"]]
OF_FILE = {
    "general.architecture": A_TEXT, "general.alignment": SIZE, "tokenizer.chat_template": A_TEXT,
    "split.count": SIZE, "split.no": SIZE, "split.tensors.count": SIZE,
    "tokenizer.ggml.model": A_TEXT, "tokenizer.ggml.pre": A_TEXT, "tokenizer.ggml.tokens": TEXTS,
    "tokenizer.ggml.merges": TEXTS, "tokenizer.ggml.scores": NUMBERS,
    "tokenizer.ggml.token_type": WHOLES, "tokenizer.ggml.add_bos_token": FLAG,
    "tokenizer.ggml.add_space_prefix": FLAG, "tokenizer.ggml.seperator_token_id": WHOLE,
    **dict.fromkeys(TOKEN_IDS, WHOLE),
}  # fmt: skip
"""All other keys that are read -> types."""


class GGUFTensor(NamedTuple):
    """One tensor of a GGUF file, in the layout of Hugging Face directories.

    Attributes:
        name: Its name in a Hugging Face directory.
        path: The file.
        shape: The size of each axis.
        offset: The number of bytes before it in the file.
        code: The number of its type in ggml, such as 2 for Q4_0.
        heads: The number of heads with interleaved rows; 0 if the rows are not interleaved.
        less: The number that is subtracted from each weight.
        kind: The type of its numbers after dequantization.
    """

    name: str
    path: Path
    shape: tuple[int, ...]
    offset: int
    code: int
    heads: int = 0
    less: float = 0.0
    kind: str = "F32"

    @property
    def row_bytes(self) -> int:
        """The number of bytes of one row, `shape[-1]` numbers."""
        import gguf

        block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(self.code)]
        return int(self.shape[-1] // block * size)

    def parts(self, dtype: DTypeLike) -> Iterator[np.ndarray]:
        """Yields its numbers in order as `dtype`, some rows at a time.

        Raises:
            InputError: The file is too short, or gguf cannot dequantize the type.
        """
        import gguf

        kind, row_bytes = gguf.GGMLQuantizationType(self.code), self.row_bytes
        remaining, most = math.prod(self.shape[:-1]), max(PART // self.shape[-1], 1)
        # The file is not memory-mapped, as its pages would count as this process's memory.
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while remaining:
                rows = min(most, remaining)
                packed = np.fromfile(file, np.uint8, rows * row_bytes)
                if packed.size != rows * row_bytes:
                    raise InputError(f"{self.path}: it ends within {self.name!r}; fetch it again.")
                at, expected = f"{self.path}, {self.name}", "a type that the library gguf reads"
                remedy = "use another quantization"
                # The loader reports numbers that are not finite, with the tensor's name.
                with (
                    answering(NotImplementedError, at, expected, remedy),
                    np.errstate(all="ignore"),
                ):
                    numbers = gguf.dequantize(packed.reshape(rows, row_bytes), kind)
                if self.less:
                    numbers = numbers - np.float32(self.less)
                yield numbers.astype(dtype, copy=False).reshape(-1)
                remaining -= rows

    def read(self, dtype: DTypeLike) -> np.ndarray:
        """Reads its numbers as `dtype`; raises the errors of `parts`."""
        array = filled(self.shape, self.parts(dtype), dtype)
        if not self.heads:
            return array
        halves = array.reshape(self.heads, -1, 2, *self.shape[1:])  # [heads, pairs, 2, in]
        return halves.swapaxes(1, 2).reshape(self.shape)


class _Reader:
    """Reads the header of a file, and stops with an error at the end of the file."""

    def __init__(self, path: Path, file: BinaryIO):
        self.path, self.file, self.left = path, file, path.stat().st_size
        self.elements = MOST_ELEMENTS

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise InputError(f"{self.path}: it ends within its header; fetch it again.")
        self.left -= size
        return self.file.read(size)

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(code)))[0]

    def count(self, name: str, most: int) -> int:
        number = self.number("Q")
        if number > most:
            raise self.broken(f"{number:,} {name}, more than {most:,}")
        return int(number)

    def text(self) -> str:
        return self.take(self.count("bytes of a text", MOST_LETTERS)).decode()

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == FLOAT32:  # the shortest decimal number: 0.00001, not 0.0000099999997
            return float(str(np.float32(self.number("f"))))
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        inner, length = self.number("I"), self.count("entries in arrays", self.elements)
        self.elements -= length
        if kind == ARRAY and inner in SCALARS:
            size = struct.calcsize(SCALARS[inner])
            return np.frombuffer(self.take(length * size), SCALARS[inner]).tolist()
        if kind == ARRAY and inner == TEXT:
            return [self.text() for _ in range(length)]
        raise self.broken(f"metadata of type {kind} with elements of type {inner}")

    def broken(self, got: object) -> InputError:
        remedy = "fetch it again or convert it again"
        return InputError.at(self.path, "a GGUF file of version 2 or 3", got, remedy)

    def metadata(self, keys: int) -> Metadata:
        """Reads metadata, and checks the type and range of each key that the project reads."""
        metadata = dict[str, Any]()
        for _ in range(keys):
            key = self.text()
            if key in metadata:
                raise self.broken(f"{shown(key)} twice")
            metadata[key] = self.value(self.number("I"))
        kinds, prefix = dict(OF_FILE), metadata.get("general.architecture")
        kinds |= {f"{prefix}.{key}": kind for key, kind in OF_NETWORK.items()}
        for key, kind in kinds.items():
            if key in metadata and not kind.fits(metadata[key]):
                remedy = "fetch it again or convert it again"
                got = shown(metadata[key])
                raise InputError.at(f"{self.path}, {key}", kind.expected, got, remedy)
        return metadata

    def header(self) -> tuple[Metadata, dict[str, GGUFTensor]]:
        """Reads the file's metadata, and its tensors under the file's names."""
        import gguf

        if (magic := self.take(4)) != b"GGUF":
            pointer = "a git-LFS pointer (git lfs pull)"
            raise self.broken(pointer if magic == b"vers" else f"a file that begins with {magic!r}")
        if (version := self.number("I")) not in (2, 3):
            raise self.broken(f"version {version}")
        count, keys = self.count("tensors", MOST_TENSORS), self.count("keys", MOST_KEYS)
        found, whole = dict[str, GGUFTensor](), self.path.stat().st_size
        try:
            metadata = self.metadata(keys)
            for _ in range(count):
                name, axes = self.text(), self.number("I")
                if not 0 < axes < 5 or name in found:
                    raise self.broken(f"{shown(name)} twice, or with {axes} axes")
                shape = tuple(self.number("Q") for _ in range(axes))[::-1]
                code, offset = self.number("I"), self.number("Q")
                block, _ = gguf.GGML_QUANT_SIZES.get(code, (0, 0))
                if not block or not all(shape) or shape[-1] % block:
                    raise self.broken(f"{shown(name)} of shape {shape} in ggml type {code}")
                found[name] = GGUFTensor(name, self.path, shape, offset, code)
        except UnicodeDecodeError as error:
            raise self.broken(f"a text that is not UTF-8 ({error.reason})") from error
        if not (alignment := metadata.get("general.alignment", 32)):
            raise self.broken("general.alignment = 0")
        begin = -(-(whole - self.left) // alignment) * alignment  # the offset of the first tensor
        for name, tensor in found.items():
            found[name] = tensor = tensor._replace(offset=begin + tensor.offset)
            if tensor.offset + math.prod(tensor.shape[:-1]) * tensor.row_bytes > whole:
                raise InputError(f"{self.path}: it ends within {shown(name)}; fetch it again.")
        return metadata, found


def read_header(path: Path) -> tuple[Metadata, dict[str, GGUFTensor]]:
    """Reads the metadata of a file, and its tensors under the file's names.

    Raises:
        InputError: The file is broken, or a key that the project reads has another type or range.
    """
    with path.open("rb") as file:
        return _Reader(path, file).header()

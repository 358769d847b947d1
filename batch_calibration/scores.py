"""The score table: a model's scores of rows in one context, in memory and on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import safetensors.numpy
from numpy.typing import ArrayLike
from safetensors import SafetensorError

from batch_calibration.arrays.missing_scores import find_impossible
from batch_calibration.arrays.numbers import read_numbers, read_whole_numbers
from batch_calibration.errors import InputError, answering, shown, step
from batch_calibration.files import Json, WrongJson, parse_json, read_as, retry, write_whole

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 2
"""Version of the file format: a header, the arrays, and the SHA-256 of all bytes before it."""
KEY = "batch_calibration"  # key of the header in safetensors' metadata
CHECKSUM, CHECKSUM_BYTES = "sha256", 32
BLOCK_ARRAYS = {"log_probs": np.float32, "labels": np.int32, "tokens": np.int32}
"""Names and types of a block's arrays."""
FILE_ROWS, FILLED = "file_rows", "filled"
"""Keys of a block's spec: row numbers in the file; [row, label] of filled-in scores."""
BALANCED, TRAIN_LABELS = "balanced", "train_labels"
"""Keys of a context: True if its task is balanced by design; counts [k] of the training file."""
PROBABILITY = "p({})"
"""The name of a label's column of probabilities, beside its column of corrected scores."""
POOLED_AS = "pooled_as"
"""Key of a context: its task, if "task" is a longer name that identifies one of several tables."""
NO_PLACE_BIAS = "no_place_bias"
"""Key of a context: why its labels, which are positions of choices, have no bias."""
OUTSIDE_ID = ("model", "data", BALANCED, TRAIN_LABELS, POOLED_AS)
"""Keys of a context that do not affect scores: names, and facts about its labels."""
WHY_NO_LOG_PROBS = {
    "causal_lm": "", "transformers": "", "dual_encoder": "these are scaled cosines (dual_encoder)",
}  # fmt: skip
"""Kind of scorer -> the reason why its scores are no log-probabilities over the vocabulary; "" if
they are. For other kinds, the values of the scores decide."""
JsonLike = Json | Mapping[str, Json] | Sequence[Json]
AGAIN = "delete it and score this context again: stored scores are not requested again"


def canonical(document: JsonLike) -> str:
    """Returns JSON with sorted keys and no spaces: the text from which ids are hashed."""
    where, kinds = "the description of a score table", (TypeError, ValueError, RecursionError)
    with answering(kinds, where, "JSON", "use only Python's texts, numbers, lists and dicts"):
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(document: JsonLike) -> str:
    """Returns 16 hexadecimal digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()[:16]


def context_id(context: Mapping[str, Json]) -> str:
    """Returns the id of a context: the digest of everything that affects its scores."""
    return digest({key: context[key] for key in context if key not in OUTSIDE_ID})


class Block(NamedTuple):
    """Scores of one named set of rows.

    Attributes:
      log_probs: `float32[n, k]`, in nats, summed over each label's tokens.
      labels: `int32[n]`, the gold labels; -1 is unknown.
      tokens: `int32[n]`, the number of prompt tokens of each row.
      row_ids: Ids that identify the rows' texts.
      spec: How the rows were made (a digest of the texts, a probe's options), JSON-able.
    """

    log_probs: np.ndarray
    labels: np.ndarray
    tokens: np.ndarray
    row_ids: tuple[str, ...]
    spec: dict[str, Json]

    def __repr__(self) -> str:
        rows, k = np.shape(self.log_probs)
        return f"Block({rows:,} rows, {k} labels, {int((self.labels >= 0).sum()):,} rows labeled)"

    @property
    def file_rows(self) -> np.ndarray:
        """The number of each row in its file, from 0; rows of other contexts leave gaps."""
        numbers = cast("list[int] | None", self.spec.get(FILE_ROWS))
        return np.array(numbers or np.arange(len(self.row_ids)))


class ScoreTable(NamedTuple):
    """The scores of one context: a description, label names, and blocks of rows.

    Example:
      >>> block = make_block([[-1.0, -2.0]], labels=[0])
      >>> table = ScoreTable({"task": "sst2"}, ("negative", "positive"), {"test": block})
      >>> table.blocks["test"].log_probs.shape
      (1, 2)
    """

    context: dict[str, Json]
    label_names: tuple[str, ...]
    blocks: dict[str, Block]

    def __repr__(self) -> str:
        rows = {name: len(block.row_ids) for name, block in self.blocks.items()}
        labels = shown(self.label_names)
        return f"ScoreTable({self.context.get('task')!r}, labels={labels}, rows={shown(rows)})"

    @property
    def id(self) -> str:
        """A hash of everything that affects the scores."""
        return context_id(self.context)

    @property
    def dtype(self) -> str:
        """The model's dtype, such as "bfloat16"; "" if the description has none."""
        scorer = self.context.get("scorer")
        return str(scorer.get("dtype") or "") if isinstance(scorer, dict) else ""

    def to_frame(self) -> pd.DataFrame:
        """Returns a frame with a row for each test row: scores by label, and `gold` by name.

        Raises:
            InputError: pandas is not installed.

        >>> block = make_block([[-1.0, -2.0], [-3.0, -1.0]], labels=[0, -1], row_ids=["a", "b"])
        >>> frame = ScoreTable({}, ("no", "yes"), {"test": block}).to_frame()
        >>> [*frame.columns], frame.loc["a", "gold"], frame.loc["b", "yes"].item()
        (['no', 'yes', 'gold'], 'no', -1.0)
        """
        with answering(ImportError, "to_frame", "pandas to be installed", "pip install pandas"):
            import pandas
        test, names = self.blocks["test"], np.array([*self.label_names, None], object)
        index = pandas.Index(test.row_ids, name="id")
        frame = pandas.DataFrame(test.log_probs, index, self.label_names)
        frame.insert(len(self.label_names), "gold", names[test.labels])
        return frame

    def save(self, path: str | Path) -> None:
        """Writes the table by a temporary file, fsync and rename; no partial file can remain."""
        path = Path(path)
        check(self, str(path))
        arrays, blocks = {}, dict[str, Json]()
        for name, block in self.blocks.items():
            for array in BLOCK_ARRAYS:
                # safetensors writes the memory of an array as it is, so it must be contiguous.
                arrays[f"{name}.{array}"] = np.ascontiguousarray(getattr(block, array))
            blocks[name] = {"row_ids": list(block.row_ids), "spec": block.spec}
        described: dict[str, Json] = {"format": FORMAT, "id": self.id, "context": self.context}
        text = canonical({**described, "label_names": [*self.label_names], "blocks": blocks})
        expected = "a description of the table that can be read again"
        with answering(ValueError, path, expected, "correct it"):
            read_as(Header, parse_json(text), "table")  # checked before the file is written
        write_whole(path, seal(arrays, text))


@dataclass(frozen=True)
class BlockHeader:
    """The header of a block: its data in a file, except its arrays."""

    row_ids: tuple[str, ...]
    spec: Mapping[str, object]


@dataclass(frozen=True)
class Header:
    """The header of a table: its data in a file, except its arrays."""

    format: int
    id: str
    context: Mapping[str, object]
    label_names: tuple[str, ...]
    blocks: Mapping[str, BlockHeader]


def seal(arrays: Mapping[str, np.ndarray], header: str) -> bytes:
    """Returns a safetensors file that ends with an array of 32 bytes, the SHA-256 of the rest."""
    # safetensors puts bytes after wider numbers, so the checksum is the last array.
    arrays = {**arrays, CHECKSUM: np.zeros(CHECKSUM_BYTES, np.uint8)}
    content = safetensors.numpy.save(arrays, metadata={KEY: header})[:-CHECKSUM_BYTES]
    return content + hashlib.sha256(content).digest()


def unseal(content: bytes) -> tuple[dict[str, np.ndarray], Json]:
    """Reads the arrays and the header of a sealed file, without a check of the checksum.

    Raises:
        SafetensorError: The file is truncated or no safetensors file.
        KeyError, TypeError, ValueError: The file has no header of this package.
    """
    arrays = safetensors.numpy.load(content)
    size = int.from_bytes(content[:8], "little")  # size of safetensors' own header
    return arrays, parse_json(json.loads(content[8 : 8 + size])["__metadata__"][KEY])


def one_label_notes(task: object, labels: Iterable[int], names: Sequence[str]) -> tuple[str, ...]:
    """Returns a note if all labeled rows have the same label, as in the start of a sorted file.

    >>> one_label_notes("mine", [1, 1, -1], ["no", "yes"])
    ("mine: all 2 labeled rows are 'yes', so accuracies here do not measure a correction",)
    """
    known = [label for label in labels if label >= 0]
    if len(known) < 2 or len(set(known)) > 1:
        return ()
    return (
        f"{task}: all {len(known):,} labeled rows are {names[known[0]]!r}, so accuracies here "
        "do not measure a correction",
    )


def make_block(
    log_probs: ArrayLike,
    labels: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    row_ids: Sequence[str] | None = None,
    spec: Mapping[str, Json] | None = None,
) -> Block:
    """Makes a block from lists or arrays; labels default to -1, tokens to 0, ids to numbers."""
    with np.errstate(over="ignore"):  # `check` refuses numbers too large for float32
        scores = np.asarray(read_numbers(log_probs, "log_probs"))
        scores = scores.astype(np.float32)
    n = len(scores)
    gold = read_whole_numbers(np.full(n, -1) if labels is None else labels, "labels")
    counts = read_whole_numbers(np.zeros(n, int) if tokens is None else tokens, "tokens")
    ids = tuple(map(str, range(n))) if row_ids is None else tuple(row_ids)
    whole_numbers = np.asarray(gold, np.int32), np.asarray(counts, np.int32)
    return Block(scores, *whole_numbers, ids, dict(spec or {}))


def load(path: str | Path) -> ScoreTable:
    """Reads a table; refuses a damaged, foreign or inconsistent file.

    Raises:
        InputError: The file does not exist, or differs from the bytes that `ScoreTable.save` wrote.
    """
    path = Path(path)
    content, arrays, document = _read_sealed(path)
    file_format = document.get("format") if isinstance(document, dict) else None
    if type(file_format) is int and file_format != FORMAT:
        raise InputError(
            f"{path}: a score table of format {file_format}, but this version reads {FORMAT}; move "
            f"{path.parent} elsewhere and {step('score')} with the same settings and workdir, "
            "which scores with the model again; the version that wrote the files can read them."
        )
    if hashlib.sha256(content[:-CHECKSUM_BYTES]).digest() != content[-CHECKSUM_BYTES:]:
        raise InputError(
            f"{path}: its checksum does not match its content: the disk or a copy damaged it, or "
            f"it was edited; {AGAIN}."
        )
    try:
        header = read_as(Header, document, "header")
        blocks = {}
        for name, block in header.blocks.items():
            log_probs, gold, tokens = (arrays[f"{name}.{array}"] for array in BLOCK_ARRAYS)
            spec = cast("dict[str, Json]", block.spec)
            blocks[name] = Block(log_probs, gold, tokens, block.row_ids, spec)
    except (KeyError, WrongJson) as error:
        expected = f"a score table of this package, but its description is wrong: {error}"
        raise InputError(where=path, expected=expected, remedy=AGAIN) from error
    table = ScoreTable(cast("dict[str, Json]", header.context), header.label_names, blocks)
    if header.id != table.id:
        raise InputError(
            f"{path}: its id {header.id} is not the hash of its description ({table.id}): "
            f"the file was edited; {AGAIN}."
        )
    check(table, str(path))
    return table


def _read_sealed(path: Path) -> tuple[bytes, dict[str, np.ndarray], Json]:
    """Reads a file; returns its bytes, its arrays and its header."""
    kinds = (SafetensorError, KeyError, TypeError, ValueError)
    with (
        answering(kinds, path, "a complete score table of this package", AGAIN),
        answering(OSError, path, "a score table that can be read", AGAIN),
        answering(FileNotFoundError, path, "a score table", "score it first"),
    ):
        content = retry(path.read_bytes)
        return content, *unseal(content)


def check_distinct(label_names: Sequence[str], where: str) -> None:
    """Raises an error if two labels have the same name."""
    if len(set(label_names)) < len(label_names):
        got = shown(list(label_names))
        raise InputError.at(where, "labels of different names", got, "rename one of them")


def check(table: ScoreTable, where: str) -> None:
    """Raises an error for inconsistent shapes, labels out of range, and scores that are no number.

    `-inf` and similar sentinels are accepted here; the calibration decides whether to floor them.
    """
    k = len(table.label_names)
    if k < 2:
        raise InputError(where=where, expected="two or more labels", got=list(table.label_names))
    check_distinct(table.label_names, where)
    for name, block in table.blocks.items():
        n = len(block.row_ids)
        at = f"{where}, block {name!r}"
        shapes = (block.log_probs.shape, block.labels.shape, block.tokens.shape)
        if shapes != ((n, k), (n,), (n,)):
            expected = f"log_probs [{n}, {k}], labels [{n}], tokens [{n}] for {n} row ids"
            remedy = "delete the file and score it again"
            raise InputError.at(at, f"{expected} and {k} labels", shapes, remedy)
        for array, kind in BLOCK_ARRAYS.items():
            if getattr(block, array).dtype != kind:
                got = f"{getattr(block, array).dtype}"
                raise InputError.at(at, f"{array} of {np.dtype(kind)}, as make_block makes it", got)
        if n == 0:
            raise InputError(where=at, expected="at least one row", got="none")
        too_high = find_impossible(block.log_probs)  # includes NaN
        if len(too_high):
            row, label = too_high[0]
            raise InputError(
                f"{at}: the score of row {block.row_ids[row]}, label "
                f"{table.label_names[label]!r} is {block.log_probs[row, label]} (and "
                f"{len(too_high) - 1} more); one score like this makes every mean of its label NaN "
                "or infinite: score it again."
            )
        if not ((block.labels >= -1) & (block.labels < k)).all():
            wrong = sorted(set(block.labels.tolist()) - set(range(-1, k)))
            raise InputError(where=at, expected=f"labels of -1 (unknown) to {k - 1}", got=wrong)

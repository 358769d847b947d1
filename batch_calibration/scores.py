"""The score table: what a model said about rows under one context, in memory and on disk."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import ArrayLike
from safetensors import SafetensorError, safe_open

from batch_calibration.arrays import EACH_SCORE, LARGEST, SCORES, numbers, whole_numbers
from batch_calibration.errors import InputError
from batch_calibration.files import Json, write_whole

FORMAT = 1
NAMES = ("model", "data")
"""Keys of a context that are for people: what they say decides no number."""


def canonical(value: Json | Mapping[str, Json] | Sequence[Json]) -> str:
    """JSON with sorted keys and no spaces: the text that ids are hashes of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Json | Mapping[str, Json] | Sequence[Json]) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def context_id(context: Mapping[str, Json]) -> str:
    """The id of a context: the digest of it without the names that are for people."""
    return digest({key: value for key, value in context.items() if key not in NAMES})


class Block(NamedTuple):
    """Scores of one named set of rows.

    Attributes:
      log_probs: `float32[n, k]`, nats, summed over each label's tokens.
      labels: `int32[n]`, the gold label or -1 where it is unknown.
      tokens: `int32[n]`, prompt tokens of each row.
      row_ids: names that lead back to the texts.
      spec: what made the rows (a digest of the texts, a probe's options), JSON-able.
    """

    log_probs: np.ndarray
    labels: np.ndarray
    tokens: np.ndarray
    row_ids: tuple[str, ...]
    spec: dict[str, Json]


class ScoreTable(NamedTuple):
    """Everything one context's scores are: its description, its labels, its blocks of rows.

    Example:
      >>> block = make_block([[-1.0, -2.0]], labels=[0])
      >>> table = ScoreTable({"task": "sst2"}, ("negative", "positive"), {"test": block})
      >>> table.blocks["test"].log_probs.shape
      (1, 2)
    """

    context: dict[str, Json]
    label_names: tuple[str, ...]
    blocks: dict[str, Block]

    @property
    def id(self) -> str:
        """Hash of all that decides the numbers."""
        return context_id(self.context)

    def save(self, path: str | Path) -> None:
        """Write the table whole or not at all: a temporary name, fsync, rename."""
        path = Path(path)
        check(self, str(path))
        arrays = {}
        for name, block in self.blocks.items():
            for part in ("log_probs", "labels", "tokens"):
                arrays[f"{name}.{part}"] = np.ascontiguousarray(getattr(block, part))
        header: dict[str, Json] = {
            "format": FORMAT,
            "id": self.id,
            "context": self.context,
            "label_names": list(self.label_names),
            "blocks": {
                name: {"row_ids": list(block.row_ids), "spec": block.spec}
                for name, block in self.blocks.items()
            },
        }
        data = safetensors.numpy.save(arrays, metadata={"batch_calibration": canonical(header)})
        write_whole(path, data)


def make_block(
    log_probs: ArrayLike,
    labels: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    row_ids: Sequence[str] | None = None,
    spec: Mapping[str, Json] | None = None,
) -> Block:
    """A block from plain lists or arrays; what is not given is unknown (-1), 0, or numbered."""
    with np.errstate(over="ignore"):
        scores = np.asarray(numbers(log_probs, "log_probs", SCORES, EACH_SCORE)).astype(np.float32)
    n = len(scores)
    return Block(
        scores,
        np.full(n, -1, np.int32)
        if labels is None
        else np.asarray(whole_numbers(labels, "labels"), np.int32),
        np.zeros(n, np.int32)
        if tokens is None
        else np.asarray(whole_numbers(tokens, "tokens"), np.int32),
        tuple(map(str, range(n))) if row_ids is None else tuple(row_ids),
        dict(spec or {}),
    )


def load(path: str | Path) -> ScoreTable:
    """Read a table; a truncated, foreign or inconsistent file is refused with a sentence."""
    path = Path(path)
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["batch_calibration"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        table = ScoreTable(
            header["context"],
            tuple(header["label_names"]),
            {
                name: Block(
                    arrays[f"{name}.log_probs"],
                    arrays[f"{name}.labels"],
                    arrays[f"{name}.tokens"],
                    tuple(about["row_ids"]),
                    about["spec"],
                )
                for name, about in header["blocks"].items()
            },
        )
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such score table; score it first.") from error
    except SafetensorError as error:
        raise InputError(
            f"{path}: the file is truncated or no safetensors file ({error}); "
            "delete it and score this context again."
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: expected a score table of this package, but its description lacks "
            f"or misstates {error}; delete it and score this context again."
        ) from error
    if header.get("format") != FORMAT:
        raise InputError(
            f"{path}: format {header.get('format')}, this version reads {FORMAT}; score again."
        )
    if header["id"] != table.id:
        raise InputError(
            f"{path}: its id {header['id']} is not the hash of its own description ({table.id}): "
            "the file was edited; delete it and score this context again."
        )
    check(table, str(path))
    return table


def check(table: ScoreTable, where: str) -> None:
    """Refuse blocks whose arrays disagree in shape, labels out of range, scores that are no number.

    `-inf`, and sentinels like it, are kept: whether they may be floored is the calibration's
    decision.
    """
    k = len(table.label_names)
    if k < 2:
        raise InputError(f"{where}: expected two labels or more, got {list(table.label_names)}.")
    for name, block in table.blocks.items():
        n = len(block.row_ids)
        at = f"{where}, block {name!r}"
        shapes = (block.log_probs.shape, block.labels.shape, block.tokens.shape)
        if shapes != ((n, k), (n,), (n,)):
            raise InputError(
                f"{at}: expected log_probs [{n}, {k}], labels [{n}], tokens [{n}] for {n} row ids "
                f"and {k} labels, got {shapes}; delete the file and score it again."
            )
        if n == 0:
            raise InputError(f"{at}: expected at least one row, got none.")
        bad = np.argwhere(~(block.log_probs <= LARGEST))
        if len(bad):
            row, label = bad[0]
            raise InputError(
                f"{at}: the score of row {block.row_ids[row]}, label "
                f"{table.label_names[label]!r} is {block.log_probs[row, label]} (and "
                f"{len(bad) - 1} more); one such value makes every mean of its label NaN or "
                "infinite: score it again."
            )
        if not ((block.labels >= -1) & (block.labels < k)).all():
            raise InputError(
                f"{at}: labels must be -1 (unknown) or 0 to {k - 1}, got "
                f"{sorted(set(block.labels.tolist()) - set(range(-1, k)))}."
            )

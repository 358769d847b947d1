"""Reads npz, npy and safetensors files: named arrays, with scores in one or several of them."""

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from safetensors import safe_open

from batch_calibration.arrays.frames import GOLD
from batch_calibration.arrays.numbers import read_numbers
from batch_calibration.errors import InputError, answering, refuse_unknown, spell
from batch_calibration.files import parse_json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import LABEL_NAMES, text_of
from batch_calibration.importers.columns import SCORE_NAMES, label_rows
from batch_calibration.importers.compressed import check_archive
from batch_calibration.importers.vectors import Vectors, read_vectors
from batch_calibration.scores import POOLED_AS

Arrays = dict[str, np.ndarray]


def is_npz(path: Path, start: bytes) -> bool:
    """Checks whether a file is a zip that begins with an array, or a zip named .npz."""
    name = start[30 : 30 + int.from_bytes(start[26:28], "little")]  # after a zip's fixed header
    return start[:4] == b"PK\3\4" and (name.endswith(b".npy") or path.suffix == ".npz")


def is_npy(path: Path, start: bytes) -> bool:
    """Checks whether a file holds one numpy array."""
    return path.suffix == ".npy" or start.startswith(b"\x93NUMPY")


def is_safetensors(path: Path, start: bytes) -> bool:
    """Checks whether a file is named .safetensors or begins with a safetensors header."""
    return path.suffix == ".safetensors" or start[5:9] == b"\0\0\0{"  # length, then JSON


def load_npz(path: Path) -> Arrays:
    """Loads the arrays of an npz file."""
    with zipfile.ZipFile(path) as archive:
        check_archive(archive, path)
    # Pickle is off, because loading an array of objects could run code.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return dict(archive)


def load_npy(path: Path) -> Arrays:
    """Loads the array of an npy file, under the name "scores"."""
    # With a memory map, numpy refuses a header that exceeds the file before it allocates memory.
    return {"scores": np.array(np.load(path, mmap_mode="r", allow_pickle=False))}


def load_safetensors(path: Path) -> Arrays:
    """Loads the arrays of a safetensors file, and lists of texts from its metadata as arrays."""
    with safe_open(path, framework="numpy") as file:
        arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata() or {}
    for name, text in sorted(metadata.items()):  # their order in the file varies
        try:
            names = parse_json(text)
        except ValueError:  # other metadata, such as the author
            continue
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            arrays.setdefault(name, np.array(names, np.str_))
    return arrays


def read(load: Callable[[Path], Arrays], path: Path, reading: Reading) -> list[Imported]:
    """Reads the contexts of a file; `load` returns its arrays."""
    # numpy, zipfile and safetensors raise many kinds of errors for damaged files.
    with answering(Exception, path, "an intact file of arrays"):
        arrays = load(path)
    return from_arrays(str(path), arrays, reading, task=path.stem)


def from_arrays(where: str, arrays: Arrays, reading: Reading, *, task: str) -> list[Imported]:
    """Returns the contexts in named arrays.

    - Scores are in the array named `scores`, `log_probs`, `logits`, `probs` ..., or in the only
      array of real numbers with shape [n, k] or [contexts, n, k]. Each array named `X_scores` is a
      context X, and other arrays named `X_...` belong only to this context.
    - An array of k texts named `labels`, `label_names` ... names the labels.
    - An array with one text for each context, such as `models`, names the contexts.
    - Arrays of n values are columns, for `reading.gold`, `reading.ids` and `reading.by`. A column
      named `gold`, `labels`, `answers` ... holds the right labels. Integers in `subject` are
      indices into the texts in `subjects`.

    Args:
        where: The file's name, for messages.
        arrays: Name -> array.
        reading: The user's description of the file.
        task: The task's name if `reading` has none.
    """
    contexts = []
    for prefix, name in _score_arrays(where, arrays, reading):
        if reading.labels == (name,):
            reading = replace(reading, labels=())  # it names the array, not a label
        at = f"{where}, {name}" if prefix else where
        task_name = f"{reading.task or task} {prefix.rstrip('_')}".strip()
        scores = np.asarray(read_numbers(arrays[name], at))
        # Without their prefix, arrays of this context take precedence over shared arrays.
        other_arrays = {key: array for key, array in arrays.items() if key != name}
        if prefix:
            own = [key for key in other_arrays if key.startswith(prefix)]
            other_arrays |= {key.removeprefix(prefix): arrays[key] for key in own}
        if scores.ndim == 2:
            imported = _context(at, scores, other_arrays, reading, None, name)
            contexts.append(replace(imported, about={"task": task_name}))
            continue
        if scores.ndim != 3:
            raise InputError.at(at, "scores [n, k] or [contexts, n, k]", f"shape {scores.shape}")
        kind, context_names = _context_names(other_arrays, len(scores))
        of_array, right = list[Imported](), set[bytes]()
        for i, context_name in enumerate(context_names):
            about = {"task": f"{task_name} {context_name}"}
            if kind == "model":
                about = {"task": task_name, "model": context_name}
            there = f"{at}, {context_name}"
            imported = _context(there, scores[i], other_arrays, reading, i, name)
            right.add(b"" if imported.labels is None else np.asarray(imported.labels).tobytes())
            of_array.append(replace(imported, about=about))
        # If all contexts have the same right labels, row i is the same question in each.
        same = {POOLED_AS: task_name, "rows": "same"} if len(right) == 1 and any(right) else {}
        contexts += [replace(one, about={**one.about, **same}) for one in of_array]
    return contexts


def _score_arrays(where: str, arrays: Arrays, reading: Reading) -> list[tuple[str, str]]:
    """Returns each array of scores as its prefix, "" if it has none, and its name."""
    if len(reading.labels) == 1 and reading.labels[0] in arrays:
        return [("", reading.labels[0])]
    for name in SCORE_NAMES.split():
        if name in arrays:
            return [("", name)]
    real, prefixed = [], []
    for name, array in arrays.items():
        # JAX also counts bfloat16 as a real type; numpy does not.
        if array.ndim in (2, 3) and jnp.issubdtype(array.dtype, jnp.floating):
            real.append(name)
            endings = [ending for ending in SCORE_NAMES.split() if name.endswith(f"_{ending}")]
            prefixed += [(name.removesuffix(ending), name) for ending in endings]
    if prefixed or len(real) == 1:  # a single array may have any name
        return prefixed or [("", real[0])]
    listed = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
    expected = "an array named scores, [n, k] or [contexts, n, k]"
    remedy = f"name one with {spell('labels', real[0])}" if real else "add one"
    raise InputError.at(where, expected, listed or "no arrays", remedy)


def _context(
    where: str, scores: np.ndarray, arrays: Arrays, reading: Reading, index: int | None, name: str
) -> Imported:
    """Combines scores [n, k] of the array `name` with the other arrays of their context.

    `index` is the context's index on the leading axis, or None for scores without this axis.
    """
    n, k = scores.shape
    label_arrays = (arrays[key] for key in LABEL_NAMES if _are_texts(arrays.get(key), k))
    names_in_file = next(label_arrays, None)
    are_named = names_in_file is not None
    for key in filter(arrays.__contains__, () if are_named else LABEL_NAMES):
        if _are_texts(arrays[key], len(arrays[key])) and len(arrays[key]) != n:
            got, remedy = f"{len(arrays[key])} names", "name each column of the scores once"
            raise InputError.at(f"{where}, {key}", f"{k} names of labels", got, remedy)
    names = tuple(map("label {}".format, range(k)) if names_in_file is None else names_in_file)
    vectors = Vectors(tuple(map(str, names)), scores, are_named=are_named)
    lists = {}  # arrays that list a label for each score of a row
    for key, array in arrays.items():
        if key.lower() in LABEL_NAMES and array.shape == (n, k) and array.dtype.kind in "USiu":
            lists[key] = array.tolist()
    if lists:
        lists["scores"] = scores.tolist()
        own_names = vectors.names if are_named else ()
        vectors = read_vectors(where, lists, "scores", reading, own_names)

    # Columns have one value per row, shared by all contexts or separate for each.
    columns = {}
    for key, array in arrays.items():
        # [n], or [contexts, n]
        is_of_rows = array.shape == (n,) or (index is not None and array.shape[1:] == (n,))
        if array is not names_in_file and is_of_rows:
            column = array if array.ndim == 1 else array[index]
            columns[key] = _decode(key, column, arrays)
    for named in filter(None, (reading.gold, reading.ids, *reading.by)):
        refuse_unknown("array of one value per row", named, columns, where=where)
    may_be_gold = (name for name in GOLD if _may_be_gold(columns.get(name), vectors.names))
    reading = replace(reading, gold=reading.gold or next(may_be_gold, ""))
    return label_rows(where, vectors, columns, reading, (name,))


def _context_names(arrays: Arrays, count: int) -> tuple[str, list[str]]:
    """Returns the name of the leading axis, such as "model", and of each context on it."""
    for key, array in arrays.items():
        if key not in LABEL_NAMES and _are_texts(array, count):
            return key.removesuffix("s"), list(map(str, array))  # models -> model
    return "", list(map("context {}".format, range(count)))


def _decode(key: str, column: np.ndarray, arrays: Arrays) -> np.ndarray:
    """Returns a column, with indices replaced by texts if another array holds its texts.

    For example, `subject` may hold indices into the texts of `subjects`.
    """
    texts = next((arrays[name] for name in (f"{key}s", f"{key}_names") if name in arrays), None)
    if texts is None or not _are_texts(texts, len(texts)) or column.dtype.kind not in "iu":
        return column
    # The names may match by chance; the numbers must be valid indices.
    is_inside = column.size and column.min() >= 0 and column.max() < len(texts)
    return texts[column] if is_inside else column


def _are_texts(array: np.ndarray | None, count: int) -> bool:
    return array is not None and array.shape == (count,) and array.dtype.kind in "US"


def _may_be_gold(column: np.ndarray | None, names: tuple[str, ...]) -> bool:
    """Checks whether a column may hold right labels, as indices or as names."""
    if column is None:
        return False
    return column.dtype.kind in "iu" or set(map(text_of, column)) <= {*names, "", "-1"}

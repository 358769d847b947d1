"""Data frames and tensors: reads scores by column name and returns results in the same type."""

import sys
from collections.abc import Hashable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.missing_scores import is_gap
from batch_calibration.errors import InputError, shown

FRAMES = {"pandas": ("DataFrame",), "polars": ("DataFrame",), "pyarrow": ("Table", "RecordBatch")}
"""Package -> names of its classes with named columns; no package is imported to compare them."""

GOLD = ("gold", "label", "labels", "target", "targets", "answer", "answers", "y", "class", "truth")
"""Names of columns that hold gold labels instead of scores."""

MAX_NAMES_IN_SENTENCE = 12


def package(container: object) -> str:
    """Returns the package of a frame or a torch tensor, "" for any other object.

    >>> package(jnp.zeros(2)), package([1.0])
    ('', '')
    """
    for kind in type(container).__mro__:  # includes classes derived from a frame
        name = kind.__module__.split(".")[0]
        # Compared by name, because the class itself would have to be imported.
        if name == "torch" and kind.__name__ == "Tensor":
            return name
        if kind.__name__ in FRAMES.get(name, ()):
            return name
    return ""


def is_frame(container: object) -> bool:
    """Checks whether an object is a pandas or polars frame or a pyarrow table."""
    # Arrays are the most frequent input and skip the search through their classes.
    return not isinstance(container, np.ndarray | jax.Array) and package(container) in FRAMES


def column_names(frame: object) -> list[Hashable]:
    """Returns the names of a frame's columns, in order."""
    names = getattr(frame, "column_names", None)
    return list(frame.columns if names is None else names)  # type: ignore[attr-defined]


def names_of(scores: object, columns: Iterable[Hashable] | None = None) -> list[Hashable] | None:
    """Returns the names of the score columns, by default all; None for scores without names."""
    if not is_frame(scores):
        return None
    return column_names(scores) if columns is None else list(columns)


def matrix(frame: object, where: str, columns: Iterable[Hashable] | None = None) -> np.ndarray:
    """Returns the score columns of a frame as an array [n, k], in the order of `columns`.

    By default all columns hold scores.

    Raises:
        InputError: equal or unknown names; without `columns`, also a column that looks like gold
            labels or row numbers; a column without numbers.
    """
    names, kind = column_names(frame), type(frame).__name__
    if len(set(names)) < len(names):
        expected = "columns of different names"
        raise InputError.at(where, expected, f"a {kind} of {shown(names)}", "rename equal ones")
    chosen = names if columns is None else _checked(columns, names, where)
    values_by_name = {name: _values(frame[name]) for name in chosen}  # type: ignore[index]
    faults = {}
    for name in chosen:
        kind_of_values = values_by_name[name].dtype
        if kind_of_values.kind not in "iuf":
            faults[name] = f"holds no numbers ({kind_of_values})"
    if columns is None:
        whole_numbers = [name for name in names if _is_whole(values_by_name[name])]
        # Whole numbers hint at labels or row numbers only if other columns hold fractions.
        if len(whole_numbers) < len(names):
            faults |= dict.fromkeys(whole_numbers, "holds whole numbers")
        gold = [name for name in names if str(name).strip().lower() in GOLD]
        faults |= dict.fromkeys(gold, "has the name of right labels")
    if faults:
        usable = [name for name in names if name not in faults]
        name, why = next(iter(faults.items()))
        # A long list of columns is no help: only the user knows which of them are labels.
        named = str(usable) if 1 < len(usable) <= MAX_NAMES_IN_SENTENCE else "[...]"
        expected = "columns of log-probabilities, one per label"
        remedy = f"give columns={named}, or {where}[{named}] if columns= is not an argument"
        raise InputError.at(where, expected, f"a {kind} where column {shown(name)} {why}", remedy)
    if not chosen:  # `check_scores` refuses this shape
        return np.zeros((0, 0))
    return np.stack([values_by_name[name] for name in chosen], axis=-1)


def _checked(columns: Iterable[Hashable], names: list[Hashable], where: str) -> list[Hashable]:
    try:  # a string is not read as a list of its letters
        chosen = [] if isinstance(columns, str) else list(columns)
        repeated = len(chosen) - len(set(chosen))
    except TypeError:  # not iterable, or its elements are not hashable
        chosen, repeated = [], 0
    if len(chosen) < 2 or repeated:
        expected = "a list of at least two names, one per label, all different"
        remedy = f"name columns of {where}, such as columns={shown(names[:2])}"
        raise InputError.at("columns", expected, shown(columns), remedy)
    for name in chosen:
        if name not in names:
            raise InputError.unknown(f"column of {where}", name, map(str, names))
    return chosen


def _values(column: object) -> np.ndarray:
    """Converts a column to a numpy array [n]; gaps in a column of numbers become NaN."""
    try:
        array = np.asarray(column)
    except Exception:  # each package raises its own error for types that numpy lacks
        return np.full(len(column), None)  # type: ignore[arg-type]
    if array.dtype != object:
        return array
    # A pandas column of numbers with gaps converts to dtype object.
    try:
        plain = np.array([np.nan if is_gap(cell) else cell for cell in array.tolist()])
    except (TypeError, ValueError):
        return array
    return plain if plain.ndim == 1 else array


def _is_whole(column: np.ndarray) -> bool:
    """Checks whether a column holds integers, or floats that are whole numbers from 0 on."""
    if column.dtype.kind in "iub":
        return True
    if column.dtype.kind != "f":
        return False
    finite = column[np.isfinite(column)]
    # A column that holds only zeros may hold scores.
    return bool(finite.size and (finite >= 0).all() and finite.any() and (finite % 1 == 0).all())


def tensor_values(tensor: object) -> np.ndarray:
    """Converts a torch tensor on any device to numpy; half precision becomes float32."""
    # numpy has no bfloat16.
    on_host = tensor.detach().cpu()  # type: ignore[attr-defined]
    if on_host.is_floating_point() and on_host.element_size() < 4:
        on_host = on_host.float()
    return np.asarray(on_host)


def in_kind_of(
    pattern: object, values: np.ndarray | jax.Array, columns: Iterable[Hashable] | None = None
) -> object:
    """Converts scores, or the predicted label of each row, to the container type of `pattern`.

    A frame keeps its index and the names of the columns that were read. Labels predicted from a
    frame are names of columns, unless these are default names: a pandas series with the frame's
    index, a polars series, or a numpy array for pyarrow. A tensor stays on its device, and jax
    arrays, traced or not, stay jax arrays. Any other container becomes a numpy array.

    >>> in_kind_of([[1.0]], jnp.ones((1, 1)))
    array([[1.]], dtype=float32)
    """
    if isinstance(pattern, jax.Array) or isinstance(values, jax.core.Tracer):
        return jnp.asarray(values)
    # Copied, because torch shares numpy's memory and jax's memory must not be written to.
    host_values = np.array(values)
    if isinstance(pattern, np.ndarray):
        return host_values
    kind = package(pattern)
    if kind == "torch":
        tensor = sys.modules["torch"].from_numpy(host_values).to(pattern.device)  # type: ignore[attr-defined]
        return tensor if tensor.is_floating_point() else tensor.long()  # the type of torch's argmax
    if kind not in FRAMES:
        return host_values
    names = column_names(pattern) if columns is None else list(columns)
    if host_values.ndim == 1:
        defaults = [[*range(len(names))], [f"column_{i}" for i in range(len(names))]]
        if names not in defaults:  # the names that pandas and polars give to unnamed columns
            host_values = np.fromiter(names, object, len(names))[host_values]
        if kind == "pandas":
            labels = pattern.index, host_values.dtype  # type: ignore[attr-defined]
            return sys.modules[kind].Series(host_values, *labels).infer_objects()
        return sys.modules[kind].Series(host_values) if kind == "polars" else host_values
    by_name = dict(zip(names, host_values.T, strict=True))
    if kind == "pyarrow":
        return type(pattern).from_pydict(by_name)  # type: ignore[attr-defined]
    frame = sys.modules[kind].DataFrame  # already imported, because `pattern` is its frame
    if kind == "polars":
        return frame(by_name)
    result_frame = frame(host_values, pattern.index)  # type: ignore[attr-defined]
    # Taken from the frame, because its column index may have a name.
    result_frame.columns = pattern[names].columns  # type: ignore[index]
    return result_frame

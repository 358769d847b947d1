"""Scores in a data frame or a tensor: read by name, and given back as they came."""

import sys
from collections.abc import Hashable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.missing_scores import is_gap
from batch_calibration.errors import InputError, shown

FRAMES = {"pandas": ("DataFrame",), "polars": ("DataFrame",), "pyarrow": ("Table", "RecordBatch")}
"""Package -> its classes of named columns; a value's class is asked, no package is imported."""

GOLD = ("gold", "label", "labels", "target", "targets", "answer", "answers", "y", "class", "truth")
"""Names of columns that hold right labels and no scores."""

MAX_NAMES_IN_SENTENCE = 12


def package(container: object) -> str:
    """The package of a value's class, or of the class it is derived from, "" where none is known.

    >>> package(jnp.zeros(2)), package([1.0])
    ('', '')
    """
    for kind in type(container).__mro__:  # so that a class derived from a frame's is one too
        name = kind.__module__.split(".")[0]
        # By name: asking the class itself would import the package.
        if name == "torch" and kind.__name__ == "Tensor":
            return name
        if kind.__name__ in FRAMES.get(name, ()):
            return name
    return ""


def is_frame(container: object) -> bool:
    """True for values with named columns: frames of pandas and polars, tables of pyarrow."""
    # Arrays, which come most often, need no look at their classes.
    return not isinstance(container, np.ndarray | jax.Array) and package(container) in FRAMES


def column_names(frame: object) -> list[Hashable]:
    """The names of a frame's columns, in order."""
    names = getattr(frame, "column_names", None)
    return list(frame.columns if names is None else names)  # type: ignore[attr-defined]


def names_of(scores: object, columns: Iterable[Hashable] | None = None) -> list[Hashable] | None:
    """The names of the columns of scores, `columns` or all; None if columns have no names."""
    if not is_frame(scores):
        return None
    return column_names(scores) if columns is None else list(columns)


def matrix(frame: object, where: str, columns: Iterable[Hashable] | None = None) -> np.ndarray:
    """The columns of a frame that hold scores, [n, k], in the order of `columns`.

    Without `columns` all do, none of which may then look like right labels, row numbers or texts.
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
        # Where all columns hold whole numbers, none stands out as labels or row numbers.
        if len(whole_numbers) < len(names):
            faults |= dict.fromkeys(whole_numbers, "holds whole numbers")
        gold = [name for name in names if str(name).strip().lower() in GOLD]
        faults |= dict.fromkeys(gold, "has the name of right labels")
    if faults:
        usable = [name for name in names if name not in faults]
        name, why = next(iter(faults.items()))
        # Of many columns the sentence names none: which are the labels, only their owner knows.
        named = str(usable) if 1 < len(usable) <= MAX_NAMES_IN_SENTENCE else "[...]"
        expected = "columns of log-probabilities, one per label"
        remedy = f"give columns={named}, or {where}[{named}] where there is no columns="
        raise InputError.at(where, expected, f"a {kind} whose column {shown(name)} {why}", remedy)
    if not chosen:  # no column: `check_scores` refuses the shape
        return np.zeros((0, 0))
    return np.stack([values_by_name[name] for name in chosen], axis=-1)


def _checked(columns: Iterable[Hashable], names: list[Hashable], where: str) -> list[Hashable]:
    try:  # a text is no list of its letters
        chosen = [] if isinstance(columns, str) else list(columns)
        repeated = len(chosen) - len(set(chosen))
    except TypeError:  # no iterable, or of lists
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
    """A column [n] as numpy has it; what is missing in columns of numbers becomes NaN."""
    try:
        array = np.asarray(column)
    except Exception:  # each package has its own, for values that numpy has no type for
        return np.full(len(column), None)  # type: ignore[arg-type]
    if array.dtype != object:
        return array
    # pandas' columns with gaps are of objects; their numbers are read with NaN for a gap.
    try:
        plain = np.array([np.nan if is_gap(cell) else cell for cell in array.tolist()])
    except (TypeError, ValueError):
        return array
    return plain if plain.ndim == 1 else array


def _is_whole(column: np.ndarray) -> bool:
    """True if a column holds integers, or (with gaps) whole numbers from 0 on."""
    if column.dtype.kind in "iub":
        return True
    if column.dtype.kind != "f":
        return False
    finite = column[np.isfinite(column)]
    # Zeros alone may be scores.
    return bool(finite.size and (finite >= 0).all() and finite.any() and (finite % 1 == 0).all())


def tensor_values(tensor: object) -> np.ndarray:
    """A tensor of torch as numpy has it, from any device; bfloat16 becomes float32."""
    # numpy knows no bfloat16.
    on_host = tensor.detach().cpu()  # type: ignore[attr-defined]
    if on_host.is_floating_point() and on_host.element_size() < 4:
        on_host = on_host.float()
    return np.asarray(on_host)


def in_kind_of(
    pattern: object, values: np.ndarray | jax.Array, columns: Iterable[Hashable] | None = None
) -> object:
    """Scores, or the predicted label of each row, in the kind of container that scores came in.

    A frame has the index and the names of the columns that were read, and labels predicted from
    one are a series of these names, of pandas with that index; a tensor lies on the same device;
    arrays of jax stay arrays of jax, as does what it traces, and all else is a numpy array.

    >>> in_kind_of([[1.0]], jnp.ones((1, 1)))
    array([[1.]], dtype=float32)
    """
    if isinstance(pattern, jax.Array) or isinstance(values, jax.core.Tracer):
        return jnp.asarray(values)
    # A copy: torch shares numpy's memory, and that of jax must not be written to.
    host_values = np.array(values)
    if isinstance(pattern, np.ndarray):
        return host_values
    kind = package(pattern)
    if kind == "torch":
        tensor = sys.modules["torch"].from_numpy(host_values).to(pattern.device)  # type: ignore[attr-defined]
        return tensor if tensor.is_floating_point() else tensor.long()  # as its argmax gives
    if kind not in FRAMES:
        return host_values
    names = column_names(pattern) if columns is None else list(columns)
    if host_values.ndim == 1:
        defaults = [[*range(len(names))], [f"column_{i}" for i in range(len(names))]]
        if names not in defaults:  # of pandas and polars, for columns that nobody named
            host_values = np.fromiter(names, object, len(names))[host_values]
        if kind == "pandas":
            labels = pattern.index, host_values.dtype  # type: ignore[attr-defined]
            return sys.modules[kind].Series(host_values, *labels).infer_objects()
        return sys.modules[kind].Series(host_values) if kind == "polars" else host_values
    by_name = dict(zip(names, host_values.T, strict=True))
    if kind == "pyarrow":
        return type(pattern).from_pydict(by_name)  # type: ignore[attr-defined]
    frame = sys.modules[kind].DataFrame  # imported already, as a frame of it came
    if kind == "polars":
        return frame(by_name)
    result_frame = frame(host_values, pattern.index)  # type: ignore[attr-defined]
    # Taken from the frame, as a columns' index may have a name.
    result_frame.columns = pattern[names].columns  # type: ignore[index]
    return result_frame

"""What may come as an array: the one place where scores, labels and weights are read."""

from collections.abc import Hashable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.frames import FRAMES, matrix, package, tensor_values
from batch_calibration.errors import InputError
from batch_calibration.typing import AnyArray, Key

SCORES = "real numbers in an array [n, k], log-probabilities in nats"
EACH_SCORE = "give one row per input, one column per label"


def read_numbers(source: object, where: str, expected: str, remedy: str) -> AnyArray:
    """An array of whole or real numbers as it came, jax's own or numpy's; a sentence otherwise.

    Lists and tensors are read by numpy's protocols, those of torch whatever their device and
    gradient; arrays of jax, traced ones too, are left alone. Truth values, complex numbers, dates,
    texts, records, ragged lists and arrays with masked entries are no numbers.

    >>> read_numbers([[-1, -2.5]], "scores", SCORES, EACH_SCORE).tolist()
    [[-1.0, -2.5]]
    """
    array: object = source
    what_came = ""
    mask = (
        np.ma.getmaskarray(source) if isinstance(source, np.ma.MaskedArray) else np.zeros(0, bool)
    )
    # The mask of a structured array has its fields; the array is refused below.
    if mask.dtype == bool and mask.any():
        what_came = f" with {int(mask.sum())} masked entries"
    elif not isinstance(source, jax.Array):
        try:
            is_tensor = not isinstance(source, np.ndarray) and package(source) == "torch"
            array = tensor_values(source) if is_tensor else np.asarray(source)
            # Such as a list of arrays of jax; what is no array of numbers stays of objects.
            if array.dtype == object:
                array = np.asarray(array.tolist())
        except (TypeError, ValueError, RuntimeError) as error:
            what_came = f" ({str(error).splitlines()[0]})"
    if not what_came and isinstance(array, jax.Array | np.ndarray):
        dtype = array.dtype
        # numpy counts spans of time among the integers.
        is_whole = jnp.issubdtype(dtype, jnp.integer) and dtype.kind != "m"
        if is_whole or jnp.issubdtype(dtype, jnp.floating):
            return array
        what_came = f" of {dtype}"
    raise InputError(
        where=where,
        expected=expected,
        got=f"{type(source).__name__}{what_came} that is no such array",
        remedy=remedy,
    )  # fmt: skip


def read_scores(
    source: object, where: str = "scores", columns: Iterable[Hashable] | None = None
) -> AnyArray:
    """An array of scores as it came, of any shape, or the `columns` of a frame that hold scores."""
    if package(source) in FRAMES:
        source = matrix(source, where, columns)
    elif columns is not None:
        raise InputError(
            where="columns",
            expected=f"none, for {where} came as {type(source).__name__}, whose columns "
            "have no names",
            remedy="leave columns= out, or give a data frame",
        )
    return read_numbers(source, where, SCORES, EACH_SCORE)


def read_whole_numbers(source: object, where: str, labels: int | str = "k") -> AnyArray:
    """An array of whole numbers of 32 bits as it came, or a sentence; it may be empty."""
    last = labels - 1 if isinstance(labels, int) else f"{labels} - 1"
    expected = "an array of whole numbers, the column of the right label"
    remedy = f"give indices from 0 to {last}, or -1 for unknown"
    array = read_numbers(source, where, expected, remedy)
    fits = array.size == 0 or jnp.issubdtype(array.dtype, jnp.integer)
    # 2**40 would be another label in 32 bits.
    if fits and isinstance(array, np.ndarray):
        fits = bool((array.astype(np.int32) == array).all())
    if not fits:
        raise InputError(
            where=where, expected=expected,
            got=f"{type(source).__name__} of {array.dtype} that is no such array", remedy=remedy,
        )  # fmt: skip
    return array


def read_floats(
    source: object, where: str = "scores", columns: Iterable[Hashable] | None = None
) -> jax.Array:
    """Scores for a pure function, float32 or wider; the values are not looked at."""
    array = read_scores(source, where, columns)
    if array.size == 0:
        raise InputError(
            where=where, expected="at least one number", got=f"shape {array.shape}",
            remedy="give the scores of at least one input",
        )  # fmt: skip
    # Half precision and whole numbers become float32; what is wider stays as jax has it.
    is_wide = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize >= 4
    return jnp.asarray(array, None if is_wide else jnp.float32)


def check_key(key: int | Key, where: str = "key") -> Key:
    """The `jax.random` key that a key or an int seed stands for."""
    # jax.random.key drops the bits beyond: 2**40 would be the seed 0.
    if isinstance(key, int | np.integer) and -(2**31) <= key < 2**32:
        return jax.random.key(int(key))
    try:
        if key is None or isinstance(key, int):
            raise TypeError
        jax.random.split(key)  # raises unless it is one key
    except (TypeError, ValueError) as error:
        raise InputError(
            where=where, expected="one jax.random key or an int seed of at most 32 bits",
            got=f"{key!r}", remedy=f"give one such as {where}=0",
        ) from error  # fmt: skip
    return key

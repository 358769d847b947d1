"""Which of several named arrays are scores, and which say their labels, contexts and columns."""

from collections.abc import Mapping
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays import EACH_SCORE, GOLD, SCORES, numbers
from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import text_of
from batch_calibration.importers.columns import SCORES as SCORE_NAMES
from batch_calibration.importers.labels import LABEL_NAMES, choose, gold_indices, renumbered

Arrays = dict[str, np.ndarray]


def from_arrays(
    where: str, arrays: Mapping[str, np.ndarray], reading: Reading, *, task: str
) -> list[Imported]:
    """The contexts in named arrays.

    - Scores are the array named `scores`, `log_probs`, `logits`, `probs` ..., or the only array of
      real numbers with two axes [n, k] or three [contexts, n, k]. Several named `X_scores` are
      contexts named X, and what is named `X_...` beside one is of it alone.
    - An array of k texts named `labels`, `label_names` ... names the labels.
    - An array of texts as long as the leading axis, such as `models`, names its contexts.
    - Arrays of n values are columns, for `reading.gold`, `reading.ids` and `reading.by`; one named
      `gold`, `labels`, `answers` ... holds the right labels. Whole numbers in `subject` beside
      texts in `subjects` stand for these.

    Args:
        where: what to call the arrays in sentences.
        arrays: name -> array.
        reading: what is said of them.
        task: what to call the task where `reading` does not.

    Raises:
        InputError: no scores, or several that may be; a column that is named and not there; a
            right label that is none.
    """
    found = []
    for prefix, name in _scores(where, arrays, reading):
        if reading.labels == (name,):
            reading = replace(reading, labels=())
        own = {key: of for key, of in arrays.items() if key != name}
        if prefix:
            own |= {
                key.removeprefix(prefix): of for key, of in own.items() if key.startswith(prefix)
            }
        at = f"{where}, {name}" if prefix else where
        called = f"{reading.task or task} {prefix.rstrip('_')}".strip()
        scores = np.asarray(numbers(arrays[name], at, SCORES, EACH_SCORE))
        if scores.ndim == 2:
            found.append(_context(at, scores, own, reading, {"task": called}, None))
        elif scores.ndim == 3:
            kind, names = _context_names(own, len(scores))
            for i, said in enumerate(names):
                about: dict[str, Json] = {"task": called, "model": said}
                if kind != "model":
                    about = {"task": f"{called} {said}"}
                found.append(_context(f"{at}, {said}", scores[i], own, reading, about, i))
        else:
            raise InputError(
                where=at, expected="scores [n, k] or [contexts, n, k]", got=f"shape {scores.shape}"
            )
    return found


def _scores(
    where: str, arrays: Mapping[str, np.ndarray], reading: Reading
) -> list[tuple[str, str]]:
    """What the names of arrays of scores begin with, "" for all, and their names."""
    if len(reading.labels) == 1 and reading.labels[0] in arrays:
        return [("", reading.labels[0])]
    real = [name for name, of in arrays.items() if of.ndim in (2, 3) and _is_real(of)]
    for name in SCORE_NAMES:
        if name in arrays:
            return [("", name)]
    groups = [
        (name.removesuffix(of), name)
        for name in real
        for of in SCORE_NAMES
        if name.endswith(f"_{of}")
    ]
    if groups:
        return groups
    if len(real) == 1:
        return [("", real[0])]
    raise InputError(
        f"{where}: expected an array of scores [n, k] or [contexts, n, k] named scores, found "
        f"{', '.join(f'{name} {list(of.shape)}' for name, of in arrays.items()) or 'no arrays'}; "
        f"name one: --labels={real[0] if real else 'NAME'}"
    )


def _context(
    where: str,
    scores: np.ndarray,
    own: Mapping[str, np.ndarray],
    reading: Reading,
    about: Mapping[str, Json],
    place: int | None,
) -> Imported:
    """One context's scores [n, k] with what stands beside them; `place` is its leading index."""
    n, k = scores.shape
    said = next((own[key] for key in LABEL_NAMES if _are_texts(own.get(key), k)), None)
    names = tuple(f"label {i}" for i in range(k)) if said is None else tuple(map(str, said))
    chosen, places = choose(where, names, reading.labels, given=said is not None)
    names = chosen if said is None else names
    beside = {
        key: _decoded(key, of if of.ndim == 1 else of[place], own)
        for key, of in own.items()
        if of is not said and (of.shape == (n,) or (place is not None and of.shape[1:] == (n,)))
    }
    for name in filter(None, (reading.gold, reading.ids, *reading.by)):
        if name not in beside:
            raise InputError(f"{where}: {InputError.unknown('array of its rows', name, beside)}")
    key = reading.gold or next((key for key in GOLD if _may_be_gold(beside.get(key), names)), "")
    gold = None
    if key:
        at = f"{where}, {key}"
        gold = renumbered(at, gold_indices(at, beside[key], names), names, places)
    return Imported(
        where,
        scores[:, places],
        chosen,
        labels=gold,
        row_ids=tuple(map(text_of, beside[reading.ids])) if reading.ids else None,
        about=about,
        columns={name: [text_of(cell) for cell in beside[name]] for name in reading.by},
    )


def _context_names(own: Mapping[str, np.ndarray], many: int) -> tuple[str, list[str]]:
    """What the leading axis counts, such as "model", and the name of each of its contexts."""
    for key, of in own.items():
        if key not in LABEL_NAMES and _are_texts(of, many):
            return key.removesuffix("s"), [str(one) for one in of]
    return "", [f"context {i}" for i in range(many)]


def _decoded(key: str, of: np.ndarray, own: Mapping[str, np.ndarray]) -> np.ndarray:
    """A column; indices into the texts of another array, as `subject` into `subjects`, as these."""
    texts = next((own[name] for name in (f"{key}s", f"{key}_names") if name in own), None)
    if texts is None or not _are_texts(texts, len(texts)) or of.dtype.kind not in "iu":
        return of
    inside = of.size and of.min() >= 0 and of.max() < len(texts)
    return texts[of] if inside else of


def _are_texts(of: np.ndarray | None, many: int) -> bool:
    """Whether an array is so many texts."""
    return of is not None and of.shape == (many,) and of.dtype.kind in "US"


def _may_be_gold(of: np.ndarray | None, names: tuple[str, ...]) -> bool:
    """Whether a column of such a name holds right labels: indices, or names of labels."""
    if of is None:
        return False
    return of.dtype.kind in "iu" or {text_of(one) for one in of} <= {*names, "", "-1"}


def _is_real(of: np.ndarray) -> bool:
    """Whether an array holds real numbers, of 16 bits too."""
    return bool(jnp.issubdtype(of.dtype, jnp.floating))

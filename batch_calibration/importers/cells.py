"""Reads cells of a table as numbers, as texts and as names of labels."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from string import ascii_uppercase
from typing import TYPE_CHECKING

import numpy as np

from batch_calibration.errors import InputError, spell
from batch_calibration.files.rows import arrow_numbers, first_repeated
from batch_calibration.responses.top_k import SPACES

if TYPE_CHECKING:
    import pyarrow as pa

Column = Sequence[object] | np.ndarray
"""One value per row: a number, a text, None, or a list or dict with all scores of the row."""
Columns = Mapping[str, Column]
EMPTY = ("", "na", "n/a", "nan", "null", "none", "<na>", "#n/a")
"""Texts that mean an empty cell; spreadsheets write the last one."""
DASHES = ("-", "--")  # empty cells in columns of numbers; other columns may use them as words
MINUS_SIGNS = str.maketrans(dict.fromkeys("\u2212\u2013\ufe63\uff0d", "-"))
"""Replacements of other minus signs: the mathematical sign, the dash of word processors ..."""
NUMBER_WITH_COMMA = re.compile(r"[-+]?\d*,\d+(e[-+]?\d+)?", re.IGNORECASE)
MAYBE_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
"""Numbers with one comma that may separate thousands, such as 1,234."""
LABEL_NAMES = ("label_names", "labels", "letters", "classes", "choices", "options")
"""Usual names of the lists of label names in files."""
MAX_LISTED = 8  # label names in a message


class Texts(Sequence[str]):
    """The cells of a column of a text file, which stores numbers as texts.

    Attributes:
        cells: A list of texts, or a column of texts that pyarrow read.
        commas_are_decimal: True if another column of the file has decimal commas.
    """

    def __init__(self, cells: "list[str] | pa.ChunkedArray") -> None:
        self.cells = cells
        self.commas_are_decimal = False

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, row):  # type: ignore[no-untyped-def]
        cell = self.cells[row]
        if isinstance(self.cells, list):
            return cell
        return cell.to_pylist() if isinstance(row, slice) else cell.as_py()

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    @property
    def texts(self) -> list[str]:
        """The texts as a list, which is made at each access for columns of pyarrow."""
        return self.cells if isinstance(self.cells, list) else self.cells.to_pylist()

    @cached_property
    def numbers(self) -> tuple[np.ndarray, list[int]]:
        """The result of `numbers_of`, cached for several calls."""
        # Most columns hold only plain numbers, so reading a whole column at once is faster.
        try:
            if not isinstance(self.cells, list):
                return arrow_numbers(self.cells.cast("float64")), []
            text = "".join(self.cells)
            if text.isascii() and "_" not in text:
                return np.fromiter(map(float, self.cells), np.float64, len(self.cells)), []
        except ValueError:  # pyarrow's errors, too
            pass
        return _read_cells(self.texts, commas_are_decimal=self.commas_are_decimal)


def words_of(name: str) -> list[str]:
    """Splits a column's name into lowercase words.

    >>> words_of("llama_choiceA_probs")
    ['llama', 'choice', 'a', 'probs']
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return re.findall(r"[^\W\d_]+|\d+", apart.lower())


def bare_names(names: Sequence[str]) -> tuple[str, ...]:
    """Removes spaces and tokenizers' space characters around names, if they stay different.

    >>> bare_names([" A", "ĠB"])
    ('A', 'B')
    """
    bare = tuple(name.translate(SPACES).strip() or name for name in names)
    return bare if len(set(bare)) == len(names) else tuple(names)


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Removes the beginning and the end that all names share, if they stay different.

    The end begins with a sign. The beginning ends with a sign, or before a capital or a number.

    >>> short_names(["m_choiceA_probs", "m_choiceB_probs"]), short_names(["positive", "possible"])
    (('A', 'B'), ('positive', 'possible'))
    """
    start = len(shared_beginning(names))
    end = len(shared_beginning([name[::-1] for name in names]))
    while start and not _is_boundary(names, start):
        start -= 1
    while end and names[0][-end].isalnum():
        end -= 1
    short = tuple(name[start : len(name) - end] for name in names)
    return short if all(short) and len(set(short)) == len(names) else tuple(names)


def shared_beginning(texts: Sequence[str]) -> str:
    """Returns the longest common prefix, which is the same for the first and last sorted texts."""
    lowest, highest = min(texts), max(texts)
    pairs = enumerate(zip(lowest, highest, strict=False))
    return lowest[: next((i for i, (a, b) in pairs if a != b), len(lowest))]


def _is_boundary(names: Sequence[str], place: int) -> bool:
    before = names[0][place - 1]
    after = [name[place : place + 1] for name in names]
    starts = all(map(str.isupper, after)) or all(map(str.isdecimal, after))
    return not before.isalnum() or (before.islower() and starts)


def text_of(cell: object) -> str:
    """Converts a cell to text: "" for None and NaN, whole numbers without a decimal point.

    >>> list(map(text_of, (None, float("nan"), 2.0, " a ")))
    ['', '', '2', 'a']
    """
    if isinstance(cell, str):
        return cell.strip()
    # Only NaN differs from itself; comparing an array would give an array.
    if cell is None or (not isinstance(cell, np.ndarray) and cell != cell):
        return ""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))  # pandas stores integers as floats if one is missing
    return str(cell).strip()


def texts_of(column: Column) -> list[str]:
    """Returns the cells of a column as texts, by `text_of`."""
    cells = column.texts if isinstance(column, Texts) else column
    try:
        return list(map(str.strip, cells))  # faster, for columns of texts only
    except TypeError:
        return list(map(text_of, cells))


def numbers_of(column: Column) -> tuple[np.ndarray, list[int]]:
    """Returns the numbers [n] of a column, NaN for other cells, and the rows of invalid cells."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiu":
        return column.astype(np.float64), []  # no cell can be invalid
    return column.numbers if isinstance(column, Texts) else _read_cells(column)


def _read_cells(
    column: Sequence[object] | np.ndarray, *, commas_are_decimal: bool = False
) -> tuple[np.ndarray, list[int]]:
    cells = list(map(number_of, column))
    if None in cells and _have_decimal_commas(column, is_plain=commas_are_decimal):
        cells = [number_of(str(cell).replace(",", ".")) for cell in column]
    numbers = np.array(cells, np.float64)  # None becomes NaN
    has_numbers = np.isfinite(numbers).any()
    bad_rows = []
    for row, number in enumerate(cells):
        is_dash = has_numbers and text_of(column[row]).translate(MINUS_SIGNS) in DASHES
        if number is None and not is_dash:
            bad_rows.append(row)
    return numbers, bad_rows


def _have_decimal_commas(column: Iterable[object], *, is_plain: bool = False) -> bool:
    """Checks whether all commas in a column of numbers are decimal commas.

    The cells were in quotes, or the file has another delimiter. The comma in 1,234 may separate
    thousands, so another cell or `is_plain` has to show that it is a decimal comma.

    >>> _have_decimal_commas(["-0,35", "-12,5", "-3", ""]), _have_decimal_commas(["1,234", "2,5.1"])
    (True, False)
    """
    for cell in map(text_of, column):
        text = cell.translate(MINUS_SIGNS)
        if NUMBER_WITH_COMMA.fullmatch(text):
            is_plain = is_plain or not MAYBE_THOUSANDS.fullmatch(text)
        elif "." in text or (text not in DASHES and parse_number(text) is None):
            return False
    return is_plain


def share_decimal_commas(columns: Iterable[Texts]) -> None:
    """Sets `commas_are_decimal` in all columns of a file if one column has decimal commas."""
    texts = [column for column in columns if "," in "".join(column.cells)]
    if any(map(_have_decimal_commas, texts)):
        for column in texts:
            column.commas_are_decimal = True


def parse_number(text: str) -> float | None:
    """Converts a text to a number: NaN for an empty text, None for other texts.

    >>> parse_number("-0.5"), parse_number("\u22120.5"), parse_number("#N/A"), parse_number("1_0")
    (-0.5, -0.5, nan, None)
    >>> parse_number("34.1%")
    0.341
    """
    text = text.strip()
    if not text.isascii():
        text = text.translate(MINUS_SIGNS)
    if text.lower() in EMPTY:
        return np.nan
    # float also reads 1_000 and digits of other scripts; files of numbers hold neither.
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text) if text[-1:] != "%" else float(text[:-1]) / 100
    except ValueError:
        return None


def number_of(cell: object) -> float | None:
    """Converts a cell to a number: NaN for an empty cell, None for other cells."""
    if cell is None:
        return np.nan
    if isinstance(cell, str):
        return parse_number(cell)
    try:
        is_number = isinstance(cell, int | float | np.integer | np.floating)
        return float(cell) if is_number and not isinstance(cell, bool) else None  # type: ignore
    except OverflowError:  # a whole number of hundreds of digits
        return None


def are_whole(numbers: np.ndarray) -> bool:
    """Checks whether numbers look like codes or counts: whole, and at least -1.

    Log-probabilities may also be whole by chance, but some of them are then below -1.
    """
    finite = numbers[np.isfinite(numbers)]
    return bool(len(finite) and (finite % 1 == 0).all() and (finite >= -1).all())


def are_counts(cells: Sequence[object]) -> bool:
    """Checks whether the numbers of a dict are counts, perhaps with one other number (a cost).

    >>> are_counts([12, 3, 0.002]), are_counts([0.0, 1.0]), are_counts([-1.5, -2.0])
    (True, False, False)
    """
    numbers, _ = numbers_of(list(cells))
    is_count = (numbers % 1 == 0) & (numbers >= 0)
    return bool(is_count.sum() >= max(1, len(numbers) - 1) and np.nanmax(numbers) > 1)


def choose_labels(
    where: str, names: Sequence[str], chosen: Sequence[str], *, are_named: bool
) -> tuple[tuple[str, ...], list[int]]:
    """Returns the names of the chosen labels, and the indices of their columns of scores.

    `chosen` are the user's names: some of the columns' own `names` in any order, or new names for
    all columns if the file does not name them (`are_named` is False).

    >>> choose_labels("f", ("A", "B", "C"), ("C", "A"), are_named=True)
    (('C', 'A'), [2, 0])
    """
    if not chosen:
        return tuple(names), list(range(len(names)))
    if len(set(chosen)) < len(chosen):
        twice = first_repeated(chosen)
        raise InputError(
            f"{spell('labels')} names {twice!r} twice; name each label once.",
            where=where,
            key="labels",
        )
    lacking = [name for name in chosen if name not in names]
    if not lacking:
        return tuple(chosen), list(map(names.index, chosen))
    if are_named:
        raise InputError.unknown("label", lacking[0], names, where=where, key="labels")
    if len(chosen) != len(names):
        expected = f"{spell('labels')} to name its {len(names)} columns of scores"
        raise InputError.at(where, expected, f"{len(chosen)} names", key="labels")
    return tuple(chosen), list(range(len(names)))


def numbered_names(k: int) -> tuple[str, ...]:
    """Returns names of positions: A, B, C ..., or choice 1, choice 2 ... if k exceeds 26."""
    is_lettered = k <= len(ascii_uppercase)
    return tuple(ascii_uppercase[:k] if is_lettered else map("choice {}".format, range(1, k + 1)))


def note_places(first_name: str) -> str:
    """Returns the note on choices that differ from row to row, so that a label is a position."""
    return (
        f"The choices differ from row to row: {first_name} is the first choice of each row, and a "
        "bias is a preference for a position. If the prompt does not list the choices, a "
        "position has no meaning and no bias to remove."
    )


def renumber_labels(
    where: str, gold: np.ndarray, names: Sequence[str], chosen: Sequence[int]
) -> np.ndarray:
    """Converts indices of all labels to indices of the chosen labels; refuses other labels."""
    lost = np.flatnonzero(~np.isin(gold, [-1, *chosen]))
    if len(lost):
        row, label = lost[0], names[gold[lost[0]]]
        raise InputError(
            f"{where}, row {row} (counted from 0): its right label is {label!r}, which "
            f"{spell('labels')} leaves out; name it too, or drop the row."
        )
    new_index = np.full(len(names) + 1, -1, np.int32)  # the last item is for -1
    new_index[list(chosen)] = range(len(chosen))
    return np.asarray(new_index[gold])

"""Makes the inputs that methods learn their bias from: empty ones, random words, orders."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from batch_calibration.tasks.base import Row

CONTENT_FREE = ("N/A", "", "[MASK]")
ORIGINAL_TEXTS = 20  # random-word texts in the code of Fei et al.
PRIDE_SHARE = 0.05
"""Of the test rows, the share whose options are permuted: that of PriDe's main results."""


def content_free(fields: Sequence[str]) -> list[Row]:
    """CC's rows: each content-free text in every field (Zhao et al. 2021, section 5).

    >>> content_free(["sentence"])
    [{'sentence': 'N/A'}, {'sentence': ''}, {'sentence': '[MASK]'}]
    """
    return [dict.fromkeys(fields, fill) for fill in CONTENT_FREE]


def random_words(
    rows: Sequence[Row], fields: Sequence[str], texts: int = 20, seed: int = 0
) -> list[Row]:
    """DC's rows: random in-domain words, per field, at the field's mean length in words.

    The bag holds every white-space word of the field in `rows`, so frequent words are drawn often
    (Fei et al. 2023; Zhou et al. 2024, app. D: 20 texts from the test inputs).
    """
    rng = np.random.default_rng([seed, 3])
    columns: dict[str, list[str]] = {}
    for field in fields:
        row_words = [row[field].split() for row in rows]
        bag = [*chain.from_iterable(row_words)] or [""]
        length = max(1, round(sum(map(len, row_words)) / len(row_words)))  # mean words of the field
        # `[texts, length]`, drawn with replacement.
        draws = rng.integers(len(bag), size=(texts, length))
        columns[field] = [_join_words(bag, draw) for draw in draws]
    # From a list of texts for each field to a row with all fields.
    return [dict(zip(fields, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def original_random_words(inputs: Sequence[str], seed: int = 0) -> list[str]:
    """The texts that the code of Fei et al. 2023 makes of whole test inputs (fywalter/label-bias).

    20 texts of floor(mean length) + 1 lower-cased words, drawn with replacement from the words of
    all inputs, and " ." at the end. They are drawn as the code draws them, so that a seed gives its
    very words for the same inputs.

    >>> len(original_random_words(["A fine film", "Dull"])[0].split())
    4
    """
    input_words = [text.lower().split() for text in inputs]
    bag = [*chain.from_iterable(input_words)] or [""]
    # Their code adds one where it rounds down.
    length = int(np.mean([*map(len, input_words)])) + 1
    # The legacy generator, as theirs: a new one would draw other words from the same seed.
    random = np.random.RandomState(seed)
    draws = [random.choice(len(bag), size=length) for _ in range(ORIGINAL_TEXTS)]
    return [_join_words(bag, draw) + " ." for draw in draws]


def _join_words(bag: Sequence[str], draw: np.ndarray) -> str:
    return " ".join(bag[i] for i in draw)


def permuted_rows(rows: int, seed: int = 0) -> list[int]:
    """The test rows that PriDe permutes: 5 % of them at random, at least one, in their order.

    The published code shuffles all and takes the first 5 %.

    >>> len(permuted_rows(100)), permuted_rows(3) == permuted_rows(3)
    (5, True)
    """
    count = max(1, int(rows * PRIDE_SHARE))
    drawn = np.random.default_rng([seed, 6]).choice(rows, count, replace=False)
    # In their order, as a block's rows are.
    return sorted(drawn.tolist())


def cyclic_permutations(row: Row, options: Sequence[str]) -> list[Row]:
    """The row with its options' contents moved round: in the r-th, place j has that of j + r.

    >>> cyclic_permutations({"a": "one", "b": "two"}, ("a", "b"))
    [{'a': 'one', 'b': 'two'}, {'a': 'two', 'b': 'one'}]
    """
    contents = [row[option] for option in options]
    orders = [contents[shift:] + contents[:shift] for shift in range(len(options))]
    return [row | dict(zip(options, order, strict=True)) for order in orders]


def reversal(row: Row, options: Sequence[str]) -> list[Row]:
    """The row as it is, and with its options' contents from the last to the first.

    >>> reversal({"a": "one", "b": "two"}, ("a", "b"))[1]
    {'a': 'two', 'b': 'one'}
    """
    contents = [row[option] for option in options]
    return [row, row | dict(zip(options, contents[::-1], strict=True))]

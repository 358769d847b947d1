"""Probes: the rows from which methods learn their bias."""

from typing import NamedTuple


class Probe(NamedTuple):
    """The inputs for a measurement of a prompt's label bias, and their cost.

    Attributes:
        name: the name in tables and messages.
        blocks: the blocks of a score table that `fit` reads, in order.
        forwards: the number of model calls beyond the test rows; 0 if it depends on the size of the
            block: a labeled set, the demonstrations, or k for each permuted question.
        description: one clause for tables and reports.
        labeled: the blocks with gold labels that `fit` reads.
        aligned: True if its block has one row, or one row for each test row, in the same order.
        in_orders: True if its block has, for each test row, two rows or one row per label, with
            the options in different orders.
        in_each_place: True if its block has each option of a question once in each place.
    """

    name: str
    blocks: tuple[str, ...]
    forwards: int
    description: str
    labeled: tuple[str, ...] = ()
    aligned: bool = False
    in_orders: bool = False
    in_each_place: bool = False

    def row_counts(self, rows: int, labels: int) -> tuple[int, ...]:
        """Returns the allowed numbers of rows of its block; an empty tuple allows any number.

        >>> OPTION_ORDERS.row_counts(10, 4)
        (20, 40)
        """
        if self.aligned:
            return (1, rows)
        return (2 * rows, labels * rows) if self.in_orders else ()

    def describe_counts(self, rows: int, labels: int) -> str:
        """Describes `row_counts` in words.

        >>> DOMAIN_PREMISE.describe_counts(10, 4)
        'one row, or one for each of the 10 rows of scores'
        """
        if self.aligned:
            return f"one row, or one for each of the {rows} rows of scores"
        return (
            f"2 or all {labels} rows, orders of its options, for each of the {rows} rows of scores"
        )

    @property
    def labels(self) -> bool:
        """True if the gold labels of some of its rows are read."""
        return bool(self.labeled)


_TEXTS = "N/A, the empty string and [MASK] in place of the"
NONE = Probe("none", (), 0, "nothing: the scores stay as they are")
CONTENT_FREE = Probe("content-free", ("cc",), 3, f"{_TEXTS} input")
RANDOM_WORDS = Probe(
    "random words", ("dc",), 20, "20 texts of random in-domain words, of mean length"
)
CONTENT_FREE_ORIGINAL = Probe(
    "content-free, as published", ("cc_original",), 3, f"{_TEXTS} whole input"
)
_WORDS = "20 texts of random words, lower-cased, of the whole input"
RANDOM_WORDS_ORIGINAL = Probe("random words, as published", ("dc_original",), 20, _WORDS)
_PREMISE = "the prompt without its input and without demonstrations"
# One premise, or one for each test row.
DOMAIN_PREMISE = Probe("domain premise", ("pmi",), 1, _PREMISE, aligned=True)
_ASKED = "each demonstration, taken out of the context and asked as the input"
# The gold labels of demonstrations are known.
LEFT_OUT = Probe("demonstrations left out", ("looc",), 0, _ASKED, ("looc",))
_PERMUTED = "5 % of the test rows, their options reordered so that each appears once in each place"
PERMUTED_OPTIONS = Probe("permuted options", ("permutations",), 0, _PERMUTED, in_each_place=True)
_ORDERED = "every test row with its options in several orders, the row's own order first"
OPTION_ORDERS = Probe("orders of options", ("permutations",), 0, _ORDERED, in_orders=True)
BATCH = Probe("batch", ("test",), 0, "the test batch itself, unlabeled")
_OF_TASK = "the test batch, unlabeled, under all prompts and models of the task"
CONTEXTS = Probe("contexts of the task", ("test",), 0, _OF_TASK)
_WITH_LABELS = ("labeled",)
_BATCH_TOO = "the test batch and a labeled set"
BATCH_AND_LABELED = Probe("batch and labeled set", ("test", "labeled"), 0, _BATCH_TOO, _WITH_LABELS)
_TEXTS_TOO = f"{_TEXTS} input, and a labeled set"
CONTENT_FREE_AND_LABELED = Probe(
    "content-free and labeled set", ("cc", "labeled"), 3, _TEXTS_TOO, _WITH_LABELS
)
LABELED = Probe("labeled set", ("labeled",), 0, "a labeled set", _WITH_LABELS)
# It reads the same block as BATCH, but here the order of the rows matters.
STREAM = Probe("stream", ("test",), 0, "mini-batches of the test rows as they come")

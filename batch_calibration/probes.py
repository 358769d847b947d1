"""Values that name what a method learns its bias from."""

from typing import NamedTuple


class Probe(NamedTuple):
    """The inputs whose scores show a prompt's label bias, and what they cost.

    Attributes:
        name: what people call it.
        blocks: the blocks of a score table that feed `fit`, in order.
        labels: whether the gold labels of some of those rows are read.
        forwards: model calls beyond the test rows; a labeled set is counted by its own size.
        description: one clause for tables and reports.
    """

    name: str
    blocks: tuple[str, ...]
    labels: bool
    forwards: int
    description: str


NONE = Probe("none", (), False, 0, "nothing: the scores stay as they are")
CONTENT_FREE = Probe(
    "content-free", ("cc",), False, 3, "N/A, the empty string and [MASK] in place of the input"
)
RANDOM_WORDS = Probe(
    "random words", ("dc",), False, 20, "20 texts of random in-domain words, of mean length"
)
BATCH = Probe("batch", ("test",), False, 0, "the test batch itself, unlabeled")
BATCH_AND_LABELED = Probe(
    "batch and labeled set",
    ("test", "labeled"),
    True,
    0,
    "the test batch for the bias, a labeled set for the strength",
)
STREAM = Probe("stream", ("test",), False, 0, "mini-batches of the test rows as they come")

"""Values that name what a method learns its bias from."""

from typing import NamedTuple


class Probe(NamedTuple):
    """The inputs whose scores show a prompt's label bias, and what they cost.

    Attributes:
        name: what people call it.
        blocks: the blocks of a score table that feed `fit`, in order.
        forwards: model calls beyond the test rows; a labeled set is counted by its own size.
        description: one clause for tables and reports.
        labeled: those of the blocks whose gold labels are read.
    """

    name: str
    blocks: tuple[str, ...]
    forwards: int
    description: str
    labeled: tuple[str, ...] = ()

    @property
    def labels(self) -> bool:
        """Whether the gold labels of some of its rows are read."""
        return bool(self.labeled)


NONE = Probe("none", (), 0, "nothing: the scores stay as they are")
CONTENT_FREE = Probe(
    "content-free", ("cc",), 3, "N/A, the empty string and [MASK] in place of the input"
)
RANDOM_WORDS = Probe(
    "random words", ("dc",), 20, "20 texts of random in-domain words, of mean length"
)
BATCH = Probe("batch", ("test",), 0, "the test batch itself, unlabeled")
BATCH_AND_LABELED = Probe(
    "batch and labeled set", ("test", "labeled"), 0,
    "the test batch and a labeled set", ("labeled",),
)  # fmt: skip
CONTENT_FREE_AND_LABELED = Probe(
    "content-free and labeled set", ("cc", "labeled"), 3,
    "N/A, the empty string and [MASK] in place of the input, and a labeled set", ("labeled",),
)  # fmt: skip
LABELED = Probe("labeled set", ("labeled",), 0, "a labeled set", ("labeled",))
STREAM = Probe("stream", ("test",), 0, "mini-batches of the test rows as they come")

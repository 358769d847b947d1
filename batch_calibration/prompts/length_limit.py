"""What to do with a prompt that is longer than the model's positions; never in silence."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol, overload

from batch_calibration.errors import InputError

POLICIES = ("error", "drop_shots", "truncate_left")
"""Refuse it; leave out the first demonstrations; cut the text on its left."""


class TokenBudget(Protocol):
    """How many positions a model has, and how many a prompt and its labels need."""

    @property
    def positions(self) -> int:
        """Positions of the model."""

    def positions_needed(self, texts: Sequence[str], labels: Sequence[str]) -> list[int]:
        """Positions that each text and the longest of its labels take."""

    def truncate_left(self, text: str, tokens: int) -> str:
        """The text without its first `tokens` tokens."""


class Texts(Sequence[str]):
    """Texts that are rendered when they are asked for: a long list takes no more memory than rows.

    Example:
        Texts(3, "Review: {}".format)[1:]
    """

    def __init__(self, count: int, render: Callable[[int], str]):
        self._rows = range(count)
        self._render = render

    @classmethod
    def joined(cls, parts: Sequence[Sequence[str]]) -> "Texts":
        """Several sequences as one."""
        starts = [0, *accumulate(map(len, parts))]

        def render(row: int) -> str:
            part = bisect_right(starts, row) - 1
            return parts[part][row - starts[part]]

        return cls(starts[-1], render)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._render(row) for row in self._rows[place]]
        return self._render(self._rows[place])


class Fitted(NamedTuple):
    """Texts that fit, and how many of them were changed.

    Attributes:
        texts: One for each row.
        dropped: Rows whose context lost demonstrations.
        truncated: Rows whose text was cut on the left.
    """

    texts: Sequence[str]
    dropped: int
    truncated: int


def fit(
    policy: str,
    room: TokenBudget | None,
    render: Callable[[int, int], str],
    rows: int,
    shots: int,
    labels: Sequence[str],
) -> Fitted:
    """Render every row so that it fits the model, and count what that took.

    `drop_shots` leaves out demonstrations from the front, one at a time and for each row by
    itself, until the row fits. A row that is too long without any is cut on the left as
    `truncate_left` does: at a token's edge, so that prompt and labels just fit. `error` renders
    the rows as they are: the scorer knows its positions and refuses what does not fit.

    Args:
        policy: One of `POLICIES`.
        room: The model's; `error` needs none.
        render: `(row, skip)` -> the prompt of a row without the first `skip` demonstrations.
        rows: How many there are.
        shots: Demonstrations in the context.
        labels: Label texts, for the positions that they take.

    Raises:
        InputError: there is no such policy; labels that fit no prompt.
    """
    if policy not in POLICIES:
        raise InputError.unknown("config.over_long policy", policy, POLICIES)
    changed: dict[int, str] = {}
    texts = Texts(rows, lambda row: changed[row] if row in changed else render(row, 0))
    if policy == "error":
        return Fitted(texts, 0, 0)
    if room is None:
        raise InputError(
            f"config.over_long: {policy!r} counts tokens, which takes a model's tokenizer; give "
            "config.model, or over_long 'error'."
        )

    def too_long(some: Sequence[int]) -> list[tuple[int, int]]:
        needs = (
            room.positions_needed(Texts(len(some), lambda i: texts[some[i]]), labels)
            if some
            else []
        )
        return [(row, n - room.positions) for row, n in zip(some, needs, strict=True)
                if n > room.positions]  # fmt: skip

    over = too_long(range(rows))
    dropped = len(over) if policy == "drop_shots" and shots else 0
    for skip in range(1, shots + 1 if dropped else 1):
        for row, _ in over:
            changed[row] = render(row, skip)
        over = too_long([row for row, _ in over])
    truncated = len(over)
    while over:
        for row, excess in over:
            changed[row] = room.truncate_left(texts[row], excess)
            if not changed[row].strip():
                raise InputError(
                    f"row {row}: its labels alone need more than the model's {room.positions} "
                    "positions; use shorter label words."
                )
        over = too_long([row for row, _ in over])
    return Fitted(texts, dropped, truncated)

"""Fits prompts to the model's positions, as the setting `over_long` says, and counts changes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.inputs import LazyTexts
from batch_calibration.settings import LengthPolicy

UNLIKE_CONTEXTS = (
    "† Long prompts were shortened each by itself, so the context of a shortened row is not that "
    "of cc's and dc's probes, nor of the other rows that bc, pc and bcl learn from: what these "
    "methods take away need not be its bias. over_long=same_context keeps one context for all."
)


class TokenCounter(Protocol):
    """The positions of a model, and the positions that a prompt and its labels need."""

    @property
    def positions(self) -> int:
        """Positions of the model."""

    def positions_needed(self, texts: Sequence[str], labels: Sequence[str]) -> list[int]:
        """Positions that each text and the longest of its labels take."""

    def truncate_left(self, text: str, tokens: int) -> str:
        """The text without its first `tokens` tokens."""


class Fitted(NamedTuple):
    """Texts that fit, and how many of them were changed."""

    texts: Sequence[str]  # One for each row
    dropped: int  # Rows whose context lost demonstrations
    truncated: int  # Rows whose text was cut on the left


def fit_prompts(
    policy: LengthPolicy,
    budget: TokenCounter | None,
    render: Callable[[int, int], str],
    rows: int,
    shots: int,
    labels: Sequence[str],
) -> Fitted:
    """Render every row so that it fits the model, and count what that took.

    `drop_shots` leaves out demonstrations from the front, one at a time and for each row by
    itself, until the row fits. A row that is too long without any is cut on the left as
    `truncate_left` does: at a token's edge, so that prompt and labels just fit. `same_context` does
    no more than that: `common_skip` says what all rows leave out. `error` renders the rows as they
    are: the scorer knows its positions and refuses what does not fit.

    `render` gives the prompt of a row without the first `skip` demonstrations; `labels` are the
    label texts, for the positions that they take.
    """
    # Only rows that were shortened are kept as text; all others are rendered when asked for.
    changed: dict[int, str] = {}
    texts = LazyTexts(rows, lambda row: changed[row] if row in changed else render(row, 0))
    # Counting tokens takes time, and here nothing would be done with the count.
    if policy == "error":
        return Fitted(texts, 0, 0)
    budget = _require(budget, policy)

    def too_long(candidates: Sequence[int]) -> dict[int, int]:
        """Rows that do not fit, and by how many positions."""
        prompts = LazyTexts(len(candidates), lambda i: texts[candidates[i]])
        needs = budget.positions_needed(prompts, labels) if candidates else []
        excesses = np.array(needs, int) - budget.positions
        return {candidates[i]: int(excesses[i]) for i in np.flatnonzero(excesses > 0).tolist()}

    over = too_long(range(rows))
    dropped = len(over) if policy == "drop_shots" and shots else 0
    # One more is left out in each pass, of the rows alone that do not fit yet.
    for skip in range(1, shots + 1 if dropped else 1):
        for row in over:
            changed[row] = render(row, skip)
        over = too_long([*over])
    truncated = len(over)
    # Cutting at a token's edge may make other tokens of what is left, so it is counted again.
    while over:
        for row, excess in over.items():
            changed[row] = budget.truncate_left(texts[row], excess)
            # Nothing of the row is left, and a model would be asked about nothing.
            if not changed[row].strip():
                raise InputError(
                    f"row {row}: its labels alone need more than the model's {budget.positions} "
                    "positions; use shorter label words."
                )
        over = too_long([*over])
    return Fitted(texts, dropped, truncated)


def common_skip(
    budget: TokenCounter | None,
    blocks: Sequence[tuple[Callable[[int, int], str], int]],
    shots: int,
    labels: Sequence[str],
) -> int:
    """The number of demonstrations that all prompts of a context leave out so that each fits.

    All of them where a prompt is too long even without any. `blocks` are of each block
    `(row, skip)` -> a row's prompt, and its number of rows.
    """
    budget = _require(budget, "same_context")
    over = []
    for render, rows in blocks:
        over += [(render, row) for row in range(rows)]
    # Rows that fit once fit with fewer demonstrations too, so only the others are asked again.
    for skip in range(shots):
        needs = budget.positions_needed([render(row, skip) for render, row in over], labels)
        over = [over[i] for i, need in enumerate(needs) if need > budget.positions]
        if not over:
            return skip
    return shots


def shortening_notes(policy: object, shots: int | None, shortened: int) -> tuple[str, ...]:
    """Sentences for readers of the numbers, where so many prompts were shortened."""
    return (UNLIKE_CONTEXTS,) if shots and shortened and policy != "same_context" else ()


def _require(budget: TokenCounter | None, policy: LengthPolicy) -> TokenCounter:
    if budget is None:
        raise InputError(
            f"{policy!r} counts tokens, which takes a model's tokenizer; give "
            f"{spell('model')} ({spell('tokenizer')} where a server is asked), or over_long "
            "'error'.",
            key="over_long",
        )
    return budget

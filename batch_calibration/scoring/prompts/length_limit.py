"""Fits prompts to the model's positions, as the setting `over_long` asks, and counts changes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.inputs import LazyTexts
from batch_calibration.settings import LengthPolicy

UNLIKE_CONTEXTS = (
    "† Long prompts were shortened separately, so the context of a shortened row differs from the "
    "context of cc's and dc's probes and of the other rows that bc, pc and bcl use. The bias that "
    "they remove may not be its bias. over_long=same_context keeps one context for all."
)


class TokenCounter(Protocol):
    """The positions of a model, and the positions that a prompt and its labels need."""

    @property
    def positions(self) -> int:
        """The number of positions of the model."""

    def positions_needed(self, texts: Sequence[str], labels: Sequence[str]) -> list[int]:
        """Returns the positions that each text needs with its longest label."""

    def truncate_left(self, text: str, tokens: int) -> str:
        """Truncates a text by its first `tokens` tokens."""


class Fitted(NamedTuple):
    """Texts that fit the model, and the number of changed texts."""

    texts: Sequence[str]  # one for each row
    dropped: int  # number of rows with fewer demonstrations
    truncated: int  # number of rows with a text cut on the left


def fit_prompts(
    policy: LengthPolicy,
    budget: TokenCounter | None,
    render: Callable[[int, int], str],
    rows: int,
    shots: int,
    labels: Sequence[str],
) -> Fitted:
    """Renders every row so that it fits the model, and counts the changes.

    `drop_shots` drops demonstrations from the front, one at a time and separately for each row,
    until the row fits. A row that is too long without demonstrations is cut on the left by
    `truncate_left`, so that prompt and labels just fit. `same_context` only cuts rows:
    `common_skip` decides the demonstrations that all rows drop. `error` changes nothing: the scorer
    refuses prompts that do not fit.

    Args:
        policy: the setting `over_long`.
        budget: the model's positions and tokenizer; not needed for `error`.
        render: maps `(row, skip)` to a row's prompt without the first `skip` demonstrations.
        rows: number of rows.
        shots: number of demonstrations.
        labels: label texts, for the positions that they need.
    """
    # Only shortened rows are kept as text. All others are rendered on access.
    changed: dict[int, str] = {}
    texts = LazyTexts(rows, lambda row: changed[row] if row in changed else render(row, 0))
    # This policy does not need the token counts, which take time.
    if policy == "error":
        return Fitted(texts, 0, 0)
    budget = _require(budget, policy)

    def too_long(candidates: Sequence[int]) -> dict[int, int]:
        """Maps each row that does not fit to the number of positions that it lacks."""
        prompts = LazyTexts(len(candidates), lambda i: texts[candidates[i]])
        needs = budget.positions_needed(prompts, labels) if candidates else []
        excesses = np.array(needs, int) - budget.positions
        return {candidates[i]: int(excesses[i]) for i in np.flatnonzero(excesses > 0).tolist()}

    over = too_long(range(rows))
    dropped = len(over) if policy == "drop_shots" and shots else 0
    # Each pass drops one more demonstration, only from rows that do not fit yet.
    for skip in range(1, shots + 1 if dropped else 1):
        for row in over:
            changed[row] = render(row, skip)
        over = too_long([*over])
    truncated = len(over)
    # The rest of a cut text may tokenize differently, so its tokens are counted again.
    while over:
        for row, excess in over.items():
            changed[row] = budget.truncate_left(texts[row], excess)
            # An empty prompt cannot be scored.
            if not changed[row].strip():
                expected = f"labels that fit the {budget.positions} positions without the text"
                raise InputError.at(f"row {row}", expected, "longer ones", "use shorter words")
        over = too_long([*over])
    return Fitted(texts, dropped, truncated)


def common_skip(
    budget: TokenCounter | None,
    blocks: Sequence[tuple[Callable[[int, int], str], int]],
    shots: int,
    labels: Sequence[str],
) -> int:
    """Returns the number of demonstrations that all prompts of a context drop so that each fits.

    If a prompt is too long even without demonstrations, all are dropped. `blocks` holds for each
    block a function from `(row, skip)` to a row's prompt, and the number of rows.
    """
    budget = _require(budget, "same_context")
    over = []
    for render, rows in blocks:
        over += [(render, row) for row in range(rows)]
    # A row that fits also fits with fewer demonstrations, so only the others are counted again.
    for skip in range(shots):
        needs = budget.positions_needed([render(row, skip) for render, row in over], labels)
        over = [over[i] for i, need in enumerate(needs) if need > budget.positions]
        if not over:
            return skip
    return shots


def shortening_notes(policy: object, shots: int | None, shortened: int) -> tuple[str, ...]:
    """Returns notes for readers of the scores if prompts were shortened separately."""
    return (UNLIKE_CONTEXTS,) if shots and shortened and policy != "same_context" else ()


def _require(budget: TokenCounter | None, policy: LengthPolicy) -> TokenCounter:
    if budget is None:
        remedy = f"give {spell('model')} ({spell('tokenizer')} for a server), or 'error'"
        expected = "the model's tokenizer, which counts tokens"
        raise InputError.at("", expected, f"none for {policy!r}", remedy, "over_long")
    return budget

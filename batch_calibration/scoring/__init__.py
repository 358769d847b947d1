"""From texts to label scores: what every scorer takes and gives."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float32, Int32

LogProbs = Float32[np.ndarray, "n k"]
TokenCounts = Int32[np.ndarray, "n"]


class Scores(NamedTuple):
    """What a scorer says of `n` texts and `k` labels.

    Attributes:
        log_probs: Log-score of each label given each text, in nats.
        tokens: Tokens of each text as the model read it, label left out.
        failed: Rows that could not be read, and a sentence on each; their scores are NaN.
    """

    log_probs: LogProbs
    tokens: TokenCounts
    failed: Mapping[int, str] = MappingProxyType({})


class Scorer(Protocol):
    """Asks a model once about every text and label."""

    notes: list[str]
    """What a person should hear of the run, once it is over."""

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides the numbers, as plain JSON: it is part of a stored context's id."""
        ...

    def score(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Scores:
        """Score each label for each text; `progress` hears how many rows are done so far."""
        ...

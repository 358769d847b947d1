"""What every scorer takes and gives: texts or images and labels in, label scores out."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float32, Int32

from batch_calibration.inputs import ImageInputs, ImageRef, Inputs

__all__ = ["ImageInputs", "ImageRef", "Inputs", "LabelScores", "LabelTexts", "Scorer"]

LogProbs = Float32[np.ndarray, "n k"]
TokenCounts = Int32[np.ndarray, "n"]
Identity = dict[str, str | int | float | bool]


LabelTexts = Sequence[str | Sequence[str]]
"""`k` labels, each one text or several that stand for it together."""


class LabelScores(NamedTuple):
    """Scores of `n` inputs and `k` labels.

    Attributes:
        log_probs: Log-score of each label given each input, in nats.
        tokens: Tokens of each input as the model read it, label left out.
        failed: Rows that could not be read, and a sentence on each; their scores are NaN.
    """

    log_probs: LogProbs
    tokens: TokenCounts
    failed: Mapping[int, str] = MappingProxyType({})


class Scorer(Protocol):
    """Asks a model once about every input and label."""

    notes: list[str]
    """Sentences to print once the run is over."""

    @property
    def identity(self) -> Identity:
        """All that decides the numbers, as plain JSON: it is part of a stored context's id."""
        ...

    def score(
        self,
        inputs: Inputs,
        labels: LabelTexts,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> LabelScores:
        """Score each label for each input; `progress` is called with the rows done so far.

        Raises:
            InputError: inputs or labels that the model cannot score.
        """
        ...

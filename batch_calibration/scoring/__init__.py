"""The contract of every scorer: texts or images and labels in, label scores out."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float32, Int32

from batch_calibration.errors import InputError
from batch_calibration.scoring.inputs import ImageInputs as ImageInputs
from batch_calibration.scoring.inputs import ImageRef as ImageRef
from batch_calibration.scoring.inputs import Inputs as Inputs

LogProbs = Float32[np.ndarray, "n k"]
TokenCounts = Int32[np.ndarray, "n"]
Identity = dict[str, str | int | float | bool]


LabelTexts = Sequence[str | Sequence[str]]
"""`k` labels, each one text or several surface forms."""


class LabelScores(NamedTuple):
    """Scores of `n` inputs and `k` labels.

    Attributes:
        log_probs: Log-score of each label given each input, in nats.
        tokens: Tokens of each input as the model read it, label left out.
        failed: Rows that could not be read, and a sentence on each; their scores are NaN.
        is_filled: Which scores are put where a server returned none; None for no such scores.
    """

    log_probs: LogProbs
    tokens: TokenCounts
    failed: Mapping[int, str] = MappingProxyType({})
    is_filled: Bool[np.ndarray, "n k"] | None = None


class NoAnswer(InputError):
    """The server failed, for reasons unrelated to the rows or labels."""


class Refused(InputError):
    """A server refuses this one prompt for good: its row has no scores, and others have theirs.

    Attributes:
        is_of_prompt: whether the server says that the prompt is why, as content filters do.
    """

    is_of_prompt = False


class Finished(Protocol):
    """Rows that are scored already, and where batches are kept as they come."""

    @property
    def rows(self) -> Mapping[int, np.ndarray]:
        """Values of each finished row, as they were added."""

    @property
    def failed(self) -> Mapping[int, str]:
        """A sentence on each row that could not be read."""

    def add(
        self, rows: Sequence[int], values: np.ndarray, failed: Mapping[int, str] = ..., /
    ) -> None:
        """Keep a batch that is finished."""


class NothingFinished:
    """No row is scored yet, and nothing is kept."""

    # shared by all, so that it cannot be written
    rows: Mapping[int, np.ndarray] = MappingProxyType({})
    failed: Mapping[int, str] = MappingProxyType({})

    def add(
        self, rows: Sequence[int], values: np.ndarray, failed: Mapping[int, str] = failed, /
    ) -> None:
        """Nothing."""


NOTHING_FINISHED = NothingFinished()


class Scorer(Protocol):
    """Asks a model once about every input and label."""

    notes: list[str]
    """Sentences to print once the run is over."""

    @property
    def identity(self) -> Identity:
        """All that decides the numbers, as plain JSON: it is part of a stored context's id."""

    def score(
        self,
        inputs: Inputs,
        labels: LabelTexts,
        *,
        progress: Callable[[int], None] | None = None,
        finished: Finished = NOTHING_FINISHED,
    ) -> LabelScores:
        """Score each label for each input; `progress` is called with the rows done so far.

        Batches are planned from the inputs alone, and those whose rows are all `finished` are left
        out: a run that goes on gives the very numbers of one that was never stopped.

        Raises:
            InputError: inputs or labels that the model cannot score.
        """

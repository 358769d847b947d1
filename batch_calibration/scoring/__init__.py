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
"""`k` labels; each is one text or several surface forms."""


class LabelScores(NamedTuple):
    """Scores of `n` inputs and `k` labels.

    Attributes:
        log_probs: Log-score of each label given each input, in nats.
        tokens: Number of tokens of each input as the model reads it, without the label.
        failed: Rows that could not be read, with a sentence on each; their scores are NaN.
        is_filled: Whether each score was filled in because the server did not return it; None
            for scorers that fill in no scores.
    """

    log_probs: LogProbs
    tokens: TokenCounts
    failed: Mapping[int, str] = MappingProxyType({})
    is_filled: Bool[np.ndarray, "n k"] | None = None


class NoAnswer(InputError):
    """An error of the server that is unrelated to the rows and labels."""


class Refused(InputError):
    """The final refusal of one prompt by a server: this row has no scores, other rows do.

    Attributes:
        is_of_prompt: whether the server names the prompt as the reason, as content filters do.
    """

    is_of_prompt = False


class Finished(Protocol):
    """Rows with scores from an earlier run, and a store for new batches."""

    @property
    def rows(self) -> Mapping[int, np.ndarray]:
        """The values of each finished row, as they were added."""

    @property
    def failed(self) -> Mapping[int, str]:
        """A sentence on each row that could not be read."""

    def add(
        self, rows: Sequence[int], values: np.ndarray, failed: Mapping[int, str] = ..., /
    ) -> None:
        """Stores a finished batch."""


class NothingFinished:
    """A store without finished rows that keeps nothing."""

    # All instances share these mappings, so they are read-only.
    rows: Mapping[int, np.ndarray] = MappingProxyType({})
    failed: Mapping[int, str] = MappingProxyType({})

    def add(
        self, rows: Sequence[int], values: np.ndarray, failed: Mapping[int, str] = failed, /
    ) -> None:
        """Ignores the batch."""


NOTHING_FINISHED = NothingFinished()


class Scorer(Protocol):
    """Asks a model once about every input and label."""

    notes: list[str]
    """Sentences to print after the run."""

    @property
    def identity(self) -> Identity:
        """Everything that determines the scores, as plain JSON: part of a stored context's id."""

    def score(
        self,
        inputs: Inputs,
        labels: LabelTexts,
        *,
        progress: Callable[[int], None] | None = None,
        finished: Finished = NOTHING_FINISHED,
    ) -> LabelScores:
        """Scores each label for each input; `progress` receives the number of rows done so far.

        Batches depend only on the inputs. Batches with only `finished` rows are skipped. A resumed
        run therefore returns exactly the scores of an uninterrupted run.

        Raises:
            InputError: the model cannot score an input or a label.
        """

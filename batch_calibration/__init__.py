"""Batch Calibration: ask a language model once, then remove its label bias for free.

    from batch_calibration import calibrate
    corrected = calibrate(scores)                  # scores[n, k]: log p(label | prompt), in nats

`METHODS` is the paper's comparison as a dict: every method learns a bias and removes it.
"""

from typing import TYPE_CHECKING, Any

from batch_calibration.api import calibrate
from batch_calibration.calibration.base import Calibrator, predict
from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, Method
from batch_calibration.metrics import (
    accuracy,
    balanced_accuracy,
    bias_score,
    bootstrap_interval,
    brier,
    ece,
    macro_f1,
    nll,
    rsd,
    summary,
    total_variation,
)

if TYPE_CHECKING:
    from batch_calibration.scores import ScoreTable

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Calibrator",
    "InputError",
    "Method",
    "ScoreTable",
    "accuracy",
    "balanced_accuracy",
    "bias_score",
    "bootstrap_interval",
    "brier",
    "calibrate",
    "ece",
    "macro_f1",
    "nll",
    "predict",
    "rsd",
    "summary",
    "total_variation",
]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: reading files is no part of calibrating an array.
    if name == "ScoreTable":
        from batch_calibration.scores import ScoreTable

        return ScoreTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

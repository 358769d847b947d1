"""Batch Calibration removes a language model's label bias from its scores, without more calls.

    from batch_calibration import calibrate
    corrected = calibrate(scores)                  # scores[n, k]: log p(label | prompt), in nats

`METHODS` is the paper's comparison as a dict: every method learns a bias and removes it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from batch_calibration.version import __version__

if TYPE_CHECKING:
    from batch_calibration.api import calibrate, ensemble
    from batch_calibration.calibration.base import Calibrator, predict
    from batch_calibration.calibration.temperature import fit_temperature
    from batch_calibration.diagnosis import (
        Advice,
        Comparison,
        Diagnosis,
        compare,
        load_advice,
        save_advice,
    )
    from batch_calibration.diagnosis.diagnose import diagnose
    from batch_calibration.diagnosis.labeling import rows_to_label
    from batch_calibration.diagnosis.recommend import recommend, recommend_together
    from batch_calibration.diagnosis.threshold import Threshold, choose_threshold
    from batch_calibration.errors import InputError
    from batch_calibration.importers import Reading, read
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
    from batch_calibration.reporting.figures.preferences import plot
    from batch_calibration.scores import ScoreTable
    from batch_calibration.studies import load_results

_HOMES = {
    "api": "calibrate ensemble",
    "reporting.figures.preferences": "plot",
    "calibration.base": "Calibrator predict",
    "calibration.temperature": "fit_temperature",
    "diagnosis": "Advice Comparison Diagnosis compare diagnose load_advice recommend save_advice",
    "diagnosis.labeling": "rows_to_label",
    "diagnosis.recommend": "recommend_together",
    "diagnosis.threshold": "Threshold choose_threshold",
    "errors": "InputError",
    "importers": "Reading read",
    "methods": "METHODS Method",
    "metrics": (
        "accuracy balanced_accuracy bias_score bootstrap_interval brier ece macro_f1 nll rsd "
        "summary total_variation"
    ),
    "studies": "load_results",
    "scores": "ScoreTable",
}
"""Module -> its public names. They are loaded on first use, so that help does not load JAX."""

__all__ = [
    "METHODS", "Advice", "Calibrator", "Comparison", "Diagnosis", "InputError", "Method", "Reading",
    "ScoreTable", "Threshold", "__version__", "accuracy", "balanced_accuracy", "bias_score",
    "bootstrap_interval", "brier", "calibrate", "choose_threshold", "compare", "diagnose", "ece",
    "ensemble", "fit_temperature", "load_advice", "load_results", "macro_f1", "nll", "plot",
    "predict", "read", "recommend", "recommend_together", "rows_to_label", "rsd", "save_advice",
    "summary", "total_variation",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"batch_calibration.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]

"""Runs a study: scores its contexts with a model, and calibrates what is stored."""

from importlib import import_module
from typing import TYPE_CHECKING

from batch_calibration.study.calibration import run_calibration
from batch_calibration.study.stored import CalibrationReport, calibrate_store, calibrate_study

if TYPE_CHECKING:
    from batch_calibration.study.scoring import (
        ScoringProgress,
        ScoringReport,
        render_contexts,
        run_scoring,
    )

__all__ = [
    "CalibrationReport",
    "ScoringProgress",
    "ScoringReport",
    "calibrate_store",
    "calibrate_study",
    "render_contexts",
    "run_calibration",
    "run_scoring",
]


def __getattr__(name: str) -> object:
    # Loaded when asked for: who has scores needs no Flax.
    if name in __all__:
        return getattr(import_module("batch_calibration.study.scoring"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

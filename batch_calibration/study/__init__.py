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
    from batch_calibration.study.workers import SweepReport, Work, sweep

__all__ = [
    "CalibrationReport",
    "ScoringProgress",
    "ScoringReport",
    "SweepReport",
    "Work",
    "calibrate_store",
    "calibrate_study",
    "render_contexts",
    "run_calibration",
    "run_scoring",
    "sweep",
]


def __getattr__(name: str) -> object:
    # Loaded when asked for: who has scores needs no Flax.
    if name in __all__:
        module = "workers" if name in ("SweepReport", "Work", "sweep") else "scoring"
        return getattr(import_module(f"batch_calibration.study.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Runs a study: scores its contexts with a model, and calibrates what is stored."""

from batch_calibration.study.calibration import run_calibration
from batch_calibration.study.scoring import (
    ScoringProgress,
    ScoringReport,
    render_contexts,
    run_scoring,
)
from batch_calibration.study.stored import CalibrationReport, calibrate_store

__all__ = [
    "CalibrationReport",
    "ScoringProgress",
    "ScoringReport",
    "calibrate_store",
    "render_contexts",
    "run_calibration",
    "run_scoring",
]

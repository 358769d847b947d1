"""Runs a study: scores its contexts with a model, and calibrates what is stored."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batch_calibration.study.calibration import run_calibration
    from batch_calibration.study.scoring import (
        ScoringProgress,
        ScoringReport,
        render_contexts,
        run_scoring,
    )
    from batch_calibration.study.stored import CalibrationReport, calibrate_store, calibrate_study
    from batch_calibration.study.workers import SweepReport, Work, sweep

_HOMES = {
    "calibration": ("run_calibration",),
    "scoring": ("ScoringProgress", "ScoringReport", "render_contexts", "run_scoring"),
    "stored": ("CalibrationReport", "calibrate_store", "calibrate_study"),
    "workers": ("SweepReport", "Work", "sweep"),
}
"""Module -> its names, loaded when asked for: scores need no Flax, and a model no methods."""

__all__ = [
    "CalibrationReport", "ScoringProgress", "ScoringReport", "SweepReport", "Work",
    "calibrate_store", "calibrate_study", "render_contexts", "run_calibration", "run_scoring",
    "sweep",
]  # fmt: skip


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"batch_calibration.study.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

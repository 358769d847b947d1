"""Runs a study: scores its contexts with a model, and calibrates what is stored."""

from batch_calibration.study.scoring import (
    ScoringProgress,
    ScoringReport,
    render_contexts,
    run_scoring,
)

__all__ = ["ScoringProgress", "ScoringReport", "render_contexts", "run_scoring"]

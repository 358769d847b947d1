"""Metrics, their confidence intervals, and decision boundaries."""

from batch_calibration.calibration.base import predict
from batch_calibration.calibration.objective import accuracy, balanced_accuracy, macro_f1
from batch_calibration.metrics.boundary import decision_margin
from batch_calibration.metrics.intervals import (
    OF_ACCURACY,
    OF_GAIN,
    Estimate,
    accuracy_interval,
    accuracy_of,
    balanced_accuracy_interval,
    bootstrap_interval,
    deviation,
    gain_interval,
    gain_of,
    mean_recall_interval,
    over_rows,
    over_tasks,
)
from batch_calibration.metrics.reliability import Reliability, measure_reliability
from batch_calibration.metrics.selective import aurc, coverage_at_5, order_flip_rate
from batch_calibration.metrics.table import (
    bias_score,
    brier,
    ece,
    measure,
    nll,
    rsd,
    summary,
    total_variation,
    with_intervals,
)

__all__ = [
    "OF_ACCURACY", "OF_GAIN", "Estimate", "Reliability", "accuracy", "accuracy_interval",
    "accuracy_of", "aurc", "balanced_accuracy", "balanced_accuracy_interval", "bias_score",
    "bootstrap_interval", "brier", "coverage_at_5", "decision_margin", "deviation", "ece",
    "gain_interval", "gain_of", "macro_f1", "mean_recall_interval", "measure",
    "measure_reliability", "nll", "order_flip_rate", "over_rows", "over_tasks", "predict", "rsd",
    "summary", "total_variation", "with_intervals",
]  # fmt: skip

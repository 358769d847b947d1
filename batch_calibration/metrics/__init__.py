"""The table of metrics, their intervals, and decision boundaries."""

from batch_calibration.metrics.boundary import decision_margin
from batch_calibration.metrics.intervals import (
    OF_ACCURACY,
    OF_GAIN,
    Estimate,
    accuracy_interval,
    balanced_accuracy_interval,
    deviation,
    gain_interval,
    mean_recall_interval,
    over_rows,
    over_tasks,
)
from batch_calibration.metrics.selective import aurc, coverage_at_5, order_flip_rate
from batch_calibration.metrics.table import (
    accuracy,
    balanced_accuracy,
    bias_score,
    bootstrap_interval,
    brier,
    ece,
    macro_f1,
    measure,
    nll,
    predict,
    rsd,
    summary,
    total_variation,
    with_intervals,
)

__all__ = [
    "OF_ACCURACY", "OF_GAIN", "Estimate", "accuracy", "accuracy_interval", "aurc",
    "balanced_accuracy", "balanced_accuracy_interval", "bias_score", "bootstrap_interval", "brier",
    "coverage_at_5", "decision_margin", "deviation", "ece", "gain_interval", "macro_f1",
    "mean_recall_interval", "measure", "nll", "order_flip_rate", "over_rows", "over_tasks",
    "predict", "rsd", "summary", "total_variation", "with_intervals",
]  # fmt: skip

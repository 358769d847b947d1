"""The bias of scores, its uncertainty, and the correction to use."""

from batch_calibration.diagnosis.comparison import Comparison, MethodResult, compare
from batch_calibration.diagnosis.diagnose import (
    DISTANCES,
    centered_error,
    diagnose,
    prediction_range,
    range_of_predictions,
)
from batch_calibration.diagnosis.diagnosis import Diagnosis, Right
from batch_calibration.diagnosis.gain import (
    LabelScores,
    Margins,
    break_even_shares,
    expected_accuracy,
    expected_gain,
)
from batch_calibration.diagnosis.margins import (
    MixtureFit,
    estimate_gain,
    fit_label_scores,
    fit_margins,
    fit_mixture,
)
from batch_calibration.diagnosis.recommend import recommend, signals
from batch_calibration.diagnosis.recommendation import LEAVE, Recommendation

__all__ = [
    "DISTANCES", "LEAVE", "Comparison", "Diagnosis", "LabelScores", "Margins", "MethodResult",
    "MixtureFit", "Recommendation", "Right", "break_even_shares", "centered_error", "compare",
    "diagnose", "estimate_gain", "expected_accuracy", "expected_gain", "fit_label_scores",
    "fit_margins", "fit_mixture", "prediction_range", "range_of_predictions", "recommend",
    "signals",
]  # fmt: skip

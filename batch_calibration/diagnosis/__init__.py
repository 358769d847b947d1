"""What is biased, how sure that is, and which correction to use."""

from batch_calibration.diagnosis.diagnose import diagnose
from batch_calibration.diagnosis.findings import Diagnosis, Right
from batch_calibration.diagnosis.recommend import LEAVE, Recommendation, recommend, signals
from batch_calibration.diagnosis.stability import centered_error

__all__ = [
    "LEAVE", "Diagnosis", "Recommendation", "Right", "centered_error", "diagnose", "recommend",
    "signals",
]  # fmt: skip

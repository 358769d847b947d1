"""Typed settings of a study, and grids of them."""

from batch_calibration.settings.sections import (
    ApiScores,
    ApiSettings,
    CalibrationSettings,
    DataSettings,
    LengthPolicy,
    ModelSettings,
    PromptSettings,
    ScorerKind,
)
from batch_calibration.settings.study_settings import (
    PARTS,
    Cell,
    Settings,
    Study,
    combinations,
    gather,
    grid,
    keys,
    varied,
)

__all__ = [
    "PARTS", "ApiScores", "ApiSettings", "CalibrationSettings", "Cell", "DataSettings",
    "LengthPolicy", "ModelSettings", "PromptSettings", "ScorerKind", "Settings", "Study",
    "combinations", "gather", "grid", "keys", "varied",
]  # fmt: skip

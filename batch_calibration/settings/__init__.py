"""Typed settings of a study, and grids of them."""

from batch_calibration.settings.grids import Study, combinations, gather, grid, varied
from batch_calibration.settings.sections import (
    PARTS,
    ApiScores,
    ApiSettings,
    CalibrationSettings,
    Cell,
    DataSettings,
    LengthPolicy,
    ModelSettings,
    PromptSettings,
    ScorerKind,
    Settings,
    keys,
)

__all__ = [
    "PARTS",
    "ApiScores",
    "ApiSettings",
    "CalibrationSettings",
    "Cell",
    "DataSettings",
    "LengthPolicy",
    "ModelSettings",
    "PromptSettings",
    "ScorerKind",
    "Settings",
    "Study",
    "combinations",
    "gather",
    "grid",
    "keys",
    "varied",
]

"""Studies: what a workdir keeps, scoring of its contexts, and calibration of what is stored."""

from importlib import import_module
from typing import TYPE_CHECKING

from batch_calibration.files import Number, csv_text

if TYPE_CHECKING:
    from batch_calibration.studies.calibration import (
        CalibrationReport,
        calibrate_store,
        calibrate_study,
        run_calibration,
    )
    from batch_calibration.studies.merging import merge_workdirs
    from batch_calibration.studies.records import (
        VERSION,
        ByRows,
        ContextInfo,
        Curve,
        Record,
        Result,
        ScorerInfo,
        pack,
        unpack,
    )
    from batch_calibration.studies.runs import Run
    from batch_calibration.studies.scoring import (
        ScoringProgress,
        ScoringReport,
        render_contexts,
        run_scoring,
    )
    from batch_calibration.studies.store import Store, load_results, write_results
    from batch_calibration.studies.tidy import KINDS, Records
    from batch_calibration.studies.workers import SweepReport, Work, sweep

_HOMES = {
    "calibration": "CalibrationReport calibrate_store calibrate_study run_calibration",
    "merging": "merge_workdirs",
    "records": "VERSION ByRows ContextInfo Curve Record Result ScorerInfo pack unpack",
    "runs": "Run",
    "scoring": "ScoringProgress ScoringReport render_contexts run_scoring",
    "store": "Store load_results write_results",
    "tidy": "KINDS Records",
    "workers": "SweepReport Work sweep",
}
"""Module -> its names, loaded when asked for: scores need no Flax, and a model no methods."""

__all__ = [
    "KINDS", "VERSION", "ByRows", "CalibrationReport", "ContextInfo", "Curve", "Number",
    "Record", "Records", "Result", "Run", "ScorerInfo", "ScoringProgress", "ScoringReport",
    "Store", "SweepReport", "Work", "calibrate_store", "calibrate_study", "csv_text",
    "load_results", "merge_workdirs", "pack", "render_contexts", "run_calibration",
    "run_scoring", "sweep", "unpack", "write_results",
]  # fmt: skip


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"batch_calibration.studies.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
